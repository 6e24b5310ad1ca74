// SPDX-License-Identifier: Apache-2.0
#include "listen.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/socket_address.h"
#include "base/system_error.h"

namespace spillway::api {
namespace {

constexpr int kBacklog = 64;

Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: a socket path has 1 to {} characters", path, sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Makes room at `path`: nothing there, or a socket whose process is gone.
Result<void> RemoveStale(const std::string& path, const sockaddr_un& address, int type) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return FailSystem(path, errno);
  }
  if (!S_ISSOCK(status.st_mode))
    return Fail(ErrorCode::kBadInput, fmt::format("{}: exists and is not a socket", path));
  const int probe = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return FailSystem("socket", errno);
  const int error =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(probe);
  if (error != ECONNREFUSED)
    return Fail(ErrorCode::kConflict, fmt::format("{}: another program answers on it", path));
  if (unlink(path.c_str()) != 0) return FailSystem(fmt::format("remove {}", path), errno);
  return {};
}

Result<base::SocketAddress> ParseEndpoint(const std::string& text) {
  auto address = base::SocketAddress::Parse(text);
  if (address) return address;
  return Fail(ErrorCode::kBadInput,
              fmt::format("{}: expected ADDRESS:PORT, such as 127.0.0.1:9100 or [::1]:9100", text));
}

}  // namespace

SocketFile::~SocketFile() {
  struct stat status;
  if (!path_.empty() && lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
      status.st_ino == inode_)
    unlink(path_.c_str());
}

Result<UnixListener> ListenUnix(const std::string& path, int type, std::optional<uint32_t> group) {
  const auto address = UnixAddress(path);
  if (!address) return tl::make_unexpected(address.error());
  std::error_code made;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, made);
  if (made) return FailSystem(fmt::format("make {}", folder.string()), made.value());
  if (const auto room = RemoveStale(path, *address, type); !room) return tl::make_unexpected(room.error());

  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return FailSystem("socket", errno);
  struct stat status;
  // Nobody can connect before listen(), so the mode is right by the time it matters.
  if (bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
      (group && chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) || chmod(path.c_str(), 0660) != 0 ||
      lstat(path.c_str(), &status) != 0 || listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return FailSystem(fmt::format("listen on {}", path), error);
  }
  return UnixListener{fd, SocketFile(path, status.st_dev, status.st_ino)};
}

Result<void> CheckEndpoint(const std::string& endpoint) {
  return ParseEndpoint(endpoint).map([](const base::SocketAddress&) {});
}

Result<int> ListenTcp(const std::string& endpoint) {
  const auto address = ParseEndpoint(endpoint);
  if (!address) return tl::make_unexpected(address.error());
  const int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return FailSystem("socket", errno);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, address->get(), address->length) != 0 || listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    if (error == EADDRNOTAVAIL)
      return Fail(ErrorCode::kBadInput, fmt::format("listen on {}: no interface has this address", endpoint));
    return FailSystem(fmt::format("listen on {}", endpoint), error);
  }
  return fd;
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

Result<std::string> ParseApiOption(const std::string& text) {
  if (text.starts_with("unix:")) return text.substr(5);
  if (text.find('/') == std::string::npos || text.find("://") != std::string::npos ||
      text.starts_with("tcp:"))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected the path of a UNIX socket, such as /run/spillway/api.sock "
                            "(TCP would need a token and TLS, which this version does not have)",
                            text));
  return text;
}

}  // namespace spillway::api
