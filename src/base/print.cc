// SPDX-License-Identifier: Apache-2.0
#include "base/print.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace spillway::base {
namespace {

std::atomic<int> g_output_error{0};

// 0, or an errno.
int WriteTo(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // whoever shares the pipe or terminal made it so
      pollfd writable{fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

bool PrintText(std::string_view text) {
  const int error = WriteTo(STDOUT_FILENO, text);
  int none = 0;
  if (error != 0) g_output_error.compare_exchange_strong(none, error);
  return error == 0;
}

void PrintErrorText(std::string_view text) { WriteTo(STDERR_FILENO, text); }

int OutputError() { return g_output_error; }

void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      // The lowest number that is free is this one.
      open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace spillway::base
