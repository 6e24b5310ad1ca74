// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <unistd.h>

#include <cerrno>

namespace spillway::base {

void Fd::Reset(int fd) {
  const int old = std::exchange(fd_, fd), error = errno;
  if (old >= 0) close(old);
  errno = error;
}

}  // namespace spillway::base
