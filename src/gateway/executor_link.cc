// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor_link.h"

#include <algorithm>
#include <cstring>

namespace spillway::gateway {
namespace {

// From so many bytes on the slice's thread is woken before they are copied: another CPU takes longer to wake
// (48 us on the reference machine) than 64 KiB take to get there (6 us).
constexpr size_t kWorthAnEarlyRing = 8 << 10;

}  // namespace

ExecutorLink::ExecutorLink(std::vector<SliceLine> slices, RegionTable& regions, uint64_t first_holder)
    : regions_(regions), first_holder_(first_holder) {
  for (SliceLine& line : slices) {
    if (!regions_.Adopt(line.key, first_holder_ + lines_.size(), line.memory.bytes())) keys_are_good_ = false;
    const uint32_t cells = line.offer.cells;
    lines_.push_back({std::move(line), std::vector<Cell>(cells)});
  }
}

ExecutorLink::~ExecutorLink() {
  for (size_t i = 0; i < lines_.size(); i++) regions_.ForgetAllOf(first_holder_ + i);
}

void ExecutorLink::Scrub(Line& line) const {
  const CellLayout layout(line.line.offer);
  std::byte* memory = line.line.memory.bytes().data();
  for (uint32_t i = 0; i < line.cells.size(); i++) {
    std::memset(memory + layout.Input(i), 0, line.cells[i].dirty_input);
    std::memset(memory + layout.Output(i), 0, line.cells[i].dirty_output);
    line.cells[i].dirty_input = line.cells[i].dirty_output = 0;
  }
}

bool ExecutorLink::Deliver(const Delivery& delivery, uint32_t slice) {
  Line& line = lines_[slice];
  Cell& cell = line.cells[delivery.cell];
  const CellLayout layout(line.line.offer);
  if (delivery.scrub) Scrub(line);
  const auto into = regions_.Find(first_holder_ + slice, line.line.key, layout.Input(delivery.cell),
                                  delivery.inputs.size());
  if (!into || delivery.inputs.size() > layout.input_bytes || delivery.output_bytes > layout.output_bytes)
    return false;
  if (delivery.inputs.size() >= kWorthAnEarlyRing) line.line.channel.WakeForSubmission();
  std::memcpy(into->data(), delivery.inputs.data(), delivery.inputs.size());
  cell.dirty_input = std::max<uint64_t>(cell.dirty_input, delivery.inputs.size());
  cell.dirty_output =
      std::max(cell.dirty_output,
               std::min(layout.output_bytes, std::max<uint64_t>(delivery.output_bytes, kMostMessage)));
  Submission submission;
  submission.id = delivery.id;
  submission.key = line.line.key;
  submission.input_offset = layout.Input(delivery.cell);
  submission.input_bytes = delivery.inputs.size();
  submission.output_offset = layout.Output(delivery.cell);
  submission.output_bytes = delivery.output_bytes;
  submission.model = delivery.model;
  submission.rows = static_cast<uint32_t>(delivery.rows);
  if (!line.line.channel.Submit(submission)) return false;
  cell.id = delivery.id;
  cell.output_bytes = delivery.output_bytes;
  return true;
}

bool ExecutorLink::TakeCompletions(const OnCompletion& on_completion) {
  for (uint32_t i = 0; i < lines_.size(); i++) {
    Line& line = lines_[i];
    const CellLayout layout(line.line.offer);
    Completion completion;
    while (line.line.channel.TakeCompletion(completion)) {
      const auto cell = std::find_if(line.cells.begin(), line.cells.end(),
                                     [&](const Cell& c) { return c.id == completion.id && c.id != 0; });
      if (cell == line.cells.end()) return false;
      cell->id = 0;
      std::span<const std::byte> outputs;
      if (completion.output_bytes <= layout.output_bytes)
        outputs = line.line.memory.bytes().subspan(
            layout.Output(static_cast<uint32_t>(cell - line.cells.begin())), completion.output_bytes);
      on_completion(i, completion, outputs);
    }
    if (line.line.channel.broken()) return false;
  }
  return true;
}

bool ExecutorLink::HasCompletions() const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const Line& line) { return line.line.channel.HasCompletion(); });
}

bool ExecutorLink::PrepareToWait() {
  for (Line& line : lines_) {
    if (line.line.channel.PrepareToWaitForCompletions()) continue;
    DoneWaiting();
    return false;
  }
  return true;
}

void ExecutorLink::DoneWaiting() {
  for (Line& line : lines_) line.line.channel.DoneWaitingForCompletions();
}

}  // namespace spillway::gateway
