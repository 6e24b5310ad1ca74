// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/slice_cells.h"

#include <algorithm>
#include <cstring>

#include "gateway/transport/shared_memory.h"

namespace spillway::gateway {

SliceCells::SliceCells(const SliceOffer& offer, uint64_t key)
    : layout_(offer), key_(key), cells_(offer.cells) {}

std::vector<SliceCells::Range> SliceCells::TakeDirty() {
  std::vector<Range> ranges;
  for (uint32_t i = 0; i < cells_.size(); i++) {
    Cell& cell = cells_[i];
    if (cell.dirty_input > 0) ranges.push_back({layout_.Input(i), cell.dirty_input});
    if (cell.dirty_output > 0) ranges.push_back({layout_.Output(i), cell.dirty_output});
    cell.dirty_input = cell.dirty_output = 0;
  }
  return ranges;
}

std::optional<Submission> SliceCells::Describe(const Delivery& delivery) const {
  if (delivery.cell >= cells_.size() || delivery.inputs.size() > layout_.input_bytes ||
      delivery.output_bytes > layout_.output_bytes)
    return std::nullopt;
  Submission submission;
  submission.id = delivery.id;
  submission.key = key_;
  submission.input_offset = layout_.Input(delivery.cell);
  submission.input_bytes = delivery.inputs.size();
  submission.output_offset = layout_.Output(delivery.cell);
  submission.output_bytes = delivery.output_bytes;
  submission.model = delivery.model;
  submission.rows = static_cast<uint32_t>(delivery.rows);
  return submission;
}

void SliceCells::Fill(const Delivery& delivery) {
  Cell& cell = cells_[delivery.cell];
  cell.id = delivery.id;
  cell.dirty_input = std::max<uint64_t>(cell.dirty_input, delivery.inputs.size());
  // In the place of outputs there may be a text.
  const uint64_t output = std::max(delivery.output_bytes, kMaxMessage);
  cell.dirty_output = std::max(cell.dirty_output, std::min(layout_.output_bytes, output));
}

std::optional<uint32_t> SliceCells::Free(uint64_t id) {
  const auto cell =
      std::find_if(cells_.begin(), cells_.end(), [&](const Cell& c) { return c.id == id && c.id != 0; });
  if (cell == cells_.end()) return std::nullopt;
  cell->id = 0;
  return static_cast<uint32_t>(cell - cells_.begin());
}

void CopyInputs(const Delivery& delivery, std::byte* into) {
  if (delivery.peer != nullptr)
    delivery.peer->Read(delivery.inputs, into);
  else if (!delivery.inputs.empty())
    std::memcpy(into, delivery.inputs.data(), delivery.inputs.size());
}

}  // namespace spillway::gateway
