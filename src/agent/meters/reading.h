// SPDX-License-Identifier: Apache-2.0
// What a meter says at one look. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/learner/outcome_learner.h"
#include "base/error.h"

namespace spillway::agent {

// A point of CLOCK_MONOTONIC, ns. Pure code gets it as an argument.
using Time = std::chrono::nanoseconds;

struct Reading {
  Time at{0};  // when the meter was read
  // Smoothed, in the threshold's unit (ns of latency, or share of CPU time). Fresh: at least one
  // measurement since the last look; without one it is nullopt.
  std::optional<double> measure;
  bool exceeded = false;  // a single measurement since the last look was over the threshold
  // How long the unit has owed answers and given none: the lesser of the oldest pending request's age
  // and the time since the last answer. 0 when nothing is pending.
  std::chrono::nanoseconds stall{0};
  std::optional<uint32_t> queue;  // requests in the unit; nullopt: this meter does not know
  uint32_t latency_us = 0;        // smoothed; 0 when not known
  uint64_t arrivals = 0;          // cumulative
  uint64_t completed = 0;         // cumulative
  uint64_t errors = 0;            // of completed, those that say that the server failed; cumulative
  uint32_t error_row = 0;         // so many answers, the last ones, were such
  uint64_t accepted = 0;          // TCP connections; cumulative
  uint64_t refused = 0;           // requests and connections; cumulative
  uint64_t dismissed = 0;         // unanswered requests of clients that had closed their side; cumulative
  uint64_t timed = 0;             // of completed, those with a measured latency; cumulative
  uint64_t latency_sum_ns = 0;    // of the timed; over timed: the mean time in the unit
  uint64_t latency_min_ns = 0;    // the least of the timed: nearly service without queueing
  Learnt learnt;                  // from all readings so far; 0 where the meter knows no requests
};

// What to look at soon, between two regular looks.
enum class Notice { kNone, kLook };

// One way of measuring a unit. Not thread-safe.
class Meter {
 public:
  virtual ~Meter() = default;
  [[nodiscard]] virtual Result<Reading> Read(Time now) = 0;
  // Readable when Drain should be called; -1: never.
  virtual int fd() const { return -1; }
  virtual Notice Drain() { return Notice::kNone; }
  // Tells the meter which changes it should give notice of: the next trip, or the next release; and the next
  // row of errors, if wanted.
  virtual void Watch(bool busy, bool errors) { (void)busy, (void)errors; }
  virtual const char* name() const = 0;
};

}  // namespace spillway::agent
