// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <time.h>

#include <algorithm>
#include <cstring>

namespace spillway::unit {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
// A stamp older than this means the wall clock was stepped in between; the present is closer then.
constexpr std::int64_t kOldestStamp = 5 * kSecond;

std::int64_t Read(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace

std::int64_t MonotonicNs() { return Read(CLOCK_MONOTONIC); }

std::int64_t RealtimeOffsetNs() { return Read(CLOCK_REALTIME) - Read(CLOCK_MONOTONIC); }

void EnableReceiveStamps(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

std::int64_t ReceiveTimeNs(const msghdr& message, std::int64_t offset_ns, std::int64_t now_ns) {
  auto& readable = const_cast<msghdr&>(message);  // CMSG_NXTHDR takes no const
  for (cmsghdr* c = CMSG_FIRSTHDR(&readable); c != nullptr; c = CMSG_NXTHDR(&readable, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
    const std::int64_t at = stamp.tv_sec * kSecond + stamp.tv_nsec - offset_ns;
    return at < now_ns - kOldestStamp ? now_ns : std::min(at, now_ns);
  }
  return now_ns;
}

}  // namespace spillway::unit
