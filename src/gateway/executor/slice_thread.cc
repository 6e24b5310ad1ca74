// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/slice_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "base/relax.h"
#include "gateway/protocol/status.h"

namespace spillway::gateway {
namespace {

constexpr uint64_t kAwakeAfterRingNs = 200'000;  // the copy of 2 MiB or so

uint64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

SliceThread::SliceThread(std::unique_ptr<SliceInlet> inlet, Engine& engine, int cpu, OnLost on_lost,
                         OnMade on_made)
    : inlet_(std::move(inlet)),
      engine_(engine),
      cpu_(cpu),
      on_lost_(std::move(on_lost)),
      on_made_(std::move(on_made)),
      thread_([this] { Loop(); }) {}

SliceThread::~SliceThread() {
  stop_.store(true);
  inlet_->Ring();
  thread_.join();
}

SliceCosts SliceThread::Costs() const {
  return {requests_.load(), refused_.load(), launch_cpu_ns_.load(), kernel_cpu_ns_.load()};
}

void SliceThread::Lose(const Error& error, bool was_made) const {
  const SliceOffer& slice = inlet_->offer();
  on_lost_(
      {{error.code, fmt::format("slice {}/{}: {}", slice.gpu, slice.name, error.message)}, slice, was_made});
}

void SliceThread::Loop() {
  if (cpu_ >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<size_t>(cpu_), &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
  }
  auto engine = engine_.MakeSlice(inlet_->offer(), inlet_->memory());
  if (!engine) return Lose(engine.error(), false);
  on_made_();
  while (!stop_.load()) {
    Submission submission;
    if (!inlet_->TakeSubmission(submission)) {
      // The bell is rung at the end as well, whether anybody sleeps or not.
      inlet_->Wait(-1);
      if (!AwaitAfterRing(submission)) continue;
    }
    if (const auto served = Serve(**engine, submission); !served) return Lose(served.error(), true);
  }
}

// The gateway rings while it still copies (Channel::WakeForSubmission): whoever slept again then would have
// to be woken twice, and who gave up the CPU to others would come behind them all.
bool SliceThread::AwaitAfterRing(Submission& into) {
  const uint64_t until = Now(CLOCK_MONOTONIC) + kAwakeAfterRingNs;
  while (!stop_.load()) {
    if (inlet_->TakeSubmission(into)) return true;
    if (Now(CLOCK_MONOTONIC) >= until) break;
    base::Relax();
  }
  return false;
}

Result<void> SliceThread::Serve(SliceEngine& engine, const Submission& submission) {
  const uint64_t begun = Now(CLOCK_MONOTONIC);
  Completion completion;
  completion.id = submission.id;
  const auto cell =
      CheckSubmission(inlet_->offer(), inlet_->key(), inlet_->memory(), engine_.models(), submission);
  if (!cell) {
    if (refused_++ == 0)
      spdlog::error("slice {}: invalid message from the gateway rejected", inlet_->offer().name);
    completion.status = static_cast<uint32_t>(Status::kFailed);
  } else if (IsGivenUp(inlet_->offer(), inlet_->memory(), submission)) {
    completion.status = static_cast<uint32_t>(Status::kCancelled);
  } else {
    const uint64_t before = Now(CLOCK_THREAD_CPUTIME_ID);
    const auto ran = engine.Run(submission.model, submission.rows, cell->inputs, cell->outputs);
    const uint64_t after = Now(CLOCK_THREAD_CPUTIME_ID);
    kernel_cpu_ns_.store(kernel_cpu_ns_.load(std::memory_order_relaxed) + after - before,
                         std::memory_order_relaxed);
    // Everything this thread did but the kernel's work.
    launch_cpu_ns_.store(after - kernel_cpu_ns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    completion.output_bytes = cell->outputs.size();
    if (!ran && ran.error().code == ErrorCode::kUnavailable) return ran;
    if (!ran) {
      completion.status = static_cast<uint32_t>(Status::kFailed);
      const auto room = RoomForText(inlet_->offer(), inlet_->memory(), submission);
      completion.output_bytes = std::min(room.size(), ran.error().message.size());
      std::memcpy(room.data(), ran.error().message.data(), completion.output_bytes);
    }
  }
  requests_.store(requests_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  completion.busy_ns = Now(CLOCK_MONOTONIC) - begun;
  inlet_->Complete(completion, submission.output_offset);
  return {};
}

}  // namespace spillway::gateway
