// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace spillway::report {

namespace {

tl::unexpected<Error> FailWith(const char* operation, const std::string& path, int error) {
  return Fail(ErrorCode::kSystem, fmt::format("{}: {}: {}", path, operation, std::strerror(error)));
}

}  // namespace

Result<void> MakeFolder(const std::string& folder) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return FailWith("create folder", folder, ec.value());
  return {};
}

Result<void> WriteFile(const std::string& path, std::string_view text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty())
    if (auto made = MakeFolder(folder.string()); !made) return made;
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FailWith("open", temporary, errno);
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return FailWith("write", path, error);
  }
  return {};
}

}  // namespace spillway::report
