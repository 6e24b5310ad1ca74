// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/program_slice.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/mutex.h"
#include "gateway/protocol/status.h"

namespace spillway::gateway {

// Its thread is let go, not waited for: a program that has forked has it no more.
class ProgramSlice::Pulse {
 public:
  explicit Pulse(int socket) : socket_(socket) {}
  static std::shared_ptr<Pulse> Start(int socket) {
    auto pulse = std::make_shared<Pulse>(socket);
    std::thread([pulse] { pulse->Run(); }).detach();
    return pulse;
  }
  void End() {
    {
      const base::MutexLock lock(mutex_);
      socket_ = -1;
    }
    changed_.NotifyAll();
  }
  std::atomic<bool> is_busy{false};

 private:
  static constexpr std::chrono::milliseconds kEvery{500};

  void Run() {
    const base::MutexLock lock(mutex_);
    while (!changed_.WaitFor(mutex_, kEvery, [this]() SPILLWAY_REQUIRES(mutex_) { return socket_ < 0; }))
      if (is_busy) Beat(socket_);
  }

  base::Mutex mutex_;
  base::Condition changed_;
  int socket_ SPILLWAY_GUARDED_BY(mutex_);  // -1: it is over
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
  slice.output_bytes = std::max(options.model.OutputBytes(options.model.most_rows), kMaxMessage);
  auto joined = JoinGateway(options.gateway, {options.name, {options.model}, {slice}});
  if (!joined) return tl::make_unexpected(joined.error());
  ProgramSlice program;
  program.socket_ = std::move(joined->socket);
  program.inlet_ = std::move(joined->slices[0]);
  program.model_ = options.model;
  program.pulse_ = Pulse::Start(program.socket_.get());
  return program;
}

void ProgramSlice::Complete(const InHand& request, uint32_t status, uint64_t output_bytes) {
  Completion completion;
  completion.id = request.submission.id;
  completion.status = status;
  completion.output_bytes = output_bytes;
  completion.busy_ns = static_cast<uint64_t>((std::chrono::steady_clock::now() - request.taken_at).count());
  inlet_->Complete(completion, request.submission.output_offset);
}

Result<std::optional<ProgramSlice::Taken>> ProgramSlice::Take(std::chrono::microseconds patience) {
  Refuse("the program took the next request without answering this one");
  return TakeAnother(patience);
}

Result<std::optional<ProgramSlice::Taken>> ProgramSlice::TakeAnother(std::chrono::microseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (bool gone = false;;) {
    Submission submission;
    if (inlet_->TakeSubmission(submission)) {
      const InHand request{submission, std::chrono::steady_clock::now()};
      const auto cell =
          CheckSubmission(inlet_->offer(), inlet_->key(), inlet_->memory(), {model_}, submission);
      if (!cell) {
        Complete(request, static_cast<uint32_t>(Status::kFailed), 0);
        continue;
      }
      if (IsGivenUp(inlet_->offer(), inlet_->memory(), submission)) {
        Complete(request, static_cast<uint32_t>(Status::kCancelled), 0);
        continue;
      }
      in_hand_.push_back(request);
      pulse_->is_busy = true;
      return Taken{inlet_->memory().Inputs(submission.input_offset, submission.input_bytes), submission.rows};
    }
    if (gone) return Fail(ErrorCode::kUnavailable, "the gateway has gone");
    const auto left =
        std::chrono::duration_cast<std::chrono::microseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::optional<Taken>();
    if (!inlet_->PrepareToWait()) continue;
    pollfd waits[] = {{inlet_->bell(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    const timespec wait{left.count() / 1'000'000, left.count() % 1'000'000 * 1000};
    ppoll(waits, 2, &wait, nullptr);
    inlet_->DoneWaiting();
    gone = waits[1].revents != 0;  // what came before is served
  }
}

Result<void> ProgramSlice::Answer(std::span<const std::byte> outputs) {
  return AnswerNext(in_hand_.size(), outputs);
}

Result<void> ProgramSlice::AnswerFirst(std::span<const std::byte> outputs) { return AnswerNext(1, outputs); }

void ProgramSlice::Refuse(const std::string& text) { RefuseNext(in_hand_.size(), text); }

void ProgramSlice::RefuseFirst(const std::string& text) { RefuseNext(1, text); }

Result<void> ProgramSlice::AnswerNext(size_t requests, std::span<const std::byte> outputs) {
  if (in_hand_.empty()) return Fail(ErrorCode::kBadInput, "no request is in hand: it was answered already");
  uint64_t expected = 0;
  for (size_t i = 0; i < requests; i++) expected += in_hand_[i].submission.output_bytes;
  if (outputs.size() != expected)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{} bytes of outputs, expected {}", outputs.size(), expected));
  for (size_t i = 0; i < requests; i++) {
    const uint64_t bytes = in_hand_[i].submission.output_bytes;
    const auto to =
        inlet_->memory().Host(CellLayout(inlet_->offer()), in_hand_[i].submission.output_offset, bytes);
    std::memcpy(to.data(), outputs.data(), bytes);
    outputs = outputs.subspan(bytes);
    Complete(in_hand_[i], static_cast<uint32_t>(Status::kOk), bytes);
  }
  LetGo(requests);
  return {};
}

void ProgramSlice::RefuseNext(size_t requests, const std::string& text) {
  if (in_hand_.empty()) return;
  for (size_t i = 0; i < requests; i++) {
    const auto room = RoomForText(inlet_->offer(), inlet_->memory(), in_hand_[i].submission);
    const uint64_t bytes = std::min(room.size(), text.size());
    std::memcpy(room.data(), text.data(), bytes);
    Complete(in_hand_[i], static_cast<uint32_t>(Status::kFailed), bytes);
  }
  LetGo(requests);
}

void ProgramSlice::LetGo(size_t requests) {
  in_hand_.erase(in_hand_.begin(), in_hand_.begin() + static_cast<ptrdiff_t>(requests));
  pulse_->is_busy = !in_hand_.empty();
}

}  // namespace spillway::gateway
