// SPDX-License-Identifier: Apache-2.0
// Slices without a gateway: their threads, and the other ends of their channels. For the designs that go
// without one.
#pragma once

#include <memory>
#include <vector>

#include "bench/gateway/rig.h"
#include "gateway/shm_link.h"
#include "scheduler/request_placement.h"

namespace spillway::bench {

class SliceBed {
 public:
  [[nodiscard]] static Result<std::unique_ptr<SliceBed>> Make(const Work& work, const Layout& layout);

  // Where an input for `slice` goes.
  [[nodiscard]] std::span<std::byte> Input(uint32_t slice);
  // Rings `slice` for what lies there and waits; its outputs.
  [[nodiscard]] Result<std::span<const std::byte>> Run(uint32_t slice);
  // The same decision as the gateway's.
  [[nodiscard]] uint32_t Place();
  [[nodiscard]] uint64_t HostNs() const;

 private:
  Work work_;
  double gflop_ = 0;
  std::vector<gateway::SharedSlice> near_;
  std::vector<scheduler::SliceState> states_;
  std::vector<uint32_t> all_;
  std::vector<std::unique_ptr<gateway::SliceThread>> threads_;
  uint64_t last_id_ = 0;
};

}  // namespace spillway::bench
