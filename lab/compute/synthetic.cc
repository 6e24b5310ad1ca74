// SPDX-License-Identifier: Apache-2.0
#include "synthetic.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "computation.h"

namespace spillway::compute {

namespace {

constexpr std::size_t kSide = Synthetic::kSide;
using Matrix = Synthetic::Matrix;

template <int kBytes>
struct Vector {
  using Type [[gnu::vector_size(kBytes), gnu::may_alias]] = float;
};

// kRows rows of the result at a time stay in registers: enough independent sums to hide the latency of an
// addition, few enough not to spill.
template <int kBytes, std::size_t kRows>
[[gnu::always_inline]] inline void MultiplyBlocked(const Matrix& a, const Matrix& b, Matrix& out) {
  using Lane = typename Vector<kBytes>::Type;
  constexpr std::size_t kLanes = kSide * sizeof(float) / kBytes;
  for (std::size_t row = 0; row < kSide; row += kRows) {
    Lane sum[kRows][kLanes] = {};
    for (std::size_t k = 0; k < kSide; ++k) {
      const Lane* of_b = reinterpret_cast<const Lane*>(&b.at[k * kSide]);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        const float x = a.at[(row + r) * kSide + k];
#pragma GCC unroll 8
        for (std::size_t lane = 0; lane < kLanes; ++lane) sum[r][lane] += x * of_b[lane];
      }
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        reinterpret_cast<Lane*>(&out.at[(row + r) * kSide])[lane] = sum[r][lane];
  }
}

void MultiplyPlain(const Matrix& a, const Matrix& b, Matrix& out) { MultiplyBlocked<16, 1>(a, b, out); }

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void MultiplyAvx2(const Matrix& a, const Matrix& b, Matrix& out) {
  MultiplyBlocked<32, 2>(a, b, out);
}
__attribute__((target("avx512f"))) void MultiplyAvx512(const Matrix& a, const Matrix& b, Matrix& out) {
  MultiplyBlocked<64, 4>(a, b, out);
}
#endif

}  // namespace

Synthetic::Multiply Synthetic::WidestMultiply() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return MultiplyAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return MultiplyAvx2;
#endif
  return MultiplyPlain;
}

// The rows of the transition matrix are probabilities, so however many steps are taken, what comes out
// neither overflows nor fades into denormal numbers, which would be slow.
Synthetic::Synthetic(const SyntheticSettings& settings, std::uint64_t seed)
    : gflop_(settings.gflop), seed_(seed), multiply_(WidestMultiply()) {
  for (std::size_t row = 0; row < kSide; ++row) {
    const std::span<float> values(&transition_.at[row * kSide], kSide);
    float sum = 0;
    for (std::size_t i = 0; i < kSide; ++i) sum += values[i] = 1.5f + SignedNoise(seed, row * kSide + i);
    for (float& value : values) value /= sum;
  }
}

std::uint64_t Synthetic::Steps(std::uint32_t cost_milli) const {
  if (cost_milli == 0) return 0;
  const double flop = gflop_ * 1e9 * cost_milli / 1000;
  return static_cast<std::uint64_t>(std::max(1.0, std::round(flop / kFlopPerStep)));
}

std::uint64_t Synthetic::Answer(std::size_t, std::uint32_t question, std::uint32_t cost_milli,
                                const std::stop_token& stop) {
  Matrix now, next;
  for (std::size_t i = 0; i < now.at.size(); ++i) now.at[i] = 1 + SignedNoise(seed_ ^ question, i);
  // Each step needs the one before: nothing can be left out or done once for all.
  for (std::uint64_t left = Steps(cost_milli); left > 0 && !stop.stop_requested(); --left) {
    multiply_(now, transition_, next);
    now = next;
  }
  const std::span<const float> all(now.at);
  return std::uint64_t{Checksum(all.first(all.size() / 2))} << 32 | Checksum(all.last(all.size() / 2));
}

}  // namespace spillway::compute
