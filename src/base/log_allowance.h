// SPDX-License-Identifier: Apache-2.0
// A few lines a second for what strangers do wrong: who is wrong is so again and again, and must not fill the
// log. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace spillway::base {

class LogAllowance {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // nullopt: the line is kept back. Else how many were since the last that was not: to be told with it.
  std::optional<uint64_t> Ask(Moment now) {
    if (now - began_ >= std::chrono::seconds(1)) {
      began_ = now;
      told_ = 0;
    }
    if (told_ == kLinesPerSecond) {
      ++kept_back_;
      return std::nullopt;
    }
    ++told_;
    const uint64_t kept_back = kept_back_;
    kept_back_ = 0;
    return kept_back;
  }

 private:
  static constexpr uint64_t kLinesPerSecond = 10;
  Moment began_;
  uint64_t told_ = 0, kept_back_ = 0;
};

}  // namespace spillway::base
