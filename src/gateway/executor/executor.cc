// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/executor.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <utility>

namespace spillway::gateway {

using std::chrono::milliseconds;

namespace {

std::string MemoryText(const Joined& joined) {
  std::string text;
  std::set<std::string> kinds;
  for (const auto& slice : joined.slices)
    if (kinds.insert(slice->offer().memory).second)
      text += (text.empty() ? "" : ", ") + slice->offer().memory;
  return joined.why_not_better.empty() ? text : fmt::format("{} ({})", text, joined.why_not_better);
}

// Slices of which share its memory.
const std::string& GpuOf(const SliceOffer& slice) {
  return slice.gpu_uuid.empty() ? slice.gpu : slice.gpu_uuid;
}

}  // namespace

Executor::Executor(ExecutorOptions options, Engine& engine) : options_(std::move(options)), engine_(engine) {}
Executor::~Executor() { Leave(); }

void Executor::Leave() {
  std::promise<void> ended;
  std::thread watch;
  if (options_.on_stuck && !slices_.empty())
    watch = std::thread([this, end = ended.get_future()] {
      if (end.wait_for(options_.stuck_after) == std::future_status::ready) return;
      base::MutexLock lock(mutex_);
      const Error why = lost_.value_or(Error{ErrorCode::kUnavailable, "a slice's device does not answer"});
      lock.Unlock();
      options_.on_stuck(why);
    });
  slices_.clear();
  ended.set_value();
  if (watch.joinable()) watch.join();
  socket_ = base::Fd();
}

Result<void> Executor::Join() {
  ExecutorOffer offer{options_.name, engine_.models(), options_.slices, {}, true};
  for (SliceOffer& slice : offer.slices) {
    if (slice.gpu_uuid.empty()) slice.gpu_uuid = engine_.GpuOf(slice);
    slice.memory = engine_.MemoryOf(slice);
  }
  auto bell = MakeEventFd();
  if (!bell) return tl::make_unexpected(bell.error());
  lost_bell_ = std::move(*bell);
  DeviceInputs inputs;
  inputs.is_required = options_.memory == InputMemory::kGpu;
  if (options_.memory != InputMemory::kHost)
    inputs.make = [this](const SliceOffer& slice, uint64_t bytes) { return MakeInputs(slice, bytes); };
  auto joined = JoinGateway(options_.gateway, offer, inputs);
  if (!joined) return tl::make_unexpected(joined.error());
  socket_ = std::move(joined->socket);
  memory_ = MemoryText(*joined);
  gpus_with_inputs_.clear();
  for (const auto& slice : joined->slices)
    if (slice->memory().device != nullptr) gpus_with_inputs_.insert(GpuOf(slice->offer()));
  const auto to_make = std::make_shared<std::atomic<size_t>>(joined->slices.size());
  const auto made = [to_make, socket = socket_.get()] {
    if (to_make->fetch_sub(1) == 1) SayReady(socket);
  };
  for (size_t i = 0; i < joined->slices.size(); i++)
    slices_.push_back(std::make_unique<SliceThread>(
        std::move(joined->slices[i]), engine_, i < options_.cpus.size() ? options_.cpus[i] : -1,
        [this](const auto& loss) { Lost(loss); }, made));
  return {};
}

Result<std::unique_ptr<DeviceMemory>> Executor::MakeInputs(const SliceOffer& slice, uint64_t bytes) {
  const base::MutexLock lock(mutex_);
  if (const auto full = full_gpus_.find(GpuOf(slice)); full != full_gpus_.end())
    return Fail(ErrorCode::kSystem, full->second);
  return engine_.MakeInputs(slice, bytes);
}

void Executor::Lost(const SliceThread::Loss& loss) {
  const base::MutexLock lock(mutex_);
  const std::string& gpu = GpuOf(loss.slice);
  // Inputs come before the models, which no engine runs without: then not on the GPU. A lost one has neither.
  const bool can_spare_inputs = !loss.was_made && loss.error.code != ErrorCode::kUnavailable &&
                                options_.memory == InputMemory::kAuto && gpus_with_inputs_.contains(gpu);
  if (can_spare_inputs) {
    spdlog::warn("{} (with inputs in GPU memory); joining again with inputs in host memory",
                 loss.error.message);
    full_gpus_.emplace(gpu, "no room for the inputs beside the models: " + loss.error.message);
    is_to_join_again_ = true;
  } else if (!lost_) {
    lost_ = loss.error;
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(lost_bell_.get(), &one, sizeof(one));
}

Result<bool> Executor::Serve(int stop_fd) {
  pollfd waits[] = {{socket_.get(), POLLIN, 0}, {stop_fd, POLLIN, 0}, {lost_bell_.get(), POLLIN, 0}};
  while (poll(waits, 3, -1) < 0) {
  }
  Leave();
  // The threads have ended.
  const base::MutexLock lock(mutex_);
  const bool was_full = std::exchange(is_to_join_again_, false);
  // Where a GPU was full, what else failed may have been for want of the same memory.
  if (lost_ && !was_full) return tl::make_unexpected(*lost_);
  if (was_full) lost_.reset();
  const bool goes_on = waits[1].revents == 0;
  if (goes_on && !was_full)
    spdlog::warn("{}: gateway disconnected; slices released", options_.gateway.address);
  return goes_on;
}

Result<void> Executor::Run(int stop_fd) {
  milliseconds pause = options_.retry;
  milliseconds refused_for{0};
  std::string said;
  for (;;) {
    const auto joined = Join();
    if (joined) {
      spdlog::info("{}: joined with {} slice{}; inputs are delivered into memory {}",
                   options_.gateway.address, options_.slices.size(), options_.slices.size() == 1 ? "" : "s",
                   memory_);
      pause = options_.retry;
      refused_for = milliseconds(0);
      said.clear();
      const auto gone = Serve(stop_fd);
      if (!gone) return tl::make_unexpected(gone.error());
      if (!*gone) return {};
    } else {
      const bool refused = joined.error().code != ErrorCode::kUnavailable;
      if (refused && refused_for >= options_.refused) return joined;
      refused_for = refused ? refused_for + pause : milliseconds(0);
      if (said != joined.error().message) spdlog::warn("{}; trying again", joined.error().message);
      said = joined.error().message;
    }
    pollfd stop{stop_fd, POLLIN, 0};
    if (poll(&stop, 1, static_cast<int>(pause.count())) > 0) return {};
    pause = std::min(pause * 2, milliseconds(5000));
  }
}

std::vector<SliceCosts> Executor::Costs() const {
  std::vector<SliceCosts> costs;
  for (const auto& slice : slices_) costs.push_back(slice->Costs());
  return costs;
}

}  // namespace spillway::gateway
