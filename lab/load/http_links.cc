// SPDX-License-Identifier: Apache-2.0
#include "http_links.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <cerrno>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>

#include "lab/unit/clock.h"

namespace spillway::load {

class HttpLinks::Exchange final : public http::Transfer {
 public:
  explicit Exchange(HttpLinks& links) : links_(links) {}
  ~Exchange() {
    if (easy_ != nullptr) links_.transfers_.Return(easy_);
  }

  void Begin(std::uint32_t id) {
    id_ = id;
    unit_.clear();
    if (easy_ == nullptr) easy_ = links_.transfers_.Borrow();
    if (easy_ != nullptr) Ask();
    const std::int64_t now = unit::MonotonicNs() - links_.start_ns_;
    if (easy_ == nullptr || !links_.transfers_.Run(easy_, this)) {
      ++links_.ledger_.counters.send_failed;
      links_.idle_.push_back(this);
      return;
    }
    links_.ledger_.Sent(id, id, now);
  }

  void OnEnd(CURLcode code) override {
    Ledger& ledger = links_.ledger_;
    long status = 0, connections = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy_, CURLINFO_NUM_CONNECTS, &connections);
    ledger.counters.connections += static_cast<std::uint64_t>(connections);
    if (code == CURLE_OK && status == 200)
      ledger.Answered(id_, id_, unit::MonotonicNs() - links_.start_ns_, unit_);
    else if (code == CURLE_COULDNT_CONNECT)
      ++ledger.counters.connect_failed;
    else if (code != CURLE_OPERATION_TIMEDOUT)
      ++ledger.counters.broken;
    links_.transfers_.Return(std::exchange(easy_, nullptr));
    links_.idle_.push_back(this);
  }

 private:
  void Ask() {
    const auto set = [this](auto option, auto value) { curl_easy_setopt(easy_, option, value); };
    set(CURLOPT_URL, links_.url_.c_str());
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_FRESH_CONNECT, 1L);
    set(CURLOPT_FORBID_REUSE, 1L);
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
    set(CURLOPT_SSL_SESSIONID_CACHE, 0L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(links_.settings_.timeout.count() / 1'000'000));
    set(CURLOPT_WRITEFUNCTION, &Exchange::OnBody);
    set(CURLOPT_HEADERFUNCTION, &Exchange::OnHeader);
    set(CURLOPT_HEADERDATA, this);
  }

  static size_t OnHeader(char* text, size_t size, size_t count, void* self) {
    constexpr std::string_view kName = "X-Unit: ";
    std::string_view line(text, size * count);
    if (line.starts_with(kName)) {
      line.remove_prefix(kName.size());
      while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
      static_cast<Exchange*>(self)->unit_ = line.substr(0, 64);
    }
    return size * count;
  }
  static size_t OnBody(char*, size_t size, size_t count, void*) { return size * count; }

  HttpLinks& links_;
  CURL* easy_ = nullptr;  // while it runs
  std::uint32_t id_ = 0;
  std::string unit_;  // as the answer's X-Unit names it
};

HttpLinks::HttpLinks(const Settings& settings, Ledger& ledger)
    : settings_(settings),
      ledger_(ledger),
      url_(fmt::format("{}://{}{}", settings.protocol == Protocol::kHttps ? "https" : "http",
                       settings.target.Text(), settings.path)),
      transfers_(*this, std::numeric_limits<std::size_t>::max()) {}

HttpLinks::~HttpLinks() = default;

Result<void> HttpLinks::Open(int epoll_fd) {
  epoll_fd_ = epoll_fd;
  return {};
}

HttpLinks::Exchange* HttpLinks::Take() {
  if (idle_.empty()) return all_.emplace_back(std::make_unique<Exchange>(*this)).get();
  Exchange* const exchange = idle_.back();
  idle_.pop_back();
  return exchange;
}

void HttpLinks::Send(std::uint32_t id) {
  Take()->Begin(id);
  transfers_.OnDeadline(std::chrono::steady_clock::now());  // it connects now, not at the next tick
}

void HttpLinks::OnEvent(std::uint64_t key, std::uint32_t events) {
  transfers_.OnEvents(static_cast<int>(key), events);
}

void HttpLinks::Expire(std::int64_t /*now_ns*/) { transfers_.OnDeadline(std::chrono::steady_clock::now()); }

namespace {

int Control(int epoll_fd, int what, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint64_t>(fd);
  return ::epoll_ctl(epoll_fd, what, fd, &event) == 0 ? 0 : errno;
}

}  // namespace

int HttpLinks::Watch(int fd, std::uint32_t events) { return Control(epoll_fd_, EPOLL_CTL_ADD, fd, events); }
int HttpLinks::Change(int fd, std::uint32_t events) { return Control(epoll_fd_, EPOLL_CTL_MOD, fd, events); }
void HttpLinks::Unwatch(int fd) { (void)Control(epoll_fd_, EPOLL_CTL_DEL, fd, 0); }

}  // namespace spillway::load
