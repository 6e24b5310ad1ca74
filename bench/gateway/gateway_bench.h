// SPDX-License-Identifier: Apache-2.0
// spillway bench gateway: one request at a time through the four designs of Conspirator's evaluation
// (ATC'24), with the host's CPU idle and with 80 % of it taken by others; rounds over all rows. Not
// thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "report/document.h"

namespace spillway::bench {

struct GatewayBenchOptions {
  int rounds = 5;
  std::chrono::milliseconds duration{300};  // of one measurement
  size_t bytes = 65536;                     // of a request's input; a multiple of 4
  double kernel_us = 50;                    // that a slice takes for it
  std::chrono::microseconds spin{200};      // of the gateway
  bool cuda = false;                        // slices on the first GPU; else emulated
  bool variants = false;                    // of the gateway, as well
  bool quick = false;                       // two rounds of a third of the time
};

using OnGatewayProgress = std::function<void(double fraction, const std::string& message)>;

// Rows: mode (tcp-host, direct, host-memory, conspirator; conspirator-asleep, whose gateway sleeps while
// slices work; frames-epoll and frames-uring, whose client sends its data over TCP), load_pct (0, 80),
// requests, p50_us and p99_us (median of the rounds; also _min and _max), host_cpu_us and nic_cpu_us (CPU
// time per request, without the client's and without what stands for the GPU), and for conspirator
// gateway_p50_us and gateway_p99_us, which the gateway itself took. Ratios: conspirator_over_host_memory_0
// ..., of p50 and p99; uring_over_epoll_p50_0 .... kUnavailable on fewer than two CPUs; kSystem when an
// answer was wrong. With `cuda`, CPU time per request has the engine's in it, and the model has as many
// layers as make a request take about kernel_us on an idle GPU: ratio cuda_slice_us says how long it did
// take.
[[nodiscard]] Result<report::Document> RunGatewayBench(const GatewayBenchOptions& options,
                                                       const OnGatewayProgress& on_progress);

[[nodiscard]] std::string GatewayText(const report::Document& document);

}  // namespace spillway::bench
