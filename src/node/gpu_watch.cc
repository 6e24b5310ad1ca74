// SPDX-License-Identifier: Apache-2.0
#include "node/gpu_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "base/signals.h"

namespace spillway::node {
namespace {

using Clock = std::chrono::steady_clock;
using gateway::NvmlDevice;
using gateway::NvmlLibrary;

// For the last answers when the watch ends.
constexpr auto kFarewell = std::chrono::seconds(1);
constexpr int kUnknownInARow = 3;

}  // namespace

struct GpuWatch::Shared {
  struct Memory {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  struct State {
    std::optional<Clock::time_point> asked;  // no answer yet
    std::string why;                         // it is lost
    std::optional<Clock::time_point> well;   // lost, and answers well again since then
    int unknown = 0;                         // errors that say nothing, in a row
  };

  Shared(NvmlLibrary its, GpuWatchTimes given) : library(std::move(its)), times(given) {}

  const NvmlLibrary library;
  const GpuWatchTimes times;
  int (*GetMemory)(NvmlDevice*, Memory*) = nullptr;
  mutable base::Mutex mutex;
  base::Condition changed;
  bool ends SPILLWAY_GUARDED_BY(mutex) = false;
  std::map<std::string, State> gpus SPILLWAY_GUARDED_BY(mutex);

  std::string Muteness() const {
    return fmt::format("its driver has not answered for {} s", times.patience / std::chrono::seconds(1));
  }

  // Any answer but that it is lost says nothing against the GPU: some have no memory of their own, and do not
  // support the question.
  void Hear(State& state, bool is_lost, const std::string& words) const {
    const auto now = Clock::now();
    const bool was_mute = state.asked && now - *state.asked > times.patience;
    state.asked.reset();
    if (is_lost || was_mute) {
      state.why = is_lost ? words : Muteness();
      state.well.reset();
    } else if (!state.why.empty()) {
      if (!state.well) state.well = now;
      if (now - *state.well >= times.steady) state.why.clear();
    }
  }

  // Asks until the watch ends.
  void Ask(const std::string& gpu, NvmlDevice* device) {
    base::MutexLock lock(mutex);
    State& state = gpus.at(gpu);
    while (!ends) {
      state.asked = Clock::now();
      lock.Unlock();
      Memory memory{};
      const int result = GetMemory(device, &memory);
      const auto said = library.Check(result, "presence check");
      lock.Lock();
      state.unknown = result == NvmlLibrary::kUnknown ? state.unknown + 1 : 0;
      const bool is_lost = NvmlLibrary::IsLost(result) || state.unknown >= kUnknownInARow;
      Hear(state, is_lost, said ? "" : said.error().message);
      changed.NotifyAll();
      changed.WaitFor(mutex, times.ask_again, [this]() SPILLWAY_REQUIRES(mutex) { return ends; });
    }
  }

  bool AreAllAnswered() const SPILLWAY_REQUIRES(mutex) {
    return std::none_of(gpus.begin(), gpus.end(), [](const auto& entry) { return entry.second.asked; });
  }
};

Result<std::unique_ptr<GpuWatch>> GpuWatch::Open(const std::map<std::string, std::string>& devices,
                                                 const std::string& name, GpuWatchTimes times) {
  auto library = NvmlLibrary::Load(name);
  if (!library) return tl::make_unexpected(library.error());
  const auto shared = std::make_shared<Shared>(std::move(*library), times);
  if (!shared->library.Find(shared->GetMemory, "nvmlDeviceGetMemoryInfo"))
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: expected a newer NVIDIA driver", name));
  const auto there = shared->library.Gpus();
  if (!there) return tl::make_unexpected(there.error());
  std::unique_ptr<GpuWatch> watch(new GpuWatch(shared));
  const base::SignalsHeld held;
  const base::MutexLock lock(shared->mutex);
  for (const auto& [gpu, uuid] : devices) {
    Shared::State& state = shared->gpus[gpu];
    const auto device = there->find(uuid);
    if (device == there->end())
      state.why = fmt::format("this machine has no GPU {} that answers", uuid);
    else
      watch->threads_[gpu] =
          std::thread([shared = shared, gpu = gpu, device = device->second] { shared->Ask(gpu, device); });
  }
  return watch;
}

GpuWatch::~GpuWatch() {
  {
    const base::MutexLock lock(shared_->mutex);
    shared_->ends = true;
    shared_->changed.NotifyAll();
    const auto is_done = [this]() SPILLWAY_REQUIRES(shared_->mutex) { return shared_->AreAllAnswered(); };
    shared_->changed.WaitFor(shared_->mutex, kFarewell, is_done);
    for (auto& [gpu, thread] : threads_)
      if (shared_->gpus.at(gpu).asked) thread.detach();
  }
  for (auto& [gpu, thread] : threads_)
    if (thread.joinable()) thread.join();
}

std::map<std::string, std::string> GpuWatch::Lost() const {
  const base::MutexLock lock(shared_->mutex);
  std::map<std::string, std::string> lost;
  for (const auto& [gpu, state] : shared_->gpus) {
    if (state.asked && Clock::now() - *state.asked > shared_->times.patience)
      lost[gpu] = shared_->Muteness();
    else if (!state.why.empty())
      lost[gpu] = state.why;
  }
  return lost;
}

}  // namespace spillway::node
