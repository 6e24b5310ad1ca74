// SPDX-License-Identifier: Apache-2.0
#include "http.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "http_framing.h"
#include "http_peers.h"
#include "http_times.h"

namespace spillway::api {
namespace {

using Core = HttpServer::Core;

// Anybody's, first come first served.
class CommonBodies : public BodyMemory {
 public:
  explicit CommonBodies(uint64_t most) : most_(most) {}
  [[nodiscard]] uint32_t OwnerOf(const Request&) override { return 0; }
  [[nodiscard]] bool HasRoom(uint32_t, uint64_t bytes) override { return held_ + bytes <= most_; }
  void Hold(uint32_t, uint64_t bytes) override { held_ += bytes; }
  void Release(uint32_t, uint64_t bytes) override { held_ -= bytes; }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> held_{0};
};

// What stays until a response is sent.
struct Sending {
  std::string body;
  std::shared_ptr<const void> keeper;
};

MHD_Result Queue(MHD_Connection* connection, Response response) {
  auto sending = std::make_unique<Sending>(Sending{std::move(response.body), std::move(response.keeper)});
  MHD_Response* out = MHD_create_response_from_buffer_with_free_callback_cls(
      sending->body.size(), sending->body.data(), [](void* sent) { delete static_cast<Sending*>(sent); },
      sending.get());
  if (out == nullptr) return MHD_NO;
  [[maybe_unused]] Sending* const owned_by_out = sending.release();
  MHD_add_response_header(out, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type.c_str());
  MHD_add_response_header(out, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  if (!response.allow.empty()) MHD_add_response_header(out, MHD_HTTP_HEADER_ALLOW, response.allow.c_str());
  for (const auto& [name, value] : response.headers)
    MHD_add_response_header(out, name.c_str(), value.c_str());
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(response.status), out);
  MHD_destroy_response(out);
  return queued;
}

Response TooLarge(const Core& core) {
  return core.limits.error(413, "bad_input",
                           fmt::format("the body is larger than {} bytes", core.limits.body));
}

Response Busy(const Core& core, const char* why) {
  Response response = core.limits.error(503, "unavailable", why);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

// 0 without an announcement.
uint64_t AnnouncedBytes(MHD_Connection* connection) {
  const char* length =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (length == nullptr) return 0;
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(length, length + std::strlen(length), bytes);
  return error == std::errc::result_out_of_range ? UINT64_MAX : bytes;
}

MHD_Result TakeArgument(void* query, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[key] = value ? value : "";
  return MHD_YES;
}

MHD_Result TakeHeader(void* headers, MHD_ValueKind, const char* key, const char* value) {
  std::string name = key;
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  (*static_cast<std::map<std::string, std::string>*>(headers))[name] = value ? value : "";
  return MHD_YES;
}

Request HeadOf(MHD_Connection* connection, const std::string& method, const std::string& path) {
  Request request{method, path, {}, {}};
  if (request.method == MHD_HTTP_METHOD_HEAD) request.method = MHD_HTTP_METHOD_GET;
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, TakeArgument, &request.query);
  MHD_get_connection_values(connection, MHD_HEADER_KIND, TakeHeader, &request.headers);
  return request;
}

int SocketOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == nullptr ? -1 : info->connect_fd;
}

Response Failed(const Core& core, const std::string& method, const std::string& path,
                const std::exception& e) {
  spdlog::error("api: {} {}: {}", method, path, e.what());
  return core.limits.error(500, "system", e.what());
}

}  // namespace

// What came of one request so far.
struct HttpServer::Exchange {
  std::shared_ptr<Core> core;
  int socket = -1;
  std::string method, path;
  std::string body;
  size_t seen = 0;     // bytes, also those past the limit
  uint32_t owner = 0;  // whose memory the body takes
  size_t counted = 0;  // of it
  bool no_room = false;
  std::optional<Response> refusal = {};  // sent once the body, which nobody reads, is here
  bool handled = false;
  base::Mutex mutex;
  MHD_Connection* suspended SPILLWAY_GUARDED_BY(mutex) = nullptr;
  bool answered SPILLWAY_GUARDED_BY(mutex) = false;
  std::function<Response()> make SPILLWAY_GUARDED_BY(mutex);

  ~Exchange() { core->limits.bodies->Release(owner, counted); }
};

