// SPDX-License-Identifier: Apache-2.0
#include "http_links.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <string_view>

#include "lab/unit/clock.h"

namespace spillway::load {

HttpLinks::HttpLinks(const Settings& settings, Ledger& ledger)
    : settings_(settings),
      ledger_(ledger),
      url_(fmt::format("{}://{}{}", settings.protocol == Protocol::kHttps ? "https" : "http",
                       settings.target.Text(), settings.path)) {}

HttpLinks::~HttpLinks() {
  for (const auto& request : all_) {
    if (multi_ != nullptr) curl_multi_remove_handle(multi_, request->easy);
    curl_easy_cleanup(request->easy);
  }
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
}

Result<void> HttpLinks::Open(int epoll_fd) {
  epoll_fd_ = epoll_fd;
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (multi_ = curl_multi_init()) == nullptr)
    return Fail(ErrorCode::kSystem, "curl_multi_init failed");
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &HttpLinks::OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &HttpLinks::OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  return {};
}

HttpLinks::Request* HttpLinks::Take() {
  if (!idle_.empty()) {
    Request* request = idle_.back();
    idle_.pop_back();
    return request;
  }
  auto request = std::make_unique<Request>();
  CURL* easy = request->easy = curl_easy_init();
  if (easy == nullptr) return nullptr;
  curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(easy, CURLOPT_PRIVATE, request.get());
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(settings_.timeout.count() / 1'000'000));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpLinks::OnBody);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &HttpLinks::OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, request.get());
  all_.push_back(std::move(request));
  return all_.back().get();
}

void HttpLinks::Send(std::uint32_t id) {
  Request* request = Take();
  if (request == nullptr) {
    ++ledger_.counters.send_failed;
    return;
  }
  request->id = id;
  request->unit.clear();
  ledger_.Sent(id, id, unit::MonotonicNs() - start_ns_);
  if (curl_multi_add_handle(multi_, request->easy) != CURLM_OK) {
    ++ledger_.counters.send_failed;
    idle_.push_back(request);
    return;
  }
  Act(CURL_SOCKET_TIMEOUT, 0);  // starts to connect now, not at the next tick
}

void HttpLinks::OnEvent(std::uint64_t key, std::uint32_t events) {
  int what = 0;
  if ((events & (EPOLLIN | EPOLLHUP)) != 0) what |= CURL_CSELECT_IN;
  if ((events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
  if ((events & EPOLLERR) != 0) what |= CURL_CSELECT_ERR;
  Act(static_cast<curl_socket_t>(key), what);
}

void HttpLinks::Expire(std::int64_t /*now_ns*/) {
  if (timer_ns_ >= 0 && unit::MonotonicNs() >= timer_ns_) Act(CURL_SOCKET_TIMEOUT, 0);
}

void HttpLinks::Act(curl_socket_t socket, int what) {
  int running = 0;
  if (socket == CURL_SOCKET_TIMEOUT) timer_ns_ = -1;
  curl_multi_socket_action(multi_, socket, what, &running);
  Collect();
}

void HttpLinks::Collect() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* easy = message->easy_handle;
    const CURLcode result = message->data.result;
    Request* request = nullptr;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &request);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    long connections = 0;
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connections);
    ledger_.counters.connections += static_cast<std::uint64_t>(connections);
    if (result == CURLE_OK && status == 200) {
      ledger_.Answered(request->id, request->id, unit::MonotonicNs() - start_ns_, request->unit);
    } else if (result == CURLE_COULDNT_CONNECT) {
      ++ledger_.counters.connect_failed;
    } else if (result != CURLE_OPERATION_TIMEDOUT) {
      ++ledger_.counters.broken;
    }
    curl_multi_remove_handle(multi_, easy);
    idle_.push_back(request);
  }
}

int HttpLinks::OnSocket(CURL* /*easy*/, curl_socket_t socket, int what, void* self, void* known) {
  auto* links = static_cast<HttpLinks*>(self);
  if (what == CURL_POLL_REMOVE) {
    (void)::epoll_ctl(links->epoll_fd_, EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  epoll_event event{};
  event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
  event.data.u64 = static_cast<std::uint64_t>(socket);
  (void)::epoll_ctl(links->epoll_fd_, known == nullptr ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket, &event);
  if (known == nullptr) curl_multi_assign(links->multi_, socket, links);
  return 0;
}

int HttpLinks::OnTimer(CURLM* /*multi*/, long timeout_ms, void* self) {
  auto* links = static_cast<HttpLinks*>(self);
  links->timer_ns_ = timeout_ms < 0 ? -1 : unit::MonotonicNs() + timeout_ms * 1'000'000;
  return 0;
}

size_t HttpLinks::OnHeader(char* text, size_t size, size_t count, void* request) {
  constexpr std::string_view kName = "X-Unit: ";
  std::string_view line(text, size * count);
  if (line.starts_with(kName)) {
    line.remove_prefix(kName.size());
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
    static_cast<Request*>(request)->unit = line.substr(0, 64);
  }
  return size * count;
}

size_t HttpLinks::OnBody(char* /*bytes*/, size_t size, size_t count, void* /*unused*/) {
  return size * count;
}

}  // namespace spillway::load
