// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/inference_front.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/log_allowance.h"
#include "base/mutex.h"
#include "base/version.h"
#include "base/yaml/problems.h"
#include "gateway/http/tenants_bodies.h"
#include "gateway/metrics.h"
#include "gateway/protocol/v2.h"

namespace spillway::gateway {
namespace {

using HttpRequest = api::Request;
using api::Responder;
using api::Response;

constexpr uint64_t kMaxOtherBody = 4096;  // of what has no use for one
// Bytes of JSON that HTTP's thread reads or writes itself: some 0.1 ms, which others wait.
constexpr uint64_t kMaxOwnText = 8 << 10;

void Respond(const Responder& respond, Response response) {
  respond([response = std::move(response)]() mutable { return std::move(response); });
}

void Respond(const Responder& respond, const nlohmann::json& json, int status = 200) {
  Respond(respond, Response{.status = status, .body = json.dump()});
}

Response ErrorOf(Status status, std::string_view message, std::chrono::milliseconds retry_after = {}) {
  Response response{.status = FactsOf(status).http, .body = V2Error(message)};
  // 499 is nginx's word for a client that went; nobody is there to read it.
  if (response.status == 503) {
    const auto seconds = std::max<int64_t>(1, (retry_after.count() + 999) / 1000);
    response.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

// From any thread.
class RefusalLog {
 public:
  void Tell(const HttpRequest& request, std::string_view message) SPILLWAY_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    const auto kept_back = allowance_.Ask(std::chrono::steady_clock::now());
    if (!kept_back) return;
    if (*kept_back > 0) spdlog::info("http: {} more requests were refused", *kept_back);
    spdlog::info("http: {} {}: {}", yaml::Excerpt(request.method), yaml::Excerpt(request.path), message);
  }

 private:
  base::Mutex mutex_;
  base::LogAllowance allowance_ SPILLWAY_GUARDED_BY(mutex_);
};

constexpr const char* kNoTenant = "expected a tenant's token (Authorization: Bearer TOKEN)";

// `respond`, with what is let go once the answer is sent, or never will be.
Responder Keeping(const Responder& respond, const std::shared_ptr<const void>& kept) {
  return [respond, kept](std::function<Response()> make) {
    respond([make = std::move(make), kept] {
      Response response = make();
      response.keeper = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
          std::move(response.keeper), kept);
      return response;
    });
  };
}

// Memory of an answer, from the answer until all of it is sent: first the outputs and the most that their
// text may take, as was agreed to when it was asked for. Made on the gateway's thread; goes on any.
class HeldBytes {
 public:
  HeldBytes(Server& server, uint64_t bytes, uint32_t tenant)
      : server_(server), bytes_(bytes), account_{tenant, Front::kHttp} {
    server_.broker().Hold(bytes, account_);
  }
  ~HeldBytes() {
    server_.Post(
        [&server = server_, bytes = bytes_, account = account_] { server.broker().Release(bytes, account); });
  }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  // The body that was made of them stays instead. Not from two threads at a time. Little is not worth waking
  // the gateway for.
  void Become(uint64_t bytes) {
    if (bytes <= bytes_ + kMaxUncounted && bytes_ <= bytes + kMaxUncounted) return;
    server_.Post([&server = server_, old = bytes_, bytes, account = account_] {
      server.broker().Hold(bytes, account);
      server.broker().Release(old, account);
    });
    bytes_ = bytes;
  }

 private:
  static constexpr uint64_t kMaxUncounted = 4096;  // of one answer; there is one at a time on a connection
  Server& server_;
  uint64_t bytes_;
  const Account account_;
};

class HttpFront {
 public:
  // `text`: nullptr where there is no inference, only health.
  HttpFront(Server& server, TextWorkers* text) : server_(server), text_(text) {}

