// SPDX-License-Identifier: Apache-2.0
// When the gateway's thread stays awake while slices work, so that the host's CPU need not wake it with an
// answer: for `spin` in all, about the time at which the first of them is expected to end. Sooner it has
// nothing to hear, and later it is not known when. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace spillway::gateway {

class Alertness {
 public:
  using Duration = std::chrono::nanoseconds;
  using Time = std::chrono::nanoseconds;  // of any steady clock

  // 0: never awake.
  explicit Alertness(Duration spin) : spin_(spin) {}

  // When the first of what runs is expected to end; nullopt: nothing runs.
  void Expect(std::optional<Time> end) { end_ = end; }

  // The CPU was offered to others at `from` and was its own again at `to`. Where they had it for long,
  // staying awake on it is not for free: then it does not for a while.
  void Shared(Time from, Time to) {
    if (to - from > kLongTurn) asleep_until_ = to + kAsleepFor * (to - from);
  }

  [[nodiscard]] bool IsAwake(Time now) const { return end_ && now >= From() && now < Until(); }

  // For how long it may sleep before it is to be awake; nullopt: until something happens.
  [[nodiscard]] std::optional<Duration> MaySleep(Time now) const {
    if (!end_ || now >= From() || From() >= Until()) return std::nullopt;
    return From() - now;
  }

 private:
  static constexpr Duration kLongTurn = std::chrono::microseconds(100);
  static constexpr int kAsleepFor = 50;  // times as long as others had the CPU

  // A quarter of it before the end, as a CPU that sleeps comes back late; the rest behind, as the end is
  // expected by what slices say of their work, and the way there and back comes on top.
  [[nodiscard]] Time From() const { return std::max(*end_ - spin_ / 4, asleep_until_); }
  [[nodiscard]] Time Until() const { return *end_ + spin_ - spin_ / 4; }

  const Duration spin_;
  std::optional<Time> end_;
  Time asleep_until_{0};
};

}  // namespace spillway::gateway
