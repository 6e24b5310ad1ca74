// SPDX-License-Identifier: Apache-2.0
#include "kube_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/yaml/documents.h"
#include "base/yaml/problems.h"
#include "scheduler/extender/kube_json.h"

namespace spillway::kubernetes {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = 64 << 20;  // of one answer
constexpr int kPage = 500;
constexpr size_t kMaxItems = 500'000;
constexpr size_t kMaxPages = kMaxItems / kPage;

}  // namespace

KubeClient::KubeClient(const ExtenderConfig& config)
    : url_(config.api_server),
      token_file_(config.token_file),
      ca_file_(config.ca_file),
      timeout_(config.timeout_ms) {}

KubeClient::~KubeClient() = default;

Result<api::Reply> KubeClient::Get(const std::string& target) { return Perform(target, nullptr); }

Result<api::Reply> KubeClient::Post(const std::string& target, const std::string& body) {
  return Perform(target, &body);
}

Result<api::Reply> KubeClient::Patch(const std::string& target, const std::string& body) {
  return Perform(target, &body, true);
}

// Read each time: Kubernetes renews it.
Result<std::string> KubeClient::Token() const {
  auto token = yaml::ReadInputFile(token_file_);
  if (!token) return tl::make_unexpected(token.error());
  while (!token->empty() && static_cast<unsigned char>(token->back()) <= ' ') token->pop_back();
  // A line feed would begin another header.
  if (token->empty() || std::any_of(token->begin(), token->end(), [](unsigned char c) { return c <= ' '; }))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected a token without blanks and control characters", token_file_));
  return token;
}

// What all calls have in common.
Result<http::Request> KubeClient::RequestOf(const std::string& target, const std::string& type) const {
  http::Request request{.url = url_ + target,
                        .headers = {"Accept: application/json", "Content-Type: " + type},
                        .ca_file = ca_file_,
                        .connect = timeout_,
                        .max_reply = kMaxBytes};
  if (token_file_.empty()) return request;
  return Token().map([&](const std::string& token) {
    request.headers.push_back("Authorization: Bearer " + token);
    return std::move(request);
  });
}

std::unique_ptr<http::Session> KubeClient::TakeSession() {
  const base::MutexLock lock(mutex_);
  if (idle_.empty()) return std::make_unique<http::Session>();
  auto session = std::move(idle_.back());
  idle_.pop_back();
  return session;
}

Result<api::Reply> KubeClient::Perform(const std::string& target, const std::string* body, bool patch) {
  if (ended_ && body == nullptr)
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: not asked, shutting down", url_));
  auto request = RequestOf(target, patch ? "application/merge-patch+json" : "application/json");
  if (!request) return tl::make_unexpected(request.error());
  request->timeout = timeout_;
  request->body = body;
  if (body != nullptr) request->method = patch ? "PATCH" : "POST";
  auto session = TakeSession();
  http::Outcome outcome = session->Do(*request);
  {
    const base::MutexLock lock(mutex_);
    idle_.push_back(std::move(session));
  }
  if (outcome.kind != http::Outcome::Kind::kDone)
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", url_, outcome.error));
  return api::Reply{outcome.status, std::move(outcome.body)};
}

std::string KubeClient::Explain(const api::Reply& reply) {
  const auto status = scheduler::ParseKubeJson(reply.body);
  const std::string message = status ? scheduler::TextAt(*status, "message") : "";
  return fmt::format("{}: {}", reply.status, message.empty() ? yaml::Excerpt(reply.body) : message);
}

Result<std::string> KubeClient::List(const std::string& target,
                                     const std::function<void(const json& item)>& take) {
  std::string next, version;
  size_t pages = 0, items = 0;
  do {
    auto reply = Get(fmt::format("{}{}limit={}{}", target, target.find('?') == std::string::npos ? "?" : "&",
                                 kPage, next.empty() ? "" : "&continue=" + api::Client::Encode(next)));
    if (!reply) return tl::make_unexpected(reply.error());
    const std::string where = fmt::format("{}{}", url_, target.substr(0, target.find('?')));
    if (reply->status != 200)
      return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", where, Explain(*reply)));
    const auto page = scheduler::ParseKubeJson(reply->body);
    if (!page) return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", where, page.error().message));
    reply->body = {};
    if (const json* list = scheduler::Find(*page, "items"); list != nullptr && list->is_array()) {
      items += list->size();
      for (const json& item : *list) take(item);
    }
    const json* meta = scheduler::Find(*page, "metadata");
    next = meta == nullptr ? "" : scheduler::TextAt(*meta, "continue");
    if (meta != nullptr) version = scheduler::TextAt(*meta, "resourceVersion");
    // Pages without items, too, would go on for as long as the other side says so.
    if (items > kMaxItems || (!next.empty() && ++pages >= kMaxPages))
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{}: expected at most {} items in {} pages", where, kMaxItems, kMaxPages));
  } while (!next.empty());
  return version;
}

namespace {

// A watch as it comes in: a JSON object a line.
struct WatchStream {
  const std::function<bool(const json& event)>& take;
  std::string line = {};
  std::string trouble = {};
  bool over = false;

  // False: no more of it.
  bool Take(std::string_view data) {
    for (size_t i = 0; i < data.size() && !over; ++i) {
      if (data[i] != '\n') {
        line += data[i];
        if (line.size() > kMaxBytes) Stop("a line of it is too long");
        continue;
      }
      TakeLine();
    }
    return !over;
  }
  void TakeLine() {
    const std::string text = std::exchange(line, {});
    if (text.empty()) return;
    const auto event = scheduler::ParseKubeJson(text);
    if (!event || scheduler::TextAt(*event, "type").empty())
      return Stop("expected an event, got " + yaml::Excerpt(text));
    if (!take(*event)) Stop("");
  }
  void Stop(const std::string& why) {
    over = true;
    trouble = why;
  }
};

}  // namespace

Result<void> KubeClient::Watch(const std::string& target, const std::function<bool(const json& event)>& take,
                               const std::function<bool()>& stop) {
  auto request = RequestOf(target, "application/json");
  if (!request) return tl::make_unexpected(request.error());
  WatchStream stream{take};
  request->on_data = [&](std::string_view data) { return stream.Take(data); };
  request->stop = stop;
  const http::Outcome outcome = http::Session().Do(*request);
  using Kind = http::Outcome::Kind;
  if (!stream.over && outcome.kind == Kind::kDone) stream.TakeLine();
  if (outcome.status != 0 && outcome.status != 200)
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", url_, Explain({outcome.status, stream.line})));
  if (!stream.trouble.empty())
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", url_, stream.trouble));
  if (outcome.kind == Kind::kDone || outcome.kind == Kind::kStopped) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", url_, outcome.error));
}

}  // namespace spillway::kubernetes
