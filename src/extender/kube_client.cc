// SPDX-License-Identifier: Apache-2.0
#include "kube_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>

#include "model/documents.h"
#include "model/problems.h"
#include "scheduler/extender/kube_json.h"

namespace spillway::extender {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 64 << 20;  // of one answer
constexpr int kPage = 500;
constexpr size_t kMostItems = 500'000;
constexpr size_t kMostPages = kMostItems / kPage;

size_t Collect(char* data, size_t size, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMostBytes) return 0;
  text.append(data, size * count);
  return size * count;
}

}  // namespace

KubeClient::KubeClient(const model::ExtenderConfig& config)
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

// Read each time: Kubernetes renews it.
Result<std::string> KubeClient::Token() const {
  auto token = model::ReadInputFile(token_file_);
  if (!token) return tl::make_unexpected(token.error());
  while (!token->empty() && static_cast<unsigned char>(token->back()) <= ' ') token->pop_back();
  // A line feed would begin another header.
  if (token->empty() || std::any_of(token->begin(), token->end(), [](unsigned char c) { return c <= ' '; }))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected a token without blanks and control characters", token_file_));
  return token;
}

Result<api::Reply> KubeClient::Perform(const std::string& target, const std::string* body) {
  std::string token;
  if (!token_file_.empty()) {
    auto read = Token();
    if (!read) return tl::make_unexpected(read.error());
    token = std::move(*read);
  }
  void* curl = nullptr;
  {
    const std::lock_guard lock(mutex_);
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
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // whatever the environment says
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_.count()));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Collect);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply.body);
  if (!ca_file_.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file_.c_str());
  curl_slist* headers = curl_slist_append(nullptr, "Accept: application/json");
  headers = curl_slist_append(headers, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Expect:");  // no round trip to ask first
  if (!token.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + token).c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  if (body != nullptr) {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data());
  }
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  {
    const std::lock_guard lock(mutex_);
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
  return fmt::format("{}: {}", reply.status, message.empty() ? model::Excerpt(reply.body) : message);
}

Result<void> KubeClient::List(const std::string& target, const std::function<void(const json& item)>& take) {
  std::string next;
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
    // Pages without items, too, would go on for as long as the other side says so.
    if (items > kMostItems || (!next.empty() && ++pages >= kMostPages))
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{}: expected at most {} items in {} pages", where, kMostItems, kMostPages));
  } while (!next.empty());
  return {};
}

}  // namespace spillway::extender
