// SPDX-License-Identifier: Apache-2.0
// How long a model's requests take on one slice, learnt from those that it has done. The executor says how
// long it worked on each; it is believed as far as the gateway's own clock bears it out, so that one that
// says nothing or nonsense attracts no more than twice what it deserves.
//
// Newer requests weigh more (by 1/kWindow each), and time is taken to grow in a line with a request's rows:
// from where none are to in proportion, whichever the requests say. A slice that was slow once and is not
// asked any more would never be heard of again: what was learnt fades by 1/kTrials of the time that the
// model's requests take elsewhere, so that it is tried again, and trials cost that share at most. Pure; not
// thread-safe. Memory: fixed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace spillway::gateway {

class ServiceTime {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr int kWindow = 16;
  static constexpr int kTrials = 64;
  // What the executor says counts down to this part of what the gateway measured.
  static constexpr int kBelieved = 2;

  // A request is done. `measured`: by the gateway, from when the slice could begin it to when it was known to
  // be done. `work`: of all the model's requests on all slices, added up; never less than before.
  void Learn(int64_t rows, Duration reported, Duration measured, Duration work);
  // At least 1 ns; nullopt: nothing was learnt. `rows` from 1 on.
  [[nodiscard]] std::optional<Duration> Expect(int64_t rows, Duration work) const;
  // Of the last requests, whatever their rows; 0: nothing was learnt.
  [[nodiscard]] Duration Mean() const {
    return Duration(weight_ == 0 ? 0 : static_cast<int64_t>(ns_ / weight_));
  }
  // That one took of late by the gateway's clock, whatever the executor says; 0: nothing was learnt.
  [[nodiscard]] Duration Longest() const { return longest_; }

 private:
  // Sums over the requests, each by its weight: of 1, rows, ns, rows squared, rows times ns.
  double weight_ = 0, rows_ = 0, ns_ = 0, rows_rows_ = 0, rows_ns_ = 0;
  Duration longest_{0}, learnt_at_{0};
};

}  // namespace spillway::gateway
