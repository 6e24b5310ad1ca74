// SPDX-License-Identifier: Apache-2.0
// The four designs that the gateway's benchmark compares, each a way to have one request run on a slice.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "gateway/executor/engine.h"
#include "gateway/executor/slice_thread.h"
#include "gateway/reactor.h"
#include "lab/testbed/host_network.h"

namespace spillway::bench {

// Who runs where. With two CPUs the client shares the NIC's, as if it were on the other end of the wire.
struct Layout {
  int host_cpu = 0, nic_cpu = 1;
  // Where TCP comes from and goes to. What is written one-sidedly is shared memory here, of no network.
  const lab::HostNetwork* network = nullptr;
};

// Where the slices of all rigs lie: a GPU that the engine calls so.
inline constexpr const char* kBenchGpu = "gpu0";
inline std::string BenchSlice(uint32_t i) { return "s" + std::to_string(i); }

// One request: `bytes` of inputs, one row of this model.
struct Work {
  gateway::Engine* engine = nullptr;  // everybody's, and outlives the rigs
  // Whether an engine's CPU time in Run stands for a GPU's work. If not, it is the host's, like the rest.
  bool emulated = true;
  std::string model;
  size_t input_bytes = 0, output_bytes = 0;
  double gflop_per_s = 1;
  uint32_t slices = 2;
  uint32_t clients = 1;  // that ask at a time, one request each
  // Who waits on the host for a client or a slice stays awake for so long before it sleeps.
  std::chrono::microseconds host_spin{0};

  // Of a slice: none of the clients' requests waits for one, and the next one's data comes meanwhile.
  [[nodiscard]] uint32_t cells() const { return clients < 2 ? 2 : clients; }
};

inline uint64_t HostNsOf(const Work& work, const gateway::SliceCosts& costs) {
  return costs.launch_cpu_ns + (work.emulated ? 0 : costs.kernel_cpu_ns);
}

struct RigCosts {
  uint64_t host_ns = 0;  // CPU time on the host, ever, without what stands for the GPU's work
  uint64_t nic_ns = 0;   // on the NIC
};

class Rig {
 public:
  virtual ~Rig() = default;
  // Has `input` run for that client and waits for its outputs. On the client's thread.
  [[nodiscard]] virtual Result<void> Ask(uint32_t client, std::span<const std::byte> input,
                                         std::span<std::byte> output) = 0;
  // Settled only while nothing runs.
  [[nodiscard]] virtual RigCosts Costs() const = 0;
  // Of the requests since the last call, in us: what the gateway itself took. Empty for other designs.
  virtual std::vector<double> TakeGatewayTimes() { return {}; }
};

[[nodiscard]] Result<std::unique_ptr<Rig>> MakeTcpHostRig(const Work& work, const Layout& layout);
[[nodiscard]] Result<std::unique_ptr<Rig>> MakeDirectRig(const Work& work, const Layout& layout);
[[nodiscard]] Result<std::unique_ptr<Rig>> MakeHostMemoryRig(const Work& work, const Layout& layout);
// How the gateway is used.
struct GatewayUse {
  std::chrono::microseconds spin{0};
  bool frames = false;  // data comes over TCP; else through a window
};
[[nodiscard]] Result<std::unique_ptr<Rig>> MakeConspiratorRig(const Work& work, const Layout& layout,
                                                              const GatewayUse& use);

}  // namespace spillway::bench
