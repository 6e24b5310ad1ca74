// SPDX-License-Identifier: Apache-2.0
#include "bench/gateway/slice_bed.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "base/fd.h"
#include "gateway/shm_inlet.h"

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
                  work.gflop_per_s, 2,
                  work.input_bytes, std::max<uint64_t>(work.output_bytes, gateway::kMostMessage)};
    near.key = gateway::RandomKey();
    auto submissions = gateway::MakeEventFd(), completions = gateway::MakeEventFd();
    if (!submissions || !completions) return Fail(ErrorCode::kSystem, "eventfd");
    auto channel = Channel::Create(8, {std::move(*submissions), std::move(*completions)});
    if (!channel) return tl::make_unexpected(channel.error());
    auto memory = gateway::SharedMemory::Create("bench-slice", gateway::CellLayout(near.offer).Bytes());
    if (!memory) return tl::make_unexpected(memory.error());
    near.channel = std::move(*channel);
    near.memory = std::move(*memory);
    SharedSlice far;
    far.offer = near.offer;
    far.key = near.key;
    auto mapped = Channel::Map(
        Copy(near.channel.fd()), 8,
        {Copy(near.channel.bells().submissions.get()), Copy(near.channel.bells().completions.get())});
    if (!mapped) return tl::make_unexpected(mapped.error());
    auto far_memory = gateway::SharedMemory::Map(Copy(near.memory.fd()), near.memory.bytes().size());
    if (!far_memory) return tl::make_unexpected(far_memory.error());
    far.channel = std::move(*mapped);
    far.memory = std::move(*far_memory);
    bed->near_.push_back(std::move(near));
    bed->threads_.push_back(std::make_unique<gateway::SliceThread>(
        std::make_unique<gateway::ShmInlet>(std::move(far)), *work.engine, layout.host_cpu));
    scheduler::SliceState state;
    state.gpu = i;
    state.gflop_per_s = work.gflop_per_s;
    state.cells_free = 2;
    bed->states_.push_back(state);
    bed->all_.push_back(i);
  }
  return bed;
}

std::span<std::byte> SliceBed::Input(uint32_t slice) {
  return near_[slice].memory.bytes().subspan(gateway::CellLayout(near_[slice].offer).Input(0),
                                             work_.input_bytes);
}

Result<std::span<const std::byte>> SliceBed::Run(uint32_t slice) {
  SharedSlice& line = near_[slice];
  const gateway::CellLayout layout(line.offer);
  gateway::Submission submission;
  submission.id = ++last_id_;
  submission.key = line.key;
  submission.input_offset = layout.Input(0);
  submission.input_bytes = work_.input_bytes;
  submission.output_offset = layout.Output(0);
  submission.output_bytes = work_.output_bytes;
  if (!line.channel.Submit(submission)) return Fail(ErrorCode::kSystem, "the slice's ring is full");
  gateway::Completion completion;
  while (!line.channel.TakeCompletion(completion)) line.channel.WaitForCompletions(-1);
  if (completion.id != submission.id || completion.status != 0)
    return Fail(ErrorCode::kSystem, "the slice failed");
  return std::span<const std::byte>(line.memory.bytes().subspan(layout.Output(0), work_.output_bytes));
}

uint32_t SliceBed::Place() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto placement = scheduler::PlaceRequest({0, gflop_, all_, scheduler::kNobody}, states_,
                                                 scheduler::Isolation::kFraction, now);
  states_[static_cast<size_t>(placement.slice)].free_at = placement.done_at;
  return static_cast<uint32_t>(placement.slice);
}

uint64_t SliceBed::HostNs() const {
  uint64_t ns = 0;
  for (const auto& thread : threads_) ns += HostNsOf(work_, thread->Costs());
  return ns;
}

}  // namespace spillway::bench
