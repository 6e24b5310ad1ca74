// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/system_error.h"
#include "clock.h"

namespace spillway::unit {

namespace {

// epoll keys: UDP sockets by index, then these three, then TcpListener's own.
constexpr std::uint64_t kTimerKey = TcpListener::kFirstKey - 1;
constexpr std::uint64_t kWakeKey = TcpListener::kFirstKey - 2;
constexpr std::uint64_t kDoneKey = TcpListener::kFirstKey - 3;
constexpr int kPortAttempts = 20;

}  // namespace

Result<std::unique_ptr<Server>> Server::Open(const ServerSettings& settings,
                                             std::unique_ptr<Workers> workers) {
  const int epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) return FailSystem("epoll_create1");
  const int timer_fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer_fd < 0) {
    ::close(epoll_fd);
    return FailSystem("timerfd_create");
  }
  std::unique_ptr<Server> server(new Server(settings, std::move(workers), epoll_fd, timer_fd));
  epoll_event event{EPOLLIN, {.u64 = kTimerKey}};
  if (::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event) != 0) return FailSystem("epoll_ctl");
  event.data.u64 = kDoneKey;
  if (const int fd = server->workers_->done_fd();
      fd >= 0 && ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
    return FailSystem("epoll_ctl");
  for (const base::SocketAddress& address : settings.listen) {
    Result<void> listening = server->Listen(address);
    // A port the kernel gave for UDP may be taken for TCP: ask for another.
    for (int i = 0; !listening && address.port() == 0 && i < kPortAttempts &&
                    listening.error().code == ErrorCode::kConflict;
         ++i)
      listening = server->Listen(address);
    if (!listening) return tl::make_unexpected(listening.error());
  }
  return server;
}

Server::Server(const ServerSettings& settings, std::unique_ptr<Workers> workers, int epoll_fd, int timer_fd)
    : settings_(settings),
      epoll_fd_(epoll_fd),
      timer_fd_(timer_fd),
      started_ns_(MonotonicNs()),
      workers_(std::move(workers)),
      tcp_(epoll_fd) {}

Server::~Server() {
  ::close(timer_fd_);
  ::close(epoll_fd_);
}

Result<void> Server::Listen(base::SocketAddress address) {
  std::optional<UdpListener> udp;
  if (settings_.udp) {
    Result<UdpListener> opened = UdpListener::Open(address);
    if (!opened) return tl::make_unexpected(opened.error());
    udp.emplace(std::move(*opened));
    address = base::SocketAddress::OfSocket(udp->fd());
  }
  if (settings_.tcp) {
    Result<base::SocketAddress> listening = tcp_.Listen(address);
    if (!listening) return tl::make_unexpected(listening.error());
    address = *listening;
  }
  if (udp) {
    epoll_event event{EPOLLIN, {.u64 = udp_.size()}};
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, udp->fd(), &event) != 0) return FailSystem("epoll_ctl");
    udp_.push_back(std::move(*udp));
  }
  addresses_.push_back(address);
  return {};
}

Result<void> Server::Run(int wake_fd, const std::function<bool()>& on_wake) {
  epoll_event wake{EPOLLIN, {.u64 = kWakeKey}};
  if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd, &wake) != 0) return FailSystem("epoll_ctl");
  const OnRequest admit = [this](const Request& request, std::string_view payload, std::int64_t arrived_ns,
                                 const ReturnPath& path) { Admit(request, payload, arrived_ns, path); };
  std::array<epoll_event, 64> events{};
  for (;;) {
    SendDone();
    ArmTimer();
    const int count = ::epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) return FailSystem("epoll_wait");
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kWakeKey) {
        if (!on_wake()) {
          (void)::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, wake_fd, nullptr);
          return {};
        }
      } else if (event.data.u64 == kTimerKey) {
        std::uint64_t expirations = 0;
        (void)!::read(timer_fd_, &expirations, sizeof expirations);
        armed_ns_ = 0;
      } else if (event.data.u64 == kDoneKey) {
        // SendDone sees to it.
      } else if (event.data.u64 >= TcpListener::kFirstKey) {
        tcp_.OnEvent(event.data.u64, event.events, statistics_, admit);
      } else {
        udp_[event.data.u64].Receive(statistics_, admit);
      }
    }
  }
}

void Server::Admit(const Request& request, std::string_view payload, std::int64_t arrived_ns,
                   const ReturnPath& path) {
  ++statistics_.received;
  Job job{request, arrived_ns, path, {}};
  job.bytes.resize(kAnswerBytes + payload.size());
  std::copy(payload.begin(), payload.end(), job.bytes.begin() + kAnswerBytes);
  if (!workers_->Take(std::move(job))) {
    ++statistics_.dropped;
    return;
  }
  statistics_.waiting_max = std::max<std::uint64_t>(statistics_.waiting_max, workers_->Waiting(arrived_ns));
}

void Server::SendDone() {
  const auto in_us = [](std::int64_t ns) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(ns / 1000, UINT32_MAX));
  };
  while (std::optional<Job> job = workers_->TakeDone(MonotonicNs())) {
    statistics_.service_ns += static_cast<double>(job->service_ns);
    statistics_.wait_ns += static_cast<double>(job->wait_ns);
    statistics_.CountLateness(MonotonicNs() - job->due_ns);
    Encode(Answer{job->request, in_us(job->service_ns), in_us(job->wait_ns), settings_.name, job->result},
           job->bytes.data());
    if (job->path.udp_fd < 0) {
      ++(tcp_.Send(std::move(*job)) ? statistics_.answered : statistics_.abandoned);
      continue;
    }
    for (UdpListener& listener : udp_) {
      if (listener.fd() == job->path.udp_fd)
        ++(listener.Send(*job) ? statistics_.answered : statistics_.send_failed);
    }
  }
}

void Server::ArmTimer() {
  const std::optional<std::int64_t> due = workers_->NextDueNs();
  if (!due || *due == armed_ns_) return;
  armed_ns_ = *due;
  const itimerspec at{{}, {*due / 1'000'000'000, *due % 1'000'000'000}};
  (void)::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &at, nullptr);
}

nlohmann::ordered_json Server::Summary() {
  const std::int64_t now = MonotonicNs();
  return ToJson(statistics_, settings_.name, workers_->count(), workers_->Waiting(now),
                static_cast<double>(now - started_ns_) / 1e9);
}

}  // namespace spillway::unit
