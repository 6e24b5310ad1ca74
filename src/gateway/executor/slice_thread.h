// SPDX-License-Identifier: Apache-2.0
// A slice's thread on the host: it is rung, checks what it was told against what it registered, launches, and
// tells when it is done. That is all that the host's CPU does for a request.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "gateway/executor/engine.h"
#include "gateway/transport/slice_inlet.h"

namespace spillway::gateway {

struct SliceCosts {
  uint64_t requests = 0, refused = 0;
  uint64_t launch_cpu_ns = 0;  // the host's part
  uint64_t kernel_cpu_ns = 0;  // what stands for the GPU's work
};

// Starts with the constructor; the destructor ends it after the request in hand.
class SliceThread {
 public:
  struct Loss {
    Error error;
    const SliceOffer& slice;
    bool was_made;  // false: its engine could not be
  };
  // `cpu`: to run on, or -1. `on_lost`: called once, on the slice's thread, when its engine cannot be made or
  // is gone. The thread then takes nothing more, and leaves the request in hand unanswered: the gateway
  // places it again when the executor goes.
  using OnLost = std::function<void(const Loss&)>;
  // `on_made`: called once, on the slice's thread, when its engine is made.
  using OnMade = std::function<void()>;
  SliceThread(
      std::unique_ptr<SliceInlet> inlet, Engine& engine, int cpu = -1, OnLost on_lost = [](const Loss&) {},
      OnMade on_made = [] {});
  ~SliceThread();
  SliceThread(const SliceThread&) = delete;
  SliceThread& operator=(const SliceThread&) = delete;

  [[nodiscard]] SliceCosts Costs() const;

 private:
  void Loop();
  bool AwaitAfterRing(Submission& into);
  void Lose(const Error& error, bool was_made) const;
  [[nodiscard]] Result<void> Serve(SliceEngine& engine, const Submission& submission);

  const std::unique_ptr<SliceInlet> inlet_;
  Engine& engine_;
  const int cpu_;
  const OnLost on_lost_;
  const OnMade on_made_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> requests_{0}, refused_{0}, launch_cpu_ns_{0}, kernel_cpu_ns_{0};
  std::thread thread_;
};

}  // namespace spillway::gateway
