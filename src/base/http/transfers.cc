// SPDX-License-Identifier: Apache-2.0
#include "base/http/transfers.h"

#include <sys/epoll.h>

#include <utility>

namespace spillway::http {

Transfers::Transfers(Watcher& watcher, size_t max_idle) : watcher_(watcher), max_idle_(max_idle) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  multi_ = curl_multi_init();
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Transfers::OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Transfers::OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
}

Transfers::~Transfers() {
  for (CURL* easy : idle_) curl_easy_cleanup(easy);
  curl_multi_cleanup(multi_);
}

CURL* Transfers::Borrow() {
  if (idle_.empty()) return curl_easy_init();
  CURL* const easy = idle_.back();
  idle_.pop_back();
  curl_easy_reset(easy);
  return easy;
}

bool Transfers::Run(CURL* easy, Transfer* transfer) {
  if (multi_ == nullptr || curl_multi_add_handle(multi_, easy) != CURLM_OK) return false;
  running_[easy] = transfer;  // the timer is set, by which it begins
  return true;
}

void Transfers::Return(CURL* easy) {
  running_.erase(easy);
  std::erase(unwatched_, easy);
  curl_multi_remove_handle(multi_, easy);
  if (idle_.size() < max_idle_)
    idle_.push_back(easy);
  else
    curl_easy_cleanup(easy);
}

void Transfers::OnDeadline(TimePoint now) {
  if (!deadline_ || *deadline_ > now) return;
  deadline_.reset();
  Act(CURL_SOCKET_TIMEOUT, 0);
}

void Transfers::OnEvents(int fd, uint32_t events) {
  int what = 0;
  if ((events & (EPOLLIN | EPOLLHUP)) != 0) what |= CURL_CSELECT_IN;
  if ((events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
  if ((events & EPOLLERR) != 0) what |= CURL_CSELECT_ERR;
  Act(fd, what);
}

void Transfers::Act(curl_socket_t socket, int what) {
  int running = 0;
  curl_multi_socket_action(multi_, socket, what, &running);
  // Nothing is given back while messages are read: libcurl's list must not change under it.
  std::vector<std::pair<CURL*, CURLcode>> ended;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left))
    if (message->msg == CURLMSG_DONE) ended.emplace_back(message->easy_handle, message->data.result);
  for (const auto& [easy, code] : ended)
    if (const auto found = running_.find(easy); found != running_.end()) found->second->OnEnd(code);
  for (CURL* const easy : std::exchange(unwatched_, {}))
    if (const auto found = running_.find(easy); found != running_.end())
      found->second->OnEnd(CURLE_ABORTED_BY_CALLBACK);
}

int Transfers::OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* known) {
  auto& transfers = *static_cast<Transfers*>(self);
  if (what == CURL_POLL_REMOVE) {
    transfers.watcher_.Unwatch(socket);
    return 0;
  }
  const uint32_t events =
      ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0u) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0u);
  if (known == nullptr) curl_multi_assign(transfers.multi_, socket, self);
  const int error =
      known == nullptr ? transfers.watcher_.Watch(socket, events) : transfers.watcher_.Change(socket, events);
  if (error != 0) transfers.unwatched_.push_back(easy);
  return 0;
}

int Transfers::OnTimer(CURLM*, long timeout_ms, void* self) {
  auto& deadline = static_cast<Transfers*>(self)->deadline_;
  if (timeout_ms < 0)
    deadline.reset();
  else
    deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  return 0;
}

}  // namespace spillway::http
