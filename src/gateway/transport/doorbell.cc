// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/doorbell.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>

#include "base/system_error.h"

namespace spillway::gateway {
namespace {

constexpr int kMostRings = 1024;  // that are taken at once; a socket has room for a few hundred at most

int OptionOf(const base::Fd& socket, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  return getsockopt(socket.get(), SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

Result<Doorbell> MakeDoorbell() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return FailSystem("socketpair", errno);
  Doorbell bell{base::Fd(ends[0]), base::Fd(ends[1])};
  // Nothing comes back by the ringer's end: what lay there would be closed with it, by the ringer.
  if (shutdown(bell.ringer.get(), SHUT_RD) != 0) return FailSystem("shutdown", errno);
  return bell;
}

Result<void> CheckRinger(const base::Fd& end) {
  if (OptionOf(end, SO_DOMAIN) == AF_UNIX && OptionOf(end, SO_TYPE) == SOCK_DGRAM) return {};
  return Fail(ErrorCode::kBadInput, "expected a doorbell to ring: an end of a pair of UNIX datagram sockets");
}

Result<void> CheckEventFd(const base::Fd& bell) {
  char text[64];
  const ssize_t bytes = readlink(fmt::format("/proc/self/fd/{}", bell.get()).c_str(), text, sizeof(text));
  if (bytes > 0 && std::string_view(text, static_cast<size_t>(bytes)) == "anon_inode:[eventfd]") return {};
  return Fail(ErrorCode::kBadInput, "expected a doorbell to sleep on: an eventfd");
}

void RingBell(const base::Fd& ringer) {
  const char ring = 1;
  if (send(ringer.get(), &ring, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == ENOTSOCK)
    eventfd_write(ringer.get(), 1);  // only a gateway's is none
}

void HushBell(const base::Fd& sleeper) {
  char ring;
  for (int i = 0; i < kMostRings && recv(sleeper.get(), &ring, 1, MSG_DONTWAIT) >= 0; i++) {
  }
}

}  // namespace spillway::gateway
