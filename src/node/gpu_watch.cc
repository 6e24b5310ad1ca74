// SPDX-License-Identifier: Apache-2.0
#include "node/gpu_watch.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/mutex.h"

namespace spillway::node {
namespace {

using Clock = std::chrono::steady_clock;
using gateway::NvmlDevice;
using gateway::NvmlLibrary;

// For the last answers when the watch ends.
constexpr auto kFarewell = std::chrono::seconds(1);

// Threads that begin meanwhile get no signals: these are for who waits for them.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct GpuWatch::Shared {
  struct Memory {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  struct State {
    std::optional<Clock::time_point> asked;  // no answer yet
    std::string why;                         // it is lost
  };

  Shared(NvmlLibrary its, GpuWatchTimes given) : library(std::move(its)), times(given) {}

  const NvmlLibrary library;
  const GpuWatchTimes times;
  int (*GetMemory)(NvmlDevice*, Memory*) = nullptr;
  mutable base::Mutex mutex;
  base::Condition changed;
  bool ends SPILLWAY_GUARDED_BY(mutex) = false;
  std::map<std::string, State> gpus SPILLWAY_GUARDED_BY(mutex);

  // Asks until the watch ends. Any answer but that it is lost says nothing against the GPU: some have no
  // memory of their own, and do not support the question.
  void Ask(const std::string& gpu, NvmlDevice* device) {
    base::MutexLock lock(mutex);
    State& state = gpus.at(gpu);
    while (!ends) {
      state.asked = Clock::now();
      lock.Unlock();
      Memory memory{};
      const int result = GetMemory(device, &memory);
      const auto said = library.Check(result, "is it there");
      lock.Lock();
      state.asked.reset();
      state.why = NvmlLibrary::IsLost(result) ? said.error().message : "";
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
  std::map<std::string, NvmlDevice*> handles;
  std::unique_ptr<GpuWatch> watch(new GpuWatch(shared));
  const base::MutexLock lock(shared->mutex);
  for (const auto& [gpu, uuid] : devices) {
    const auto device = shared->library.Gpu(uuid);
    shared->gpus[gpu].why = device ? "" : device.error().message;
    if (device) handles[gpu] = *device;
  }
  const SignalsHeld held;
  for (const auto& [gpu, device] : handles)
    watch->threads_[gpu] =
        std::thread([shared = shared, gpu = gpu, device = device] { shared->Ask(gpu, device); });
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
  const auto patience = shared_->times.patience;
  std::map<std::string, std::string> lost;
  for (const auto& [gpu, state] : shared_->gpus) {
    if (state.asked && Clock::now() - *state.asked > patience)
      lost[gpu] = fmt::format("its driver has not answered for {} s", patience / std::chrono::seconds(1));
    else if (!state.why.empty())
      lost[gpu] = state.why;
  }
  return lost;
}

}  // namespace spillway::node
