// SPDX-License-Identifier: Apache-2.0
// The gateway's end of one executor: puts a request's inputs into a cell of a slice's memory and rings it;
// hears what slices have done. The shm transport; it is what `verbs` would replace. One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gateway/executor_protocol.h"
#include "gateway/region_table.h"

namespace spillway::gateway {

class ExecutorLink {
 public:
  // `regions` gets each slice's memory, held by (holder base + slice); forgotten at the end.
  ExecutorLink(std::vector<SliceLine> slices, RegionTable& regions, uint64_t first_holder);
  ~ExecutorLink();
  ExecutorLink(const ExecutorLink&) = delete;
  ExecutorLink& operator=(const ExecutorLink&) = delete;

  // False: two slices claim one key.
  [[nodiscard]] bool keys_are_good() const { return keys_are_good_; }

  // `slice` counts from 0 in this executor. False: the ring does not take it.
  bool Deliver(const Delivery& delivery, uint32_t slice);

  using OnCompletion =
      std::function<void(uint32_t slice, const Completion& completion, std::span<const std::byte> outputs)>;
  // Calls for each; outputs lie in the cell, and are empty if the slice claims more than a cell holds.
  // False: the executor breaks the rules (an unknown request, a broken ring).
  bool TakeCompletions(const OnCompletion& on_completion);
  [[nodiscard]] bool HasCompletions() const;

  // -- sleeping on the one doorbell of all its slices
  [[nodiscard]] int bell() const { return lines_.front().line.channel.bells().completions.get(); }
  bool PrepareToWait();
  void DoneWaiting();

 private:
  struct Cell {
    uint64_t id = 0;  // 0: free
    uint64_t output_bytes = 0;
    uint64_t dirty_input = 0, dirty_output = 0;  // bytes that were written since the last scrub
  };
  struct Line {
    SliceLine line;
    std::vector<Cell> cells;
  };
  void Scrub(Line& line) const;

  std::vector<Line> lines_;
  RegionTable& regions_;
  uint64_t first_holder_;
  bool keys_are_good_ = true;
};

}  // namespace spillway::gateway
