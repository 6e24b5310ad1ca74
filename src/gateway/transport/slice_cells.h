// SPDX-License-Identifier: Apache-2.0
// The gateway's book of a slice's cells: which request is in which, and which bytes of the slice's memory
// were written for its tenant. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gateway/transport/executor_offer.h"

namespace spillway::gateway {

class SliceCells {
 public:
  SliceCells(const SliceOffer& offer, uint64_t key);

  struct Range {
    uint64_t offset = 0, bytes = 0;  // in the slice's memory
  };
  // What was written since the last call: to be wiped before another tenant's request comes. All cells are
  // free then.
  std::vector<Range> TakeDirty();

  // What the slice is to be told of a delivery. nullopt: it does not fit into a cell.
  [[nodiscard]] std::optional<Submission> Describe(const Delivery& delivery) const;
  // It has been delivered, or begun to be.
  void Fill(const Delivery& delivery);
  // The request's cell, which is free from now on; nullopt: there is no such request.
  std::optional<uint32_t> Free(uint64_t id);

  [[nodiscard]] const CellLayout& layout() const { return layout_; }

 private:
  struct Cell {
    uint64_t id = 0;  // 0: free
    uint64_t dirty_input = 0, dirty_output = 0;
  };
  CellLayout layout_;
  uint64_t key_;
  std::vector<Cell> cells_;
};

// All of them, from wherever they lie.
void CopyInputs(const Delivery& delivery, std::byte* into);

}  // namespace spillway::gateway
