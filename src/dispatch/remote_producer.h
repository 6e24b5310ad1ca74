// SPDX-License-Identifier: Apache-2.0
// The remote side of a window in shared memory: another process, or a SmartNIC that maps the host's memory,
// puts events straight into the consumer's queues. Not thread-safe; a ring of the window belongs to one
// producer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "dispatch/event.h"
#include "dispatch/window_layout.h"

namespace spillway::dispatch {

// On lines of its own: it writes where it is with each call, the consumer may be in this process.
class alignas(kCacheLine) RemoteProducer {
 public:
  // Maps the window behind `fd` (which stays the caller's) and takes its ring `ring`, where the last producer
  // left it, if that is gone. Errors: kBadInput when it is no window of this version or has no such ring,
  // kConflict when the ring has its producer, kSystem (also without /proc, by which the ring is locked).
  [[nodiscard]] static Result<std::unique_ptr<RemoteProducer>> Map(int fd, uint32_t ring);
  ~RemoteProducer();
  RemoteProducer(const RemoteProducer&) = delete;
  RemoteProducer& operator=(const RemoteProducer&) = delete;

  // How many were taken: fewer when credits are out, none once Closed says why. `queue` and `op` of the
  // events are not read. Never waits, and makes no system call.
  [[nodiscard]] size_t Enqueue(std::span<const Event> events);

  [[nodiscard]] WindowClosed Closed() const;

 private:
  RemoteProducer(const WindowHeader& header, uint32_t ring, void* memory, int lock);
  void TakeOver();
  void Fill(Slot* slots, std::span<const Event> events, uint64_t lap) const;

  const WindowHeader header_;
  const uint64_t mask_;
  const int bits_;
  WindowWords* const words_;
  RingWords& ring_;
  Slot* const slots_;
  const int lock_;  // a descriptor whose file description holds the ring's lock
  uint64_t epoch_ = 0;
  uint64_t tail_ = 0;     // the next place to fill
  uint64_t granted_ = 0;  // places below may be filled, as last seen
};

// The window's descriptor over a UNIX socket, one message, with the ring that the receiver may use.
// Errors: kSystem; kBadInput when what arrives is no such message.
[[nodiscard]] Result<void> SendWindow(int socket, int fd, uint32_t ring);
struct ReceivedWindow {
  int fd = -1;  // the receiver's to close
  uint32_t ring = 0;
};
[[nodiscard]] Result<ReceivedWindow> ReceiveWindow(int socket);

}  // namespace spillway::dispatch
