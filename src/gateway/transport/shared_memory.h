// SPDX-License-Identifier: Apache-2.0
// Memory that two processes see: a memfd, sealed against shrinking and growing, so that no peer can have the
// other die of SIGBUS, nor wait; and how its descriptor travels over a UNIX socket. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace spillway::gateway {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    std::swap(holes_, other.holes_);
    return *this;
  }
  ~SharedMemory();

  // Zeroed. `name` shows in /proc only.
  [[nodiscard]] static Result<SharedMemory> Create(const char* name, uint64_t bytes);
  // Maps a peer's. kBadInput unless it is sealed and of exactly `bytes` bytes.
  [[nodiscard]] static Result<SharedMemory> Map(base::Fd fd, uint64_t bytes);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

  // Copies, of ranges within bytes(), that the peer cannot hold up. While it punches holes (fallocate),
  // whoever touches a missing page waits for it, in all for seconds; by the file nobody waits. So where pages
  // are missing, or often were of late, it is the file. What is missing reads as zeros.
  void Read(std::span<const std::byte> from, std::byte* into) const;
  // False: there is no memory for it.
  [[nodiscard]] bool Write(std::span<std::byte> to, std::span<const std::byte> from) const;

 private:
  [[nodiscard]] bool IsByFile(std::span<const std::byte> range) const;

  base::Fd fd_;
  std::span<std::byte> bytes_;
  mutable uint32_t holes_ = 0;  // seen of late
};

// Gives all pages of a memfd back, whoever else holds it: from then on they are whose who touches them.
void FreePages(int fd);

// One message of a SOCK_SEQPACKET or SOCK_STREAM UNIX socket, with descriptors. Blocks where the socket does.
[[nodiscard]] Result<void> SendWithDescriptors(int socket, std::span<const std::byte> message,
                                               std::span<const int> fds);

struct Received {
  size_t bytes = 0;  // 0: the peer has closed
  std::vector<base::Fd> fds;
  bool would_block = false;
};
// kBadInput for a message longer than `into` (SOCK_SEQPACKET only) or with too many descriptors.
[[nodiscard]] Result<Received> ReceiveWithDescriptors(int socket, std::span<std::byte> into);

// An eventfd, non-blocking.
[[nodiscard]] Result<base::Fd> MakeEventFd();

// A number that others cannot guess.
uint64_t RandomKey();

}  // namespace spillway::gateway
