// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/bell.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace spillway::gateway {

Result<Bell> Bell::Make(int other) {
  Bell bell;
  auto ring = MakeEventFd();
  if (!ring) return tl::make_unexpected(ring.error());
  bell.ring_ = std::move(*ring);
  bell.both_ = base::Fd(epoll_create1(EPOLL_CLOEXEC));
  epoll_event readable{};
  readable.events = EPOLLIN;
  if (!bell.both_ || epoll_ctl(bell.fd(), EPOLL_CTL_ADD, bell.ring_.get(), &readable) != 0 ||
      epoll_ctl(bell.fd(), EPOLL_CTL_ADD, other, &readable) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("epoll: {}", std::strerror(errno)));
  return bell;
}

void Bell::Ring() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(ring_.get(), &one, sizeof(one));
}

void Bell::Hush() const {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(ring_.get(), &count, sizeof(count));
}

}  // namespace spillway::gateway
