// SPDX-License-Identifier: Apache-2.0
#include "base/print.h"

#include <fcntl.h>
#include <fmt/format.h>
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

namespace {

// The bytes of the character that `text` begins with; 0: it begins with none that may be printed.
size_t PrintableBytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  const unsigned char second = at(1);
  if (first == 0xc2 && second < 0xa0) return 0;   // the other control characters
  if (first == 0xe0 && second < 0xa0) return 0;   // longer than need be
  if (first == 0xed && second >= 0xa0) return 0;  // surrogates
  if (first == 0xf0 && second < 0x90) return 0;   // longer than need be
  if (first == 0xf4 && second >= 0x90) return 0;  // beyond Unicode
  return bytes;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t bytes = PrintableBytes(text);
    if (bytes > 0)
      shown += text.substr(0, bytes);
    else
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return shown;
}

}  // namespace spillway::base
