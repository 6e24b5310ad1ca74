// SPDX-License-Identifier: Apache-2.0
// The remote side of a window over RDMA verbs, as RemoteProducer is of one in shared memory: a SmartNIC or
// another machine puts events straight into the queues of a VerbsHost. Not thread-safe.
//
// Events are written by RDMA WRITE: first all of a burst but its first one, then, as a message of its own,
// the first, which the consumer waits for. RDMA keeps the order of messages; of the bytes of one it says
// nothing. What is granted is read ahead, while there are credits yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "dispatch/event.h"
#include "dispatch/verbs_link.h"
#include "dispatch/window_layout.h"

namespace spillway::dispatch {

class VerbsProducer {
 public:
  // Errors: as VerbsLink::Connect.
  [[nodiscard]] static Result<std::unique_ptr<VerbsProducer>> Connect(
      const std::string& address, uint16_t port, const VerbsProducerOptions& options = {});
  explicit VerbsProducer(std::unique_ptr<VerbsLink> link);

  // How many were taken: fewer when credits or room on the way are out, none once the window is closed or the
  // connection gone. `queue` and `op` of the events are not read. Never waits.
  [[nodiscard]] size_t Enqueue(std::span<const Event> events);

  // Waits until all that was taken is in the host's memory; without, what is on its way when the producer
  // goes may be lost. Errors: kSystem.
  [[nodiscard]] Result<void> Drain(std::chrono::milliseconds patience);

  // Why Enqueue takes nothing: nothing is wrong but credits are out; or an error, of one line. Makes a system
  // call.
  [[nodiscard]] Result<void> Status();
  [[nodiscard]] WindowClosed Closed() const { return closed_; }

 private:
  void Reap();
  void AskForCredits();
  void ReadCredits();
  void Write(std::span<const Event> events);
  void Fill(uint64_t place, const Event& event);

  const std::unique_ptr<VerbsLink> link_;
  const uint32_t slots_;
  const int bits_;
  const uint64_t ring_offset_;  // in the window, and in our copy
  Slot* const copy_;            // of the ring: what is on its way
  uint64_t tail_ = 0;
  uint64_t arrived_ = 0;  // places below are in the host's memory
  uint64_t granted_ = 0;  // places below may be written, as last read
  bool asking_ = false;   // a read of it is under way
  WindowClosed closed_ = WindowClosed::kOpen;
};

}  // namespace spillway::dispatch
