// SPDX-License-Identifier: Apache-2.0
// Listening sockets of the API (UNIX) and of the metrics (TCP).
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace spillway::api {

// The socket's name in the file system, removed when this goes, if it is still ours. Goes before the
// listening socket is closed: until then nobody replaces the file, nor can its inode be used again.
class SocketFile {
 public:
  SocketFile() = default;
  SocketFile(std::string path, dev_t device, ino_t inode)
      : path_(std::move(path)), device_(device), inode_(inode) {}
  SocketFile(SocketFile&& other) noexcept { *this = std::move(other); }
  SocketFile& operator=(SocketFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
    return *this;
  }
  ~SocketFile();

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

struct UnixListener {
  int fd;
  SocketFile file;
};

// Listens on `path` with mode 0660, making its folder if needed. A socket that nobody answers on, left
// by a killed process, is replaced. kConflict: somebody answers. kBadInput: the path is too
// long, or of something else.
// `type`: SOCK_STREAM, unless said otherwise.
// `group`: whose the socket is to be; nullopt: the program's own.
[[nodiscard]] Result<UnixListener> ListenUnix(const std::string& path, int type = SOCK_STREAM,
                                              std::optional<uint32_t> group = std::nullopt);

// Whether ListenTcp could take it. Errors: kBadInput.
[[nodiscard]] Result<void> CheckEndpoint(const std::string& endpoint);

// Listens on "ADDRESS:PORT" or "[ADDRESS6]:PORT"; port 0 picks one. The fd. kBadInput: not such a
// text, or no interface has the address.
[[nodiscard]] Result<int> ListenTcp(const std::string& endpoint);

// The port that a listening socket has, such as was picked for port 0; 0: it has none.
[[nodiscard]] int PortOf(int fd);

// The UNIX socket path meant by an --api option: a path, or "unix:PATH". kBadInput for anything that
// looks like a TCP endpoint.
[[nodiscard]] Result<std::string> ParseApiOption(const std::string& text);

}  // namespace spillway::api