namespace {

using Exchange = HttpServer::Exchange;

void Answer(const std::shared_ptr<Exchange>& exchange, std::function<Response()> make) {
  const base::MutexLock core_lock(exchange->core->mutex);
  const base::MutexLock lock(exchange->mutex);
  if (exchange->answered) return;
  exchange->answered = true;
  exchange->make = std::move(make);
  if (exchange->suspended == nullptr) return;
  exchange->core->suspended.erase(exchange);
  MHD_resume_connection(std::exchange(exchange->suspended, nullptr));
}

MHD_Result QueueAnswer(MHD_Connection* connection, Exchange& exchange) {
  if (exchange.core->times) exchange.core->times->Next(exchange.socket);
  std::function<Response()> make;
  {
    const base::MutexLock lock(exchange.mutex);
    make = std::move(exchange.make);
  }
  try {
    return Queue(connection, make());
  } catch (const std::exception& e) {
    return Queue(connection, Failed(*exchange.core, exchange.method, exchange.path, e));
  }
}

// The whole request is here.
MHD_Result Begin(MHD_Connection* connection, const std::shared_ptr<Exchange>& exchange) {
  Core& core = *exchange->core;
  exchange->handled = true;
  if (core.times) core.times->Pause(exchange->socket);
  Request request = HeadOf(connection, exchange->method, exchange->path);
  request.body = std::move(exchange->body);
  try {
    core.handler(std::move(request),
                 [exchange](std::function<Response()> make) { Answer(exchange, std::move(make)); });
  } catch (const std::exception& e) {
    const Response failed = Failed(core, exchange->method, exchange->path, e);
    Answer(exchange, [failed] { return failed; });
  }
  {
    const base::MutexLock core_lock(core.mutex);
    const base::MutexLock lock(exchange->mutex);
    if (!exchange->answered && !core.stopping) {
      exchange->suspended = connection;
      core.suspended.insert(exchange);
      MHD_suspend_connection(connection);
      return MHD_YES;
    }
    if (!exchange->answered) {
      exchange->answered = true;
      exchange->make = [kept = exchange->core] { return Busy(*kept, "the server is shutting down"); };
    }
  }
  return QueueAnswer(connection, *exchange);
}

// A connection closed while its peer still sends is reset, and many clients then give up without reading the
// answer. So a body that is refused is taken and dropped, of up to so many announced bytes.
constexpr uint64_t kMaxDropped = 1 << 20;

// Whether a refused request's body is worth waiting for. Not where none comes, or nobody knows how long, or
// its peer waits for a word before it sends it (RFC 9110, 10.1.1).
bool IsToBeDropped(MHD_Connection* connection, uint64_t announced) {
  return announced > 0 && announced <= kMaxDropped &&
         MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) == nullptr;
}

// Called once with the headers, then per piece of the body, then once more at its end; and again when a
// connection that waited for its answer goes on.
MHD_Result Access(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                  const char* data, size_t* data_size, void** state) {
  const auto& core = *static_cast<std::shared_ptr<Core>*>(self);
  const HttpLimits& limits = core->limits;
  if (*state == nullptr) {
    if (const char* const ambiguity = Ambiguity(connection)) {
      Response refusal = core->limits.error(400, "bad_input", ambiguity);
      refusal.headers.emplace_back(MHD_HTTP_HEADER_CONNECTION, "close");
      return Queue(connection, std::move(refusal));
    }
    const uint64_t announced = AnnouncedBytes(connection);
    const int socket = SocketOf(connection);
    if (core->times) core->times->Next(socket);
    uint32_t owner = 0;
    std::optional<Response> refusal;
    try {
      const Request head = HeadOf(connection, method, url);
      if (limits.admit) refusal = limits.admit(head, announced);
      if (!refusal) owner = limits.bodies->OwnerOf(head);
    } catch (const std::exception& e) {
      refusal = Failed(*core, method, url, e);
    }
    if (!refusal) {
      if (core->times) core->times->MarkAuthenticated(socket);
      if (announced > limits.body)
        refusal = TooLarge(*core);
      else if (!limits.bodies->HasRoom(owner, announced))
        refusal = Busy(*core, "the memory for requests is full");
    }
    if (refusal && !IsToBeDropped(connection, announced)) return Queue(connection, std::move(*refusal));
    auto exchange = std::make_shared<Exchange>();
    exchange->core = core;
    exchange->owner = owner;
    exchange->socket = socket;
    exchange->method = method;
    exchange->path = url;
    exchange->refusal = std::move(refusal);
    *state = new std::shared_ptr<Exchange>(std::move(exchange));
    return MHD_YES;
  }
  const auto& exchange = *static_cast<std::shared_ptr<Exchange>*>(*state);
  if (exchange->handled) return QueueAnswer(connection, *exchange);
  if (*data_size != 0) {
    exchange->seen += *data_size;
    if (exchange->refusal) {
      *data_size = 0;
      return exchange->seen <= kMaxDropped ? MHD_YES : MHD_NO;
    }
    if (!limits.bodies->HasRoom(exchange->owner, *data_size)) exchange->no_room = true;
    if (exchange->seen <= limits.body && !exchange->no_room) {
      exchange->body.append(data, *data_size);
      exchange->counted += *data_size;
      limits.bodies->Hold(exchange->owner, *data_size);
    }
    *data_size = 0;
    // A chunked body does not say how long it will be. A little past the limit is read, so that the
    // peer sees the 413; one that never ends is cut.
    return exchange->seen <= 4 * limits.body ? MHD_YES : MHD_NO;
  }
  if (exchange->refusal) return Queue(connection, std::move(*exchange->refusal));
  if (exchange->seen > limits.body) return Queue(connection, TooLarge(*core));
  if (exchange->no_room) return Queue(connection, Busy(*core, "the memory for requests is full"));
  return Begin(connection, exchange);
}

