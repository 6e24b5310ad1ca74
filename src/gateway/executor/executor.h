// SPDX-License-Identifier: Apache-2.0
// The executor: joins the gateway, runs its slices, and, when the gateway goes, frees them and tries again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "gateway/executor/engine.h"
#include "gateway/executor/slice_thread.h"
#include "gateway/transport/join.h"

namespace spillway::gateway {

// Where slices' inputs are to lie. kAuto: on their GPUs, where gateway, RDMA device and driver allow for it.
enum class InputMemory { kHost, kAuto, kGpu };

struct ExecutorOptions {
  GatewayAddress gateway;
  std::string name;
  std::vector<SliceOffer> slices;
  InputMemory memory = InputMemory::kHost;
  std::vector<int> cpus = {};            // of each slice's thread; empty: anywhere
  std::chrono::milliseconds retry{200};  // between attempts to reach a gateway, at first; then up to 5 s
  // For so long a gateway that refuses is asked again: it may not have noticed yet that we died and came
  // back.
  std::chrono::milliseconds refused{5000};
  // A slice whose device hangs may never come back from it. If one has not ended so long after it was told
  // to, `on_stuck` is called with the reason, on a thread of its own; the program then had better end at
  // once. Without: waits for ever.
  std::chrono::milliseconds stuck_after{10'000};
  std::function<void(const Error&)> on_stuck = {};
};

// Joins once and serves until the gateway leaves. One thread, but for Stop.
class Executor {
 public:
  Executor(ExecutorOptions options, Engine& engine);
  ~Executor();

  // Errors: as JoinGateway's.
  [[nodiscard]] Result<void> Join();
  // Waits until the gateway has gone, or a GPU turns out to have no room for inputs beside the models (true:
  // to be joined again), or `stop_fd` is readable (false), then frees the slices. An error: a slice is lost
  // (SliceThread::OnLost), so that nothing can be promised of the device any more.
  [[nodiscard]] Result<bool> Serve(int stop_fd);
  // Joins and serves, again and again, until `stop_fd` is readable. An error only where trying again would
  // not help: Serve's, or the gateway refused, and still did after options.refused.
  [[nodiscard]] Result<void> Run(int stop_fd);

  [[nodiscard]] std::vector<SliceCosts> Costs() const;
  // Once it has joined, for people: "gpu-dmabuf", or, where slices have several kinds or not the best, which
  // and why.
  [[nodiscard]] const std::string& memory() const { return memory_; }
  void Leave();  // ends the slices' threads, gives their memory back, closes

 private:
  ExecutorOptions options_;
  Engine& engine_;
  void Lost(const SliceThread::Loss& loss);  // on a slice's thread
  [[nodiscard]] Result<std::unique_ptr<DeviceMemory>> MakeInputs(const SliceOffer& slice, uint64_t bytes);

  base::Fd socket_;
  std::string memory_;
  base::Fd lost_bell_;
  base::Mutex mutex_;
  std::optional<Error> lost_ SPILLWAY_GUARDED_BY(mutex_);  // the first slice's
  // With kAuto: the GPUs that have no room for inputs beside the models, and how that was seen.
  std::map<std::string, std::string> full_gpus_ SPILLWAY_GUARDED_BY(mutex_);
  bool is_to_join_again_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::set<std::string> gpus_with_inputs_;
  std::vector<std::unique_ptr<SliceThread>> slices_;
};

}  // namespace spillway::gateway