  void Handle(HttpRequest request, const Responder& respond) {
    const auto parts = api::PathParts(request.path);
    const bool get = request.method == "GET", post = request.method == "POST";
    const auto is = [&](std::initializer_list<std::string_view> path) {
      return std::equal(parts.begin(), parts.end(), path.begin(), path.end());
    };
    if (is({"metrics"}) || is({"v2"}) || is({"v2", "health", "live"}) || is({"v2", "health", "ready"})) {
      if (!get) return NotAllowed(respond, "GET");
      if (parts[0] == "metrics") return Metrics(respond);
      if (parts.size() == 1) return Respond(respond, V2ServerMetadata(std::string(base::Version())));
      return parts[2] == "live" ? Respond(respond, {{"live", true}}) : Ready(respond);
    }
    if (text_ != nullptr && is({"v2", "repository", "index"}))
      return post ? Index(request, respond) : NotAllowed(respond, "POST");
    // /v2/models/NAME[/versions/VERSION][/ready|/infer]
    if (text_ == nullptr || parts.size() < 3 || parts[0] != "v2" || parts[1] != "models")
      return NotFound(request, respond);
    size_t next = 3;
    std::string version;
    if (parts.size() > 4 && parts[3] == "versions") {
      version = parts[4];
      next = 5;
    }
    const std::string verb = parts.size() > next ? parts[next] : "";
    if (parts.size() > next + 1 || (!verb.empty() && verb != "ready" && verb != "infer"))
      return NotFound(request, respond);
    const auto models = server_.Models();
    const auto found = std::find_if(models->begin(), models->end(),
                                    [&](const auto& model) { return model.card->name == parts[2]; });
    // After a start: which models there are is not known yet, and who asks should ask again.
    if (models->empty() && verb == "infer")
      return Refuse(request, respond, Status::kNoSlice, "no executor connected yet");
    if (found == models->end() || (!version.empty() && version != found->card->version))
      return Refuse(request, respond, Status::kNoModel,
                    fmt::format("no executor has a model {}{}", yaml::Excerpt(parts[2]),
                                version.empty() ? "" : " of version " + yaml::Excerpt(version)));
    if (verb == "infer") {
      if (!post) return NotAllowed(respond, "POST");
      return Infer(std::move(request), respond, *found);
    }
    if (!get) return NotAllowed(respond, "GET");
    if (verb == "ready") return ModelReady(respond, *found);
    Respond(respond, V2ModelMetadata(*found->card));
  }

 private:
  void Refuse(const HttpRequest& request, const Responder& respond, Status status,
              const std::string& message) {
    log_.Tell(request, message);
    server_.CountRefused(Front::kHttp, status);
    Respond(respond, ErrorOf(status, message));
  }
  void NotFound(const HttpRequest& request, const Responder& respond) {
    log_.Tell(request, "not found");
    Respond(respond, {{"error", "not found"}}, 404);
  }
  void NotAllowed(const Responder& respond, const char* allow) {
    Response response{.status = 405, .body = V2Error(std::string("expected ") + allow)};
    response.allow = allow;
    Respond(respond, std::move(response));
  }

  void NotSpoken(const HttpRequest& request, const Responder& respond, const std::string& coding) {
    const std::string message = fmt::format("Content-Encoding: expected none, got {}", yaml::Excerpt(coding));
    log_.Tell(request, message);
    server_.CountRefused(Front::kHttp, Status::kBadRequest);
    Response response{.status = 415, .body = V2Error(message)};
    response.headers.emplace_back("Accept-Encoding", "identity");
    Respond(respond, std::move(response));
  }

  void Metrics(const Responder& respond) {
    server_.Post([this, respond] {
      Response response;
      response.body = MetricsText(server_.broker(), server_.counts()) + server_.fleet_metrics();
      response.content_type = "text/plain; version=0.0.4";
      Respond(respond, std::move(response));
    });
  }

  void Ready(const Responder& respond) {
    server_.Post([this, respond] {
      const bool ready = server_.IsReady();
      Respond(respond, {{"ready", ready}}, ready ? 200 : 503);
    });
  }

  void ModelReady(const Responder& respond, const Broker::NumberedCard& model) {
    server_.Post([this, respond, model] {
      const bool ready = server_.broker().ModelReady(model.index);
      Respond(respond, {{"name", model.card->name}, {"ready", ready}}, ready ? 200 : 503);
    });
  }

  // Every tenant may ask every model.
  void Index(const HttpRequest& request, const Responder& respond) {
    if (!TenantOf(server_.config(), request)) return Refuse(request, respond, Status::kDenied, kNoTenant);
    const auto ready_alone = ParseV2IndexRequest(request.body);
    if (!ready_alone) return Refuse(request, respond, Status::kBadRequest, ready_alone.error().message);
    server_.Post([this, respond, ready_alone = *ready_alone] {
      nlohmann::json index = nlohmann::json::array();
      for (const auto& model : server_.broker().Cards()) {
        const bool is_ready = server_.broker().ModelReady(model.index);
        if (is_ready || !ready_alone) index.push_back(V2IndexEntry(*model.card, is_ready));
      }
      Respond(respond, index);
    });
  }

