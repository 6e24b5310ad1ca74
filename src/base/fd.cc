// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace spillway::base {

void Fd::Reset(int fd) {
  const int old = std::exchange(fd_, fd), error = errno;
  if (old >= 0) close(old);
  errno = error;
}

uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t soft = std::exchange(limit.rlim_cur, limit.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : soft;
}

}  // namespace spillway::base
