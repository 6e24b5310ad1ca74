// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/shm/link.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace spillway::gateway {
namespace {

// From so many bytes on the slice's thread is woken before they are copied: another CPU takes longer to wake
// (48 us on the reference machine) than 64 KiB take to get there (6 us).
constexpr size_t kWorthAnEarlyRing = 8 << 10;

}  // namespace

ShmLink::ShmLink(std::vector<SharedSlice> slices, RegionTable& regions, uint64_t first_holder)
    : regions_(regions), first_holder_(first_holder) {
  for (SharedSlice& slice : slices) {
    if (!regions_.Adopt(slice.key, first_holder_ + lines_.size(), slice.memory.bytes()))
      keys_are_good_ = false;
    SliceCells cells(slice.offer, slice.key);
    lines_.push_back({std::move(slice), std::move(cells)});
  }
}

ShmLink::~ShmLink() {
  for (size_t i = 0; i < lines_.size(); i++) regions_.ForgetAllOf(first_holder_ + i);
}

bool ShmLink::Deliver(const Delivery& delivery, uint32_t number) {
  auto& [slice, cells] = lines_[number];
  const auto submission = cells.Describe(delivery);
  if (!submission) return false;
  if (delivery.wipe)
    for (const SliceCells::Range& range : cells.TakeDirty())
      std::memset(slice.memory.bytes().data() + range.offset, 0, range.bytes);
  const auto into =
      regions_.Find(first_holder_ + number, slice.key, submission->input_offset, submission->input_bytes);
  if (!into) return false;
  if (delivery.inputs.size() >= kWorthAnEarlyRing) slice.channel.WakeForSubmission();
  CopyInputs(delivery, into->data());
  cells.Fill(delivery);
  return slice.channel.Submit(*submission);
}

void ShmLink::GiveUp(uint32_t number, uint32_t cell, uint64_t id) {
  const Line& line = lines_[number];
  std::byte* const at = line.slice.memory.bytes().data() + line.cells.layout().GivenUp(cell);
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).store(id, std::memory_order_relaxed);
}

bool ShmLink::TakeCompletions(const OnCompletion& on_completion) {
  for (uint32_t i = 0; i < lines_.size(); i++) {
    auto& [slice, cells] = lines_[i];
    const CellLayout& layout = cells.layout();
    Completion completion;
    // Those of requests that this leads to are for the next turn: others wait as well.
    for (uint32_t left = layout.cells; left > 0 && slice.channel.TakeCompletion(completion); left--) {
      const auto cell = cells.Free(completion.id);
      if (!cell) return false;
      std::span<const std::byte> outputs;
      if (completion.output_bytes <= layout.output_bytes)
        outputs = slice.memory.bytes().subspan(layout.Output(*cell), completion.output_bytes);
      on_completion(i, completion, outputs);
    }
    if (slice.channel.broken()) return false;
  }
  return true;
}

bool ShmLink::HasCompletions() {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const Line& line) { return line.slice.channel.HasCompletion(); });
}

bool ShmLink::PrepareToWait() {
  for (Line& line : lines_) {
    if (line.slice.channel.PrepareToWaitForCompletions()) continue;
    DoneWaiting();
    return false;
  }
  return true;
}

void ShmLink::DoneWaiting() {
  for (Line& line : lines_) line.slice.channel.DoneWaitingForCompletions();
}

}  // namespace spillway::gateway