  void Infer(HttpRequest request, const Responder& respond_alone, const Broker::NumberedCard& model) {
    const Time came = Server::Now();
    const Responder respond = Keeping(respond_alone, server_.Unfinished());
    if (const auto coding = request.headers.find("content-encoding");
        coding != request.headers.end() && coding->second != "identity")
      return NotSpoken(request, respond, coding->second);
    const auto tenant = TenantOf(server_.config(), request);
    if (!tenant) return Refuse(request, respond, Status::kDenied, kNoTenant);
    std::optional<uint64_t> json_bytes;
    if (const auto header = request.headers.find("inference-header-content-length");
        header != request.headers.end()) {
      uint64_t value = 0;
      const char* end = header->second.data() + header->second.size();
      const auto [rest, error] = std::from_chars(header->second.data(), end, value);
      if (error != std::errc() || rest != end)
        return Refuse(request, respond, Status::kBadRequest,
                      "Inference-Header-Content-Length: expected a number of bytes");
      json_bytes = value;
    }
    // What `ask` gets is shared, as a std::function is copied.
    const uint64_t text_bytes = json_bytes.value_or(request.body.size());
    auto asked = std::make_shared<const Asked>(Asked{std::move(request), *tenant, model, json_bytes, came});
    if (text_bytes <= kMaxOwnText) return Ask(*asked, respond);
    text_->Do(*tenant, TextWorkers::Kind::kRequest, [this, asked, respond] {
      try {
        Ask(*asked, respond);
      } catch (const std::exception& e) {
        Respond(respond, ErrorOf(Status::kFailed, e.what()));
      }
    });
  }

  // A request whose body nobody has looked into yet.
  struct Asked {
    HttpRequest request;
    uint32_t tenant;
    Broker::NumberedCard model;
    std::optional<uint64_t> json_bytes;
    Time came;
  };

  // On HTTP's thread or its tenant's worker's.
  void Ask(const Asked& asked, const Responder& respond) {
    const auto& [http, tenant, model, json_bytes, came] = asked;
    const uint64_t most = server_.config().most_request;
    auto parsed = ParseV2Request(*model.card, http.body, json_bytes, most);
    if (!parsed) return Refuse(http, respond, Status::kBadRequest, parsed.error().message);
    if (parsed->input_bytes > most)
      return Refuse(http, respond, Status::kTooLarge,
                    fmt::format("the inputs are {} bytes, larger than limits.request, {} bytes",
                                parsed->input_bytes, most));
    server_.Post([this, tenant = tenant, model = model, respond, came = came,
                  kept = std::make_shared<V2Request>(std::move(*parsed))] {
      Submit(tenant, model, kept, came, respond);
    });
  }

  // On the gateway's thread.
  void Submit(uint32_t tenant, const Broker::NumberedCard& model, const std::shared_ptr<V2Request>& kept,
              Time came, const Responder& respond) {
    const uint64_t text_bytes = MostAnswerText(*model.card, *kept);
    const uint64_t answer_bytes = model.card->OutputBytes(kept->rows) + text_bytes;
    Request asked;
    asked.tenant = tenant;
    asked.front = Front::kHttp;
    asked.model = model.index;
    asked.rows = kept->rows;
    asked.inputs = kept->inputs;
    asked.keeper = kept;
    asked.held_bytes = kept->inputs.size() + answer_bytes;
    asked.deadline = kept->timeout;
    asked.came = came;
    asked.reply = [this, tenant, card = model.card, kept, respond, text_bytes,
                   answer_bytes](const Answer& answer) {
      kept->inputs = std::vector<std::byte>();  // not counted from now on
      if (answer.status != Status::kOk)
        return Respond(respond, ErrorOf(answer.status, answer.message, answer.retry_after));
      // Bytes are copied here, where the gateway waits; text is made of them elsewhere.
      // The number of a model stands for one card: what the request was read by, the answer was made by.
      std::function<Response()> make =
          [card, kept, held = std::make_shared<HeldBytes>(server_, answer_bytes, tenant),
           outputs = std::vector<std::byte>(answer.outputs.begin(), answer.outputs.end())] {
            return ResponseOf(*card, *kept, outputs, held);
          };
      if (text_bytes <= kMaxOwnText) return respond(std::move(make));
      text_->Do(tenant, TextWorkers::Kind::kAnswer, [respond, make = std::move(make)] {
        try {
          Respond(respond, make());
        } catch (const std::exception& e) {
          Respond(respond, ErrorOf(Status::kFailed, e.what()));
        }
      });
    };
    server_.broker().Submit(std::move(asked), Server::Now());
  }

