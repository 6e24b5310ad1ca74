// SPDX-License-Identifier: Apache-2.0
#include "sim/latencies.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace spillway::sim {

// Below one octave of buckets every value has its own; from there on an octave's leading bits choose.
size_t Latencies::IndexOf(uint64_t ns) {
  if (ns < kPerOctave) return static_cast<size_t>(ns);
  const uint32_t octave = static_cast<uint32_t>(std::bit_width(ns)) - kShift;
  return size_t{octave} * kPerOctave + static_cast<size_t>((ns >> (octave - 1)) - kPerOctave);
}

uint64_t Latencies::FloorOf(size_t index) {
  const size_t octave = index / kPerOctave, rest = index % kPerOctave;
  return octave == 0 ? rest : static_cast<uint64_t>(kPerOctave + rest) << (octave - 1);
}

void Latencies::Add(uint64_t ns) {
  counts_[IndexOf(ns)]++;
  count_++;
  sum_ns_ += static_cast<double>(ns);
}

double Latencies::QuantileNs(double q) const {
  if (count_ == 0) return 0;
  const double rank = std::max(1.0, std::ceil(q * static_cast<double>(count_)));
  double below = 0;
  for (size_t i = 0; i < counts_.size(); i++) {
    const auto here = static_cast<double>(counts_[i]);
    if (below + here >= rank) {
      const auto floor = static_cast<double>(FloorOf(i));
      const auto width = static_cast<double>(FloorOf(i + 1)) - floor;
      return width <= 1 ? floor : floor + width * (rank - below) / here;
    }
    below += here;
  }
  return static_cast<double>(FloorOf(counts_.size() - 1));
}

}  // namespace spillway::sim
