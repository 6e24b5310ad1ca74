// SPDX-License-Identifier: Apache-2.0
// Owner of a file descriptor: closes it at the end of its life. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>

namespace spillway::base {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { Reset(); }

  // -1: none.
  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Closes it, errno as it was, and owns `fd` instead.
  void Reset(int fd = -1);
  // Hands it over to the caller.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// As many descriptors as the hard limit allows: the soft one of most systems is 1024. Returns how many.
uint64_t RaiseDescriptorLimit();

}  // namespace spillway::base
