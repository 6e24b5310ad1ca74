// SPDX-License-Identifier: Apache-2.0
// One run of a load client in a testbed: requests at a rate, and what became of each.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "lab/experiment/experiment_spec.h"
#include "lab/testbed/testbed.h"

namespace spillway::lab {

// Source ports of dnsperf, which sends from each in turn. A switch that places by flow needs many to be fair;
// with 1000 dnsperf cannot keep up.
inline constexpr uint32_t kDnsperfSockets = 64;

struct LoadRun {
  model::Address target;
  model::ServicePort port;
  double rate = 0;  // requests/s, open loop; 0: closed loop, `outstanding` at a time (dnsperf only)
  uint32_t outstanding = 32;
  double seconds = 1;
  double timeout_s = 1;  // a request unanswered for longer is given up
  uint64_t seed = 1;     // of the arrivals
};

// What became of the requests. Pure value.
struct Sample {
  uint64_t sent = 0;
  double seconds = 0;
  std::vector<double> latencies_ms = {};  // of those answered, ascending
  double asked = 0;                       // requests that were to be sent; 0: a closed loop
  // By how much requests left late, p99; nullopt: the client does not say (dnsperf).
  std::optional<double> late_p99_ms = std::nullopt;
};

// dnsperf's -v output: one line per answer, "> RCODE NAME TYPE LATENCY", "T" for a timeout. Only NOERROR
// counts as an answer. Errors: kSystem when it is not dnsperf's output.
[[nodiscard]] Result<Sample> ParseDnsperf(std::istream& out);

// spillway-load's samples as CSV. Latencies count from the time a request was meant to leave; of measured
// requests only. Errors: kSystem when it is not that.
[[nodiscard]] Result<Sample> ParseSamples(std::istream& csv);

// Runs the experiment's client in the testbed's client namespace. Errors: the client is missing or failed.
[[nodiscard]] Result<Sample> RunLoad(const ExperimentSpec& spec, const Testbed& testbed, const LoadRun& run);

// Of all sent, one that was never answered standing for `timeout_s`: what a user would have waited.
double LatencyPercentile(const Sample& sample, double percent, double timeout_s);
// Answered within `limit_ms`, of those sent.
double AnsweredPct(const Sample& sample, double limit_ms);

}  // namespace spillway::lab
