// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/program_slice.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "gateway/status.h"

namespace spillway::gateway {

// Its thread is let go, not waited for: a program that has forked has it no more.
class ProgramSlice::Pulse {
 public:
  static std::shared_ptr<Pulse> Start(int socket) {
    auto pulse = std::make_shared<Pulse>();
    pulse->socket_ = socket;
    std::thread([pulse] { pulse->Run(); }).detach();
    return pulse;
  }
  void End() {
    {
      const std::lock_guard lock(mutex_);
      socket_ = -1;
    }
    changed_.notify_all();
  }
  std::atomic<bool> is_busy{false};

 private:
  static constexpr std::chrono::milliseconds kEvery{500};

  void Run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kEvery, [this] { return socket_ < 0; }))
      if (is_busy) Beat(socket_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int socket_ = -1;  // under mutex_; -1: it is over
};

ProgramSlice::~ProgramSlice() {
  if (pulse_) pulse_->End();
}

ProgramSlice& ProgramSlice::operator=(ProgramSlice&& other) noexcept {
  // What is replaced goes with `other`, whose end ends it.
  std::swap(pulse_, other.pulse_);
  std::swap(socket_, other.socket_);
  std::swap(inlet_, other.inlet_);
  std::swap(model_, other.model_);
  std::swap(in_hand_, other.in_hand_);
  std::swap(taken_at_, other.taken_at_);
  return *this;
}

Result<ProgramSlice> ProgramSlice::Join(const Options& options) {
  SliceOffer slice;
  slice.name = "s0";
  // Without a GPU it shares none with anybody.
  slice.gpu = options.gpu_uuid.empty() ? options.name : "program";
  slice.gpu_uuid = options.gpu_uuid;
  slice.gflop_per_s = options.gflop_per_s;
  slice.cells = options.cells;
  slice.input_bytes = std::max<uint64_t>(options.model.InputBytes(options.model.most_rows), 64);
  slice.output_bytes = std::max(options.model.OutputBytes(options.model.most_rows), kMostMessage);
  auto joined = JoinGateway(options.gateway, {options.name, {options.model}, {slice}});
  if (!joined) return tl::make_unexpected(joined.error());
  ProgramSlice program;
  program.socket_ = std::move(joined->socket);
  program.inlet_ = std::move(joined->slices[0]);
  program.model_ = options.model;
  program.pulse_ = Pulse::Start(program.socket_.get());
  return program;
}

void ProgramSlice::Complete(uint32_t status, uint64_t output_bytes) {
  Completion completion;
  completion.id = in_hand_->id;
  completion.status = status;
  completion.output_bytes = output_bytes;
  completion.busy_ns = static_cast<uint64_t>((std::chrono::steady_clock::now() - taken_at_).count());
  inlet_->Complete(completion, in_hand_->output_offset);
  in_hand_.reset();
  pulse_->is_busy = false;
}

Result<std::optional<ProgramSlice::Taken>> ProgramSlice::Take(std::chrono::milliseconds patience) {
  if (in_hand_) {
    std::memset(inlet_->memory().data() + in_hand_->output_offset, 0, in_hand_->output_bytes);
    Complete(static_cast<uint32_t>(Status::kOk), in_hand_->output_bytes);
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  for (bool gone = false;;) {
    Submission submission;
    if (inlet_->TakeSubmission(submission)) {
      taken_at_ = std::chrono::steady_clock::now();
      in_hand_ = submission;
      const auto cell =
          CheckSubmission(inlet_->offer(), inlet_->key(), inlet_->memory(), {model_}, submission);
      if (!cell) {
        Complete(static_cast<uint32_t>(Status::kFailed), 0);
        continue;
      }
      if (IsGivenUp(inlet_->offer(), inlet_->memory(), submission)) {
        Complete(static_cast<uint32_t>(Status::kCancelled), 0);
        continue;
      }
      pulse_->is_busy = true;
      return Taken{inlet_->memory().subspan(submission.input_offset, submission.input_bytes),
                   submission.rows};
    }
    if (gone) return Fail(ErrorCode::kUnavailable, "the gateway has gone");
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() < 0) return std::optional<Taken>();
    if (!inlet_->PrepareToWait()) continue;
    pollfd waits[] = {{inlet_->bell(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    // A millisecond more: `left` was rounded down.
    poll(waits, 2, static_cast<int>(std::min<int64_t>(left.count() + 1, INT32_MAX)));
    inlet_->DoneWaiting();
    gone = waits[1].revents != 0;  // what came before is served
  }
}

Result<void> ProgramSlice::Answer(std::span<const std::byte> outputs) {
  if (!in_hand_) return Fail(ErrorCode::kBadInput, "no request is in hand: it was answered already");
  if (outputs.size() != in_hand_->output_bytes)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{} bytes of outputs, expected {}", outputs.size(), in_hand_->output_bytes));
  std::memcpy(inlet_->memory().data() + in_hand_->output_offset, outputs.data(), outputs.size());
  Complete(static_cast<uint32_t>(Status::kOk), outputs.size());
  return {};
}

void ProgramSlice::Refuse(const std::string& text) {
  if (!in_hand_) return;
  const uint64_t bytes =
      std::min<uint64_t>(text.size(), std::min(kMostMessage, inlet_->offer().output_bytes));
  std::memcpy(inlet_->memory().data() + in_hand_->output_offset, text.data(), bytes);
  Complete(static_cast<uint32_t>(Status::kFailed), bytes);
}

}  // namespace spillway::gateway
