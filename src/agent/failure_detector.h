// SPDX-License-Identifier: Apache-2.0
// Readings -> whether the unit fails: requests come and get no answer, or are refused, or get errors. Pure:
// time is an argument. Not thread-safe.
//
//   none ──► unanswered   at least kMinRequests requests wait, and no answer has come for longer than
//                         Patience(): 10 times the latency to be expected and 5 ms, or twice the longest
//                         pause of late (up to 250 ms), and 20 ms at least
//   none ──► refused      kMinRequests refusals in a row with no answer and no connection accepted between
//                         them; or a pause of the answers, soon after a refusal, that alone would be too
//                         short to tell (hosts limit how often they send ICMP, so that of many refused
//                         requests few are seen); or refused_share of the last few dozen
//   none ──► errors       error_share of the last few dozen answers say that the server failed, and at least
//                         kMinBadOfShare of them
//   unanswered ──► errors, refused ──► errors
//                         it answers again, but errors alone
//   unanswered ──► none, refused ──► none
//                         answers without error, and for a unit that refused, connections accepted, with no
//                         refusal between: 1, or 4 if it was out by its share of refusals
//   errors ──► none       answers without error, 4 more than error_share allows for its errors, and no
//                         refusal between; or 1 more, if it was unanswered or refused before
//
// Twice as many are wanted each time that it fails again within 2 s, up to 8 times.
// A pause is a time without an answer that ended in one. One of less than 250 ms in which the unit was called
// failing was a pause, too, and is learnt; a longer one was an outage, and teaches nothing.
// An error is an answer: it ends a pause, and a row of refusals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "agent/config.h"
#include "agent/reading.h"

namespace spillway::agent {

enum class Failure : uint8_t { kNone, kUnanswered, kRefused, kErrors };

const char* Word(Failure failure);  // "no", "unanswered", "refused", "errors"

class FailureDetector {
 public:
  explicit FailureDetector(const FailingConfig& config) : config_(config) {}

  Failure Update(Time now, const Reading& reading);
  Failure failure() const { return failure_; }

 private:
  struct News {  // since the last look
    uint64_t answers = 0, errors = 0, accepted = 0, refused = 0;
    // A connection that was accepted only for its request to be refused is no good sign.
    uint64_t Good() const { return answers + accepted - std::min(accepted, refused); }
  };

  Duration Patience(const Reading& reading) const;
  Duration PatienceOnceRefused(const Reading& reading) const;
  void LearnPause(Duration pause);
  void AddAnswers(const News& news);
  Failure Judge(Time now, const Reading& reading, const News& news);
  bool Recovers(const News& news);
  void Fail(Time now, const Reading& reading, Failure failure, uint32_t evidence_wanted);
  void ForgetEvidence(const Reading& reading);

  FailingConfig config_;
  Failure failure_ = Failure::kNone;
  std::optional<Reading> last_;
  Time looked_{0};
  double pause_ns_ = 0;  // the longest of late; fades
  Time mute_since_{0};   // of a failing unit
  uint64_t arrivals_at_answer_ = 0;
  uint64_t refused_in_row_ = 0;
  std::optional<Time> refused_at_;
  double good_ = 0, bad_ = 0;          // the last few dozen requests and connections; fade
  double no_errors_ = 0, errors_ = 0;  // the last few dozen answers; fade
  double lead_ = 0;  // of a failing unit: good signs since the last refusal, less what its errors outweigh
  uint64_t good_wanted_ = 1;
  uint32_t relapses_ = 0;
  std::optional<Time> recovered_at_;
};

}  // namespace spillway::agent
