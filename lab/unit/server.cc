// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "clock.h"

namespace spillway::unit {

namespace {

// epoll keys: UDP sockets by index, then these two, then TcpListener's own.
constexpr std::uint64_t kTimerKey = TcpListener::kFirstKey - 1;
constexpr std::uint64_t kWakeKey = TcpListener::kFirstKey - 2;
constexpr int kPortAttempts = 20;

tl::unexpected<Error> SystemFault(const char* operation) {
  return Fail(ErrorCode::kSystem, fmt::format("{}: {}", operation, std::strerror(errno)));
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Open(const Settings& settings) {
  const int epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) return SystemFault("epoll_create1");
  const int timer_fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer_fd < 0) {
    ::close(epoll_fd);
    return SystemFault("timerfd_create");
  }
  std::unique_ptr<Server> server(new Server(settings, epoll_fd, timer_fd));
  epoll_event event{EPOLLIN, {.u64 = kTimerKey}};
  if (::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event) != 0) return SystemFault("epoll_ctl");
  for (const SocketAddress& address : settings.listen) {
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

Server::Server(const Settings& settings, int epoll_fd, int timer_fd)
    : settings_(settings),
      epoll_fd_(epoll_fd),
      timer_fd_(timer_fd),
      started_ns_(MonotonicNs()),
      service_time_(settings.distribution, settings.service, settings.cv, settings.seed),
      station_(settings.workers, settings.queue_limit),
      tcp_(epoll_fd) {}

Server::~Server() {
  ::close(timer_fd_);
  ::close(epoll_fd_);
}

Result<void> Server::Listen(SocketAddress address) {
  std::optional<UdpListener> udp;
  if (settings_.udp) {
    Result<UdpListener> opened = UdpListener::Open(address);
    if (!opened) return tl::make_unexpected(opened.error());
    udp.emplace(std::move(*opened));
    address = SocketAddress::OfSocket(udp->fd());
  }
  if (settings_.tcp) {
    Result<SocketAddress> listening = tcp_.Listen(address);
    if (!listening) return tl::make_unexpected(listening.error());
    address = *listening;
  }
  if (udp) {
    epoll_event event{EPOLLIN, {.u64 = udp_.size()}};
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, udp->fd(), &event) != 0) return SystemFault("epoll_ctl");
    udp_.push_back(std::move(*udp));
  }
  addresses_.push_back(address);
  return {};
}

Result<void> Server::Run(int wake_fd, const std::function<bool()>& on_wake) {
  epoll_event wake{EPOLLIN, {.u64 = kWakeKey}};
  if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd, &wake) != 0) return SystemFault("epoll_ctl");
  const OnRequest admit = [this](const Request& request, std::string_view payload, std::int64_t arrived_ns,
                                 const ReturnPath& path) { Admit(request, payload, arrived_ns, path); };
  std::array<epoll_event, 64> events{};
  for (;;) {
    SendDue();
    ArmTimer();
    const int count = ::epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) return SystemFault("epoll_wait");
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
  // In double: a cost of 4 million times the mean must not overflow.
  const double cost = static_cast<double>(request.cost_milli) / 1000;
  const auto service =
      static_cast<std::int64_t>(std::min(static_cast<double>(service_time_.NextNs()) * cost, 1e15));
  const std::optional<Visit> visit = station_.Arrive(arrived_ns, service);
  if (!visit) {
    ++statistics_.dropped;
    return;
  }
  const std::int64_t wait = visit->start_ns - arrived_ns;
  statistics_.service_ns += static_cast<double>(service);
  statistics_.wait_ns += static_cast<double>(wait);
  statistics_.waiting_max = std::max<std::uint64_t>(statistics_.waiting_max, station_.Waiting(arrived_ns));
  PendingAnswer answer{visit->done_ns + settings_.extra_latency.count(), 0, path, {}};
  answer.bytes.resize(kAnswerBytes + payload.size());
  const auto in_us = [](std::int64_t ns) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(ns / 1000, UINT32_MAX));
  };
  Encode(Answer{request, in_us(service), in_us(wait), settings_.name}, answer.bytes.data());
  std::copy(payload.begin(), payload.end(), answer.bytes.begin() + kAnswerBytes);
  pending_.Add(std::move(answer));
}

void Server::SendDue() {
  while (std::optional<PendingAnswer> answer = pending_.TakeDue(MonotonicNs())) {
    statistics_.CountLateness(MonotonicNs() - answer->due_ns);
    if (answer->path.udp_fd < 0) {
      ++(tcp_.Send(std::move(*answer)) ? statistics_.answered : statistics_.abandoned);
      continue;
    }
    for (UdpListener& listener : udp_) {
      if (listener.fd() == answer->path.udp_fd)
        ++(listener.Send(*answer) ? statistics_.answered : statistics_.send_failed);
    }
  }
}

void Server::ArmTimer() {
  const std::optional<std::int64_t> due = pending_.NextDueNs();
  if (!due || *due == armed_ns_) return;
  armed_ns_ = *due;
  const itimerspec at{{}, {*due / 1'000'000'000, *due % 1'000'000'000}};
  (void)::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &at, nullptr);
}

nlohmann::ordered_json Server::Summary() {
  const std::int64_t now = MonotonicNs();
  return ToJson(statistics_, settings_.name, settings_.workers, station_.Waiting(now),
                static_cast<double>(now - started_ns_) / 1e9);
}

}  // namespace spillway::unit
