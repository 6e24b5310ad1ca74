// SPDX-License-Identifier: Apache-2.0
// Which GPUs no longer answer their driver, as when one fell off the bus, and why (`lost`). Each is asked
// again and again on a thread of its own, since a GPU that hangs may never answer: then that thread waits,
// and nobody else does. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "gateway/executor/nvml_library.h"

namespace spillway::node {

struct GpuWatchTimes {
  std::chrono::milliseconds ask_again = std::chrono::seconds(1);
  // Without an answer for so long it is lost. A driver that resets another GPU takes some seconds.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  // A lost one is not, once it has answered well for so long: one that comes and goes would fail what is put
  // there again and again.
  std::chrono::milliseconds steady = std::chrono::seconds(10);
};

class GpuWatch {
 public:
  // devices: by GPU its UUID. One that is not there now is lost until there is another watch.
  // kUnavailable: no driver.
  [[nodiscard]] static Result<std::unique_ptr<GpuWatch>> Open(
      const std::map<std::string, std::string>& devices,
      const std::string& library = gateway::NvmlLibrary::kUsual, GpuWatchTimes times = {});
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Why, by GPU. Waits for nothing.
  [[nodiscard]] std::map<std::string, std::string> Lost() const;

 private:
  struct Shared;
  explicit GpuWatch(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;  // with threads that outlive this one, where their GPU does not answer
  std::map<std::string, std::thread> threads_;
};

}  // namespace spillway::node
