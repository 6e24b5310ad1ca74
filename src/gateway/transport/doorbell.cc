// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/doorbell.h"

#include <sys/socket.h>

#include "base/system_error.h"

namespace spillway::gateway {
namespace {

constexpr int kMostRings = 1024;  // that are taken at once; a socket's buffer has room for a few hundred

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
  return Doorbell{base::Fd(ends[0]), base::Fd(ends[1])};
}

Result<void> CheckDoorbell(const base::Fd& end) {
  if (OptionOf(end, SO_DOMAIN) == AF_UNIX && OptionOf(end, SO_TYPE) == SOCK_DGRAM) return {};
  return Fail(ErrorCode::kBadInput, "expected a doorbell: an end of a pair of UNIX datagram sockets");
}

void RingBell(const base::Fd& ringer) {
  const char ring = 1;
  [[maybe_unused]] const ssize_t sent = send(ringer.get(), &ring, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void HushBell(const base::Fd& sleeper) {
  char ring;
  for (int i = 0; i < kMostRings && recv(sleeper.get(), &ring, 1, MSG_DONTWAIT) >= 0; i++) {
  }
}

}  // namespace spillway::gateway
