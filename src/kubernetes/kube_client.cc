// SPDX-License-Identifier: Apache-2.0
#include "kube_client.h"

#include <curl/curl.h>
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

size_t Collect(char* data, size_t size, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMaxBytes) return 0;
  text.append(data, size * count);
  return size * count;
}

}  // namespace

KubeClient::KubeClient(const ExtenderConfig& config)
    : url_(config.api_server),
      token_file_(config.token_file),
      ca_file_(config.ca_file),
      timeout_(config.timeout_ms) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
}

KubeClient::~KubeClient() {
  for (void* curl : idle_) curl_easy_cleanup(curl);
}

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

// What all calls have in common; headers that are to be freed after the call. `url` and `detail` outlive it.
curl_slist* KubeClient::Prepare(void* curl, const std::string& url, const std::string& token, char* detail,
                                bool patch) const {
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // whatever the environment says
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  if (!ca_file_.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file_.c_str());
  curl_slist* headers = curl_slist_append(nullptr, "Accept: application/json");
  headers = curl_slist_append(
      headers, patch ? "Content-Type: application/merge-patch+json" : "Content-Type: application/json");
  headers = curl_slist_append(headers, "Expect:");  // no round trip to ask first
  if (!token.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + token).c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  return headers;
}

Result<api::Reply> KubeClient::Perform(const std::string& target, const std::string* body, bool patch) {
  if (ended_ && body == nullptr)
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: not asked, shutting down", url_));
  std::string token;
  if (!token_file_.empty()) {
    auto read = Token();
    if (!read) return tl::make_unexpected(read.error());
    token = std::move(*read);
  }
  void* curl = nullptr;
  {
    const base::MutexLock lock(mutex_);
    if (!idle_.empty()) {
      curl = idle_.back();
      idle_.pop_back();
    }
  }
  if (curl == nullptr) curl = curl_easy_init();
  if (curl == nullptr) return Fail(ErrorCode::kSystem, "cannot start libcurl");
  api::Reply reply;
  char detail[CURL_ERROR_SIZE] = "";
  const std::string url = url_ + target;
  curl_easy_reset(curl);
  curl_slist* headers = Prepare(curl, url, token, detail, patch);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_.count()));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Collect);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply.body);
  if (body != nullptr) {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data());
    if (patch) curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PATCH");
  }
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  {
    const base::MutexLock lock(mutex_);
    idle_.push_back(curl);
  }
  if (code != CURLE_OK)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {}", url_, *detail ? detail : curl_easy_strerror(code)));
  return reply;
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
  const std::function<bool()>& stop;
  std::string line = {};
  std::string trouble = {};
  bool over = false;

  size_t Take(const char* data, size_t bytes) {
    for (size_t i = 0; i < bytes && !over; ++i) {
      if (data[i] != '\n') {
        line += data[i];
        if (line.size() > kMaxBytes) Stop("a line of it is too long");
        continue;
      }
      TakeLine();
    }
    return over ? 0 : bytes;
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
  std::string token;
  if (!token_file_.empty()) {
    auto read = Token();
    if (!read) return tl::make_unexpected(read.error());
    token = std::move(*read);
  }
  CURL* const curl = curl_easy_init();
  if (curl == nullptr) return Fail(ErrorCode::kSystem, "cannot start libcurl");
  WatchStream stream{take, stop};
  char detail[CURL_ERROR_SIZE] = "";
  const std::string url = url_ + target;
  curl_slist* headers = Prepare(curl, url, token, detail);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(timeout_.count()));
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stream);
  curl_easy_setopt(
      curl, CURLOPT_XFERINFOFUNCTION, +[](void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) -> int {
        return static_cast<WatchStream*>(self)->stop() ? 1 : 0;
      });
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &stream);
  curl_easy_setopt(
      curl, CURLOPT_WRITEFUNCTION, +[](char* data, size_t size, size_t count, void* self) -> size_t {
        return static_cast<WatchStream*>(self)->Take(data, size * count);
      });
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  if (!stream.over && code == CURLE_OK) stream.TakeLine();
  if (status != 0 && status != 200)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {}", url_, Explain({static_cast<int>(status), stream.line})));
  if (!stream.trouble.empty())
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", url_, stream.trouble));
  if (code == CURLE_OK || stream.over || code == CURLE_ABORTED_BY_CALLBACK) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}: {}", url_, *detail ? detail : curl_easy_strerror(code)));
}

}  // namespace spillway::kubernetes
