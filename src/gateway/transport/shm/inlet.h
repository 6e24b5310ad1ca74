// SPDX-License-Identifier: Apache-2.0
// The executor's end of a slice whose gateway is on this machine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fd.h"
#include "gateway/transport/shm/link.h"
#include "gateway/transport/slice_inlet.h"

namespace spillway::gateway {

class ShmInlet : public SliceInlet {
 public:
  // ringer: the gateway's end of the doorbell that `slice` sleeps on.
  ShmInlet(SharedSlice slice, base::Fd ringer);

  // New memory, a new channel, and a key that others cannot guess. `completions` is the doorbell of all
  // slices of the executor; a copy of it is kept.
  [[nodiscard]] static Result<std::unique_ptr<ShmInlet>> Make(const SliceOffer& offer,
                                                              const base::Fd& completions);

  [[nodiscard]] SliceMemory memory() const override { return {slice_.memory.bytes()}; }
  bool TakeSubmission(Submission& into) override { return slice_.channel.TakeSubmission(into); }
  void Complete(const Completion& completion, uint64_t output_offset) override;
  bool PrepareToWait() override { return slice_.channel.PrepareToWaitForSubmissions(); }
  void DoneWaiting() override;
  [[nodiscard]] int bell() const override { return slice_.channel.bells().submissions.get(); }
  void Ring() override { RingBell(ringer_); }

  // What the gateway is sent of it: the channel, the memory, its end of the doorbell.
  [[nodiscard]] std::array<int, 3> Descriptors() const {
    return {slice_.channel.fd(), slice_.memory.fd(), ringer_.get()};
  }

 private:
  SharedSlice slice_;
  base::Fd ringer_;
};

// A copy of the descriptor, for a second owner.
[[nodiscard]] base::Fd CopyOf(const base::Fd& fd);

// Slots of a slice's channel: more than it has cells, so that it never fills.
uint32_t ChannelSlots(uint32_t cells);

}  // namespace spillway::gateway
