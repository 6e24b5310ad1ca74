// SPDX-License-Identifier: Apache-2.0
// Slices without a gateway: their threads, and the other ends of their channels. For the designs that go
// without one. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "bench/gateway/rig.h"
#include "gateway/transport/shm/link.h"
#include "scheduler/request_placement.h"

namespace spillway::bench {

class SliceBed {
 public:
  [[nodiscard]] static Result<std::unique_ptr<SliceBed>> Make(const Work& work, const Layout& layout);

  // A slice's place for one request.
  struct Cell {
    uint32_t slice = 0, cell = 0;
  };
  // By the same decision as the gateway's. There is always one.
  [[nodiscard]] Cell Place();
  void Free(const Cell& cell);
  // Where its input goes.
  [[nodiscard]] std::span<std::byte> Input(const Cell& cell);
  // Rings the slice for what lies there and waits; the outputs.
  [[nodiscard]] Result<std::span<const std::byte>> Run(const Cell& cell);
  [[nodiscard]] uint64_t HostNs() const;

 private:
  // One slice's near end. Of those who wait for it one collects for all.
  struct Line {
    gateway::SharedSlice near;
    base::Mutex mutex;
    base::Condition changed;
    std::map<uint64_t, gateway::Completion> done SPILLWAY_GUARDED_BY(mutex);  // by request
    bool is_collected SPILLWAY_GUARDED_BY(mutex) = false;
    uint64_t last_id SPILLWAY_GUARDED_BY(mutex) = 0;
  };
  [[nodiscard]] gateway::Completion Await(Line& line, uint64_t id);

  Work work_;
  double gflop_ = 0;
  std::vector<uint32_t> all_;
  base::Mutex mutex_;
  std::vector<scheduler::SliceState> states_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<std::vector<bool>> taken_ SPILLWAY_GUARDED_BY(mutex_);  // by slice and cell
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<std::unique_ptr<gateway::SliceThread>> threads_;
};

}  // namespace spillway::bench
