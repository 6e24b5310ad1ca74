// SPDX-License-Identifier: Apache-2.0
// When requests are meant to leave. The same seed gives the same times on any machine. Not thread-safe.
#pragma once

#include <cstdint>
#include <random>

namespace spillway::load {

// kBursty: Poisson at twice the rate for kBurstNs, then nothing for as long, and so on.
enum class Process { kPoisson, kConstant, kBursty };
inline constexpr std::int64_t kBurstNs = 20'000'000;

class Arrivals {
 public:
  // rate in requests per second, > 0.
  Arrivals(Process process, double rate, std::uint64_t seed);

  // The next request's time since the start in ns; ascending.
  [[nodiscard]] std::int64_t NextNs();

 private:
  Process process_;
  double gap_ns_;
  double at_ns_ = 0;  // the sum of gaps so far, pauses left out; doubles hold a day to better than a ns
  std::uint64_t count_ = 0;
  std::mt19937_64 random_;
};

}  // namespace spillway::load