void Completed(void* self, MHD_Connection* connection, void** state, MHD_RequestTerminationCode) {
  const auto& core = *static_cast<std::shared_ptr<Core>*>(self);
  delete static_cast<std::shared_ptr<Exchange>*>(*state);
  *state = nullptr;
  if (core->times) core->times->Next(SocketOf(connection), std::chrono::seconds(core->limits.idle_seconds));
}

const sockaddr* PeerOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  return info == nullptr ? nullptr : info->client_addr;
}

MHD_Result MayConnect(void* self, const sockaddr* address, socklen_t) {
  const auto& core = *static_cast<std::shared_ptr<Core>*>(self);
  return !core->peers || core->peers->Admit(address, std::chrono::steady_clock::now()) ? MHD_YES : MHD_NO;
}

// Before the socket is closed, too.
void Connected(void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode what) {
  const auto& core = *static_cast<std::shared_ptr<Core>*>(self);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    if (core->peers) core->peers->Began(PeerOf(connection));
    if (core->times) core->times->Begin(SocketOf(connection));
  } else {
    if (core->peers) core->peers->Ended(PeerOf(connection));
    if (core->times) core->times->Forget(SocketOf(connection));
  }
}

}  // namespace

std::vector<std::string> PathParts(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t next = std::min(path.find('/', at + 1), path.size());
    parts.push_back(path.substr(at + 1, next - at - 1));
    at = next;
  }
  return parts;
}

Response ErrorResponse(int status, const std::string& code, const std::string& message) {
  const nlohmann::json body = {{"error", message}, {"code", code}};
  // Messages may quote what a peer sent: bytes that are not UTF-8 must not throw.
  return {.status = status, .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

Response ResponseTo(const Error& error) {
  int status = 500;
  switch (error.code) {
    case ErrorCode::kBadInput:
      status = 400;
      break;
    case ErrorCode::kNotFound:
      status = 404;
      break;
    case ErrorCode::kConflict:
      status = 409;
      break;
    case ErrorCode::kUnavailable:
      status = 503;
      break;
    case ErrorCode::kSystem:
      break;
  }
  return ErrorResponse(status, CodeWord(error.code), error.message);
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(int listen_fd, Handler handler, size_t body,
                                                      unsigned connections) {
  return StartAsync(listen_fd,
                    [handler = std::move(handler)](const Request& request, const Responder& respond) {
                      respond([response = handler(request)] { return response; });
                    },
                    {.body = body, .connections = connections, .whole = kWhole});
}

Result<std::unique_ptr<HttpServer>> HttpServer::StartAsync(int listen_fd, AsyncHandler handler,
                                                           const HttpLimits& limits) {
  std::unique_ptr<HttpServer> server(new HttpServer());
  server->core_ = std::make_shared<Core>();
  server->core_->handler = std::move(handler);
  server->core_->limits = limits;
  if (limits.bodies == nullptr)
    server->core_->limits.bodies = std::make_shared<CommonBodies>(limits.all_bodies);
  if (limits.whole.count() > 0)
    server->core_->times =
        std::make_unique<HttpTimes>(limits.whole, limits.max_unauthenticated, limits.unauthenticated_timeout);
  if (limits.connections_per_address > 0)
    server->core_->peers =
        std::make_unique<HttpPeers>(limits.connections_per_address, limits.per_address_key);
  server->daemon_ = MHD_start_daemon(
      MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, MayConnect, &server->core_, Access,
      &server->core_, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT, limits.connections,
      MHD_OPTION_CONNECTION_TIMEOUT, limits.idle_seconds, MHD_OPTION_NOTIFY_COMPLETED, Completed,
      &server->core_, MHD_OPTION_NOTIFY_CONNECTION, Connected, &server->core_, MHD_OPTION_UNESCAPE_CALLBACK,
      Unescape, nullptr, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    const int error = errno;
    close(listen_fd);
    return Fail(ErrorCode::kSystem, fmt::format("cannot start the HTTP server: {}", std::strerror(error)));
  }
  return server;
}

HttpServer::Core::Core() = default;
HttpServer::Core::~Core() = default;

HttpServer::~HttpServer() {
  if (daemon_ == nullptr) return;
  {
    // MHD cannot stop while connections are suspended.
    const base::MutexLock core_lock(core_->mutex);
    core_->stopping = true;
    for (const auto& exchange : core_->suspended) {
      const base::MutexLock lock(exchange->mutex);
      if (!exchange->answered)
        exchange->make = [kept = exchange->core] { return Busy(*kept, "the server is shutting down"); };
      exchange->answered = true;
      if (MHD_Connection* resume = std::exchange(exchange->suspended, nullptr)) MHD_resume_connection(resume);
    }
    core_->suspended.clear();
  }
  MHD_stop_daemon(daemon_);
}

}  // namespace spillway::api
