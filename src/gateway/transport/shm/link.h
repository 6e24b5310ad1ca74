// SPDX-License-Identifier: Apache-2.0
// An executor on this machine: its slices' memory is mapped here, and their channels' rings are in shared
// memory too.
#pragma once

#include <cstdint>
#include <vector>

#include "gateway/transport/executor_link.h"
#include "gateway/transport/region_table.h"
#include "gateway/transport/slice_cells.h"

namespace spillway::gateway {

// A slice's channel and memory, as either side holds them.
struct SharedSlice {
  SliceOffer offer;
  uint64_t key = 0;  // of the memory; every submission says it
  Channel channel;
  SharedMemory memory;
};

class ShmLink : public ExecutorLink {
 public:
  // `regions` gets each slice's memory, held by (first_holder + slice); forgotten at the end.
  ShmLink(std::vector<SharedSlice> slices, RegionTable& regions, uint64_t first_holder);
  ~ShmLink() override;

  // False: two slices claim one key.
  [[nodiscard]] bool keys_are_good() const { return keys_are_good_; }

  bool Deliver(const Delivery& delivery, uint32_t slice) override;
  void GiveUp(uint32_t slice, uint32_t cell, uint64_t id) override;
  bool TakeCompletions(const OnCompletion& on_completion) override;
  [[nodiscard]] bool HasCompletions() override;
  [[nodiscard]] int bell() const override { return lines_.front().slice.channel.bells().completions.get(); }
  bool PrepareToWait() override;
  void DoneWaiting() override;

 private:
  struct Line {
    SharedSlice slice;
    SliceCells cells;
  };

  std::vector<Line> lines_;
  RegionTable& regions_;
  uint64_t first_holder_;
  bool keys_are_good_ = true;
};

}  // namespace spillway::gateway
