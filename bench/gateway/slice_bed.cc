// SPDX-License-Identifier: Apache-2.0
#include "bench/gateway/slice_bed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/fd.h"
#include "bench/gateway/background_load.h"
#include "gateway/transport/shm/inlet.h"

namespace spillway::bench {
namespace {

using base::Fd;
using gateway::Channel;
using gateway::SharedSlice;

base::Fd Copy(int fd) { return base::Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace

Result<std::unique_ptr<SliceBed>> SliceBed::Make(const Work& work, const Layout& layout) {
  auto bed = std::make_unique<SliceBed>();
  bed->work_ = work;
  bed->gflop_ = work.engine->models()[0].GflopFor(1);
  for (uint32_t i = 0; i < work.slices; i++) {
    SharedSlice near;
    near.offer = {BenchSlice(i),    kBenchGpu,
                  work.gflop_per_s, work.cells(),
                  work.input_bytes, std::max<uint64_t>(work.output_bytes, gateway::kMaxMessage)};
    near.key = gateway::RandomKey();
    auto submissions = gateway::MakeDoorbell(), completions = gateway::MakeDoorbell();
    if (!submissions || !completions) return Fail(ErrorCode::kSystem, "socketpair");
    const uint32_t slots = std::bit_ceil(std::max(8U, work.cells()));
    auto channel = Channel::Create(slots, {Copy(submissions->ringer.get()), std::move(completions->sleeper)});
    if (!channel) return tl::make_unexpected(channel.error());
    auto memory = gateway::SharedMemory::Create("bench-slice", gateway::CellLayout(near.offer).Bytes());
    if (!memory) return tl::make_unexpected(memory.error());
    near.channel = std::move(*channel);
    near.memory = std::move(*memory);
    SharedSlice far;
    far.offer = near.offer;
    far.key = near.key;
    auto mapped = Channel::Map(Copy(near.channel.fd()), slots,
                               {std::move(submissions->sleeper), std::move(completions->ringer)});
    if (!mapped) return tl::make_unexpected(mapped.error());
    auto far_memory = gateway::SharedMemory::Map(Copy(near.memory.fd()), near.memory.bytes().size());
    if (!far_memory) return tl::make_unexpected(far_memory.error());
    far.channel = std::move(*mapped);
    far.memory = std::move(*far_memory);
    bed->lines_.push_back(std::make_unique<Line>());
    bed->lines_.back()->near = std::move(near);
    bed->threads_.push_back(std::make_unique<gateway::SliceThread>(
        std::make_unique<gateway::ShmInlet>(std::move(far), std::move(submissions->ringer)), *work.engine,
        layout.host_cpu));
    scheduler::SliceState state;
    state.gpu = i;
    state.gflop_per_s = work.gflop_per_s;
    state.cells_free = work.cells();
    bed->all_.push_back(i);
    const base::MutexLock lock(bed->mutex_);
    bed->states_.push_back(state);
    bed->taken_.emplace_back(work.cells(), false);
  }
  return bed;
}

SliceBed::Cell SliceBed::Place() {
  const base::MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto placement = scheduler::PlaceRequest({0, gflop_, all_, scheduler::kNobody}, states_,
                                                 scheduler::Isolation::kFraction, now);
  const auto slice = static_cast<uint32_t>(placement.slice);
  std::vector<bool>& cells = taken_[slice];
  const auto cell = std::find(cells.begin(), cells.end(), false);
  *cell = true;
  states_[slice].free_at = placement.done_at;
  states_[slice].cells_free--;
  states_[slice].in_hand++;
  return {slice, static_cast<uint32_t>(cell - cells.begin())};
}

void SliceBed::Free(const Cell& cell) {
  const base::MutexLock lock(mutex_);
  taken_[cell.slice][cell.cell] = false;
  scheduler::SliceState& state = states_[cell.slice];
  state.cells_free++;
  // Whatever was expected, it is idle.
  if (--state.in_hand == 0) state.free_at = std::chrono::steady_clock::now().time_since_epoch();
}

std::span<std::byte> SliceBed::Input(const Cell& cell) {
  gateway::SharedSlice& near = lines_[cell.slice]->near;
  return near.memory.bytes().subspan(gateway::CellLayout(near.offer).Input(cell.cell), work_.input_bytes);
}

gateway::Completion SliceBed::Await(Line& line, uint64_t id) {
  Channel& channel = line.near.channel;
  base::MutexLock lock(line.mutex);
  for (;;) {
    if (const auto done = line.done.extract(id)) return done.mapped();
    if (line.is_collected) {
      line.changed.Wait(line.mutex);
      continue;
    }
    line.is_collected = true;
    lock.Unlock();
    gateway::Completion completion;
    while (!channel.TakeCompletion(completion)) {
      SpinFor(work_.host_spin, [&] { return channel.HasCompletion(); });
      if (!channel.HasCompletion()) channel.WaitForCompletions(-1);
    }
    lock.Lock();
    line.is_collected = false;
    line.done[completion.id] = completion;
    line.changed.NotifyAll();
  }
}

Result<std::span<const std::byte>> SliceBed::Run(const Cell& cell) {
  Line& line = *lines_[cell.slice];
  const gateway::CellLayout layout(line.near.offer);
  gateway::Submission submission;
  submission.key = line.near.key;
  submission.input_offset = layout.Input(cell.cell);
  submission.input_bytes = work_.input_bytes;
  submission.output_offset = layout.Output(cell.cell);
  submission.output_bytes = work_.output_bytes;
  {
    const base::MutexLock lock(line.mutex);
    submission.id = ++line.last_id;
    if (!line.near.channel.Submit(submission)) return Fail(ErrorCode::kSystem, "the slice's ring is full");
  }
  const gateway::Completion completion = Await(line, submission.id);
  if (completion.status != 0) return Fail(ErrorCode::kSystem, "the slice failed");
  return std::span<const std::byte>(
      line.near.memory.bytes().subspan(layout.Output(cell.cell), work_.output_bytes));
}

uint64_t SliceBed::HostNs() const {
  uint64_t ns = 0;
  for (const auto& thread : threads_) ns += HostNsOf(work_, thread->Costs());
  return ns;
}

}  // namespace spillway::bench
