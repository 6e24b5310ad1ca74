// SPDX-License-Identifier: Apache-2.0
// Frames in and out of a network interface in batches, by an AF_PACKET socket (needs CAP_NET_RAW). Takes only
// frames that are sent to one MAC address, which need not be the interface's: the host's own stack ignores
// what is not sent to its own, so each frame has one taker. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "request_packet.h"

namespace spillway::balancer {

// "02:00:00:00:00:01". Errors: kBadInput; a multicast address is one.
[[nodiscard]] Result<Mac> ParseMac(const std::string& text);

class FramePort {
 public:
  static constexpr size_t kBatch = 64;

  // Errors: kBadInput (no such interface), kUnavailable (not permitted), kSystem.
  [[nodiscard]] static Result<std::unique_ptr<FramePort>> Open(const std::string& interface, const Mac& mac);
  ~FramePort();
  FramePort(const FramePort&) = delete;
  FramePort& operator=(const FramePort&) = delete;

  // Readable when frames wait.
  int fd() const { return fd_; }
  // Receives what waits, at most kBatch frames, without waiting; how many. They lie in frame(i) until the
  // next call; one that was cut for its length is empty.
  [[nodiscard]] size_t Receive();
  std::span<uint8_t> frame(size_t i);
  // Marks frame(i) to be sent by the next Send.
  void Keep(size_t i);
  // Sends the frames kept, in their order; how many the kernel took.
  size_t Send();
  // Frames that found the socket's buffer full since the last call.
  uint64_t TakeOverflows();

 private:
  explicit FramePort(int fd);
  struct Buffers;
  const int fd_;
  const std::unique_ptr<Buffers> buffers_;
};

}  // namespace spillway::balancer
