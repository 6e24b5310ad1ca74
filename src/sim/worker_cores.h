// SPDX-License-Identifier: Apache-2.0
// Worker cores behind a front end: how requests spread over the cores of one unit, and what a front end's own
// costs do to the tail. Requests are independent (unordered); arrivals are Poisson; a core serves to the end,
// first come first served. Pure: the same setup and seed give the same result. All times in microseconds.
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway::sim {

enum class CoreFrontEnd : uint8_t {
  kRss,       // a hash picks the core, whatever it does
  kSteal,     // likewise, but a core without work takes the oldest request of another core's queue
  kDispatch,  // one queue; every request pays for passing through it
  kIdeal,     // one queue, free of charge: no front end that serves to the end does better
};
[[nodiscard]] std::string_view ToString(CoreFrontEnd front_end);

struct CoreCosts {         // of a core's time, per request
  double dispatch_us = 0;  // enqueue and hand-over
  double steal_us = 0;     // looking through the others and fetching what was found; only when stealing
};

struct CoreService {
  double mean_us = 10;
  // Squared coefficient of variation; 0: constant, else lognormal.
  double scv = 1;
  // Instead, if scan_share > 0: this share of requests takes scan_ratio times as long as the others, mean as
  // above.
  double scan_share = 0, scan_ratio = 100;
};

struct CoreSetup {
  CoreFrontEnd front_end = CoreFrontEnd::kIdeal;
  uint32_t cores = 8;
  double load = 0.8;  // of the cores' capacity without a front end's costs; 0 .. 1
  CoreService service;
  CoreCosts costs;
  uint64_t requests = 200'000;
  uint64_t seed = 1;
};

struct CoreResult {
  double mean_us = 0, p50_us = 0, p99_us = 0;  // from arrival to answer
  double stolen_share = 0;                     // of the requests
};

[[nodiscard]] CoreResult SimulateCores(const CoreSetup& setup);

// The 99th percentile of service alone.
[[nodiscard]] double ServiceP99(const CoreService& service);

// The highest load (setup.load is not read) at which p99 is at most `times_mean` mean service times, or twice
// the 99th percentile of service, whichever is more: where service varies much, no front end whatever keeps
// p99 within a few means. Found to 1/256; 0: none.
[[nodiscard]] double SustainedLoad(CoreSetup setup, double times_mean);

}  // namespace spillway::sim
