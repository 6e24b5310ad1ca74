// SPDX-License-Identifier: Apache-2.0
// spillway bench gateway: requests through the four designs of Conspirator's evaluation (ATC'24), over sizes
// of inputs, kernels' lengths, clients at a time and shares of the host's CPU that others take; rounds over
// all modes and loads. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/document.h"

namespace spillway::bench {

// Who stays awake for `spin` where it waits: the gateway and the deciders on the host, as equals; the gateway
// alone, which has a CPU of its own; nobody.
enum class Awake { kAll, kNic, kNone };
// With `all` up to four are awake: client, gateway, decider and slice; on fewer CPUs they take them from each
// other.
[[nodiscard]] constexpr Awake DefaultAwake(unsigned cpus) { return cpus < 4 ? Awake::kNone : Awake::kAll; }

struct GatewayBenchOptions {
  int rounds = 5;
  std::chrono::milliseconds duration{300};  // of one measurement
  std::vector<size_t> bytes{588 << 10};     // of a request's input, multiples of 4; an image of 224 x 224
  std::vector<double> kernel_us{500};       // that a slice takes for it
  std::vector<uint32_t> concurrency{1};     // clients, each with one request at a time
  std::vector<int> loads{0, 80};            // percent of the host's CPU that others take
  std::chrono::microseconds spin{200};
  Awake awake = Awake::kAll;
  bool cuda = false;      // slices on the first GPU; else emulated
  bool variants = false;  // of the gateway, as well
  // Client, NIC and host in one network namespace each, if this process may make them; else on loopback.
  bool namespaces = false;
  bool quick = false;  // two rounds of a third of the time
  std::string folder;  // where gateway.json, .html and .svg go; empty: nowhere
};

using OnGatewayProgress = std::function<void(double fraction, const std::string& message)>;

// Rows: mode (tcp-host, direct, host-memory, conspirator; conspirator-asleep, whose gateway sleeps while
// slices work; frames, whose client sends its data over TCP), bytes, kernel_us,
// concurrency, load_pct, awake, network (namespaces: client, NIC and host have one each; loopback), requests,
// requests_per_s, p50_us and p99_us (median of the rounds; also _min and _max), host_cpu_us and nic_cpu_us
// (CPU time per request, without the client's and without what stands for the GPU), and for conspirator
// gateway_p50_us and gateway_p99_us, which the gateway itself took. Ratios:
// conspirator_over_host_memory_p50_0
// ...; host_memory_minus_conspirator_p50_us_0 ...; gap_growth_p50, the latter at
// the last load over that at the first, if both are above 0; of several sizes, kernels or concurrencies each
// has the suffix _BYTES_KERNEL_CONCURRENCY. kUnavailable on fewer than two CPUs; kSystem when an answer was
// wrong. With `cuda`, CPU time per request has the engine's in it, and the model has as many layers as make a
// request take about kernel_us on an idle GPU: ratio cuda_slice_us says how long it did take.
[[nodiscard]] Result<report::Document> RunGatewayBench(const GatewayBenchOptions& options,
                                                       const OnGatewayProgress& on_progress);

}  // namespace spillway::bench