  static Response ResponseOf(const ModelCard& card, const V2Request& request,
                             const std::vector<std::byte>& outputs, const std::shared_ptr<HeldBytes>& held) {
    auto made = MakeV2Response(card, request, outputs);
    if (!made) return ErrorOf(Status::kFailed, made.error().message);
    if (made->body.size() < made->body.capacity() / 2) made->body.shrink_to_fit();
    held->Become(made->body.capacity());
    Response response;
    response.keeper = held;
    response.body = std::move(made->body);
    if (made->json_bytes) {
      response.content_type = "application/octet-stream";
      response.headers.emplace_back("Inference-Header-Content-Length", std::to_string(*made->json_bytes));
    }
    return response;
  }

  Server& server_;
  TextWorkers* const text_;
  RefusalLog log_;
};

// Of what a request's head shows: why its body may not come.
std::optional<std::pair<Status, std::string>> WhyNotAdmitted(const GatewayConfig& config,
                                                             const HttpRequest& head, uint64_t announced) {
  const auto parts = api::PathParts(head.path);
  const bool is_post = head.method == "POST" && parts.size() > 2 && parts[0] == "v2";
  const bool is_infer = is_post && parts.size() > 3 && parts.back() == "infer";
  const bool is_index = is_post && parts.size() == 3 && parts[1] == "repository" && parts[2] == "index";
  if ((is_infer || is_index) && !TenantOf(config, head)) return {{Status::kDenied, kNoTenant}};
  if (is_infer || (announced <= kMaxOtherBody && !head.headers.contains("transfer-encoding")))
    return std::nullopt;
  return {{Status::kTooLarge,
           is_index ? fmt::format("expected a body of at most {} bytes, and its length", kMaxOtherBody)
                    : std::string("expected no body")}};
}

// What HTTP refuses by itself.
Status StatusOf(int http) {
  return http == 413 ? Status::kTooLarge : http == 503 ? Status::kBusy : Status::kBadRequest;
}

}  // namespace

api::AsyncHandler InferenceFront(Server& server, TextWorkers& text) {
  auto front = std::make_shared<HttpFront>(server, &text);
  return
      [front](HttpRequest request, const Responder& respond) { front->Handle(std::move(request), respond); };
}

api::HttpLimits InferenceLimits(Server& server) {
  const GatewayConfig& config = server.config();
  api::HttpLimits limits;
  // JSON spends up to about ten characters on a number of four bytes.
  limits.body = 4 * config.most_request + (64 << 10);
  limits.bodies = BodiesOfTenants(config, limits.body);
  limits.connections = config.connections;
  limits.whole = std::chrono::ceil<std::chrono::milliseconds>(config.receive);
  limits.admit = [&server, log = std::make_shared<RefusalLog>()](
                     const HttpRequest& head, uint64_t announced) -> std::optional<Response> {
    const auto why = WhyNotAdmitted(server.config(), head, announced);
    if (!why) return std::nullopt;
    const auto& [status, message] = *why;
    log->Tell(head, fmt::format("refused with {}", FactsOf(status).http));
    server.CountRefused(Front::kHttp, status);
    return ErrorOf(status, message);
  };
  limits.error = [&server](int status, const std::string&, const std::string& message) {
    server.CountRefused(Front::kHttp, StatusOf(status));
    return Response{.status = status, .body = V2Error(message)};
  };
  limits.idle_seconds = static_cast<unsigned>(
      std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(config.idle).count()));
  return limits;
}

api::AsyncHandler HealthFront(Server& server) {
  auto front = std::make_shared<HttpFront>(server, nullptr);
  return
      [front](HttpRequest request, const Responder& respond) { front->Handle(std::move(request), respond); };
}

api::HttpLimits HealthLimits() {
  api::HttpLimits limits;
  limits.body = kMaxOtherBody;
  limits.whole = std::chrono::seconds(5);
  return limits;
}

}  // namespace spillway::gateway
