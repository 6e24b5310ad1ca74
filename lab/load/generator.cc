// SPDX-License-Identifier: Apache-2.0
#include "generator.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <memory>

#include "base/fd.h"
#include "base/system_error.h"
#include "http_links.h"
#include "lab/unit/clock.h"
#include "tcp_links.h"
#include "udp_flows.h"

namespace spillway::load {

namespace {

constexpr std::uint64_t kTimerKey = Transport::kReservedKey;
constexpr std::uint64_t kStopKey = Transport::kReservedKey + 1;
// After a stall, overdue requests leave in bursts of this size with receiving in between: larger delays
// reading (TCP answers are stamped by the read they come with), smaller catches up more slowly.
constexpr int kBurst = 64;
constexpr std::int64_t kTickNs = 5'000'000;  // of Expire, and of the wait for the last answers
constexpr std::int64_t kProgressNs = 250'000'000;
constexpr std::int64_t kLeadNs = 2'000'000;  // from now to the start, so that the first request is not late

bool Watch(int epoll_fd, int fd, std::uint64_t key) {
  epoll_event event{EPOLLIN, {.u64 = key}};
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void Drain(int fd) {
  std::array<char, 512> bytes;
  (void)!::read(fd, bytes.data(), bytes.size());
}

}  // namespace

Result<Trial> Generate(const Settings& settings, int stop_fd, const OnProgress& on_progress) {
  // 6 standard deviations above the mean of a Poisson count.
  const double expected = settings.ExpectedRequests();
  Trial run{Ledger(static_cast<std::size_t>(expected + 6 * std::sqrt(expected) + 16),
                   settings.timeout.count(), !settings.flow_per_request)};
  Ledger& ledger = run.ledger;
  std::unique_ptr<Transport> transport;
  if (settings.protocol == Protocol::kUdp) {
    transport = std::make_unique<UdpFlows>(settings, ledger);
  } else if (settings.protocol == Protocol::kTcp) {
    transport = std::make_unique<TcpLinks>(settings, ledger);
  } else {
    transport = std::make_unique<HttpLinks>(settings, ledger);
  }

  const base::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  const base::Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (epoll.get() < 0 || timer.get() < 0) return FailSystem("epoll_create1 or timerfd_create");
  if (Result<void> opened = transport->Open(epoll.get()); !opened) return tl::make_unexpected(opened.error());
  if (!Watch(epoll.get(), timer.get(), kTimerKey) || (stop_fd >= 0 && !Watch(epoll.get(), stop_fd, kStopKey)))
    return FailSystem("epoll_ctl");
  run.flows = transport->flows();

  Arrivals arrivals(settings.arrivals, settings.rate, settings.seed);
  const std::int64_t warmup = settings.warmup.count();
  const std::int64_t end = warmup + settings.duration.count();
  const std::int64_t start = unit::MonotonicNs() + kLeadNs;
  transport->Start(start);
  std::int64_t next = arrivals.NextNs(), expire_at = kTickNs, progress_at = 0;
  bool given_up = false;
  for (;;) {
    std::int64_t now = unit::MonotonicNs() - start;
    for (int i = 0; i < kBurst && !run.interrupted && next < end && next <= now; ++i) {
      transport->Send(ledger.Add(next, next >= warmup));
      next = arrivals.NextNs();
    }
    now = unit::MonotonicNs() - start;
    if (now >= expire_at) {
      transport->Expire(now);
      expire_at = now + kTickNs;
    }
    if (on_progress && now >= progress_at) {
      on_progress(std::clamp(static_cast<double>(now) / static_cast<double>(end), 0.0, 1.0), ledger);
      progress_at = now + kProgressNs;
    }
    const bool sending = !run.interrupted && next < end;
    if (given_up || (!sending && ledger.Settled(now))) break;

    const bool due = sending && next <= now;
    if (!due) {
      const std::int64_t at = start + (sending ? std::min(next, std::max(expire_at, now)) : now + kTickNs);
      const itimerspec when{{}, {at / 1'000'000'000, at % 1'000'000'000}};
      if (::timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &when, nullptr) != 0)
        return FailSystem("timerfd_settime");
    }
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), due ? 0 : -1);
    if (count < 0 && errno != EINTR) return FailSystem("epoll_wait");
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kTimerKey) {
        Drain(timer.get());
      } else if (event.data.u64 == kStopKey) {
        Drain(stop_fd);
        given_up = run.interrupted;
        run.interrupted = true;
      } else {
        transport->OnEvent(event.data.u64, event.events);
      }
    }
  }
  return run;
}

}  // namespace spillway::load
