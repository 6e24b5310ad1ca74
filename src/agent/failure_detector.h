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
//                         requests few are seen); or refused_share of the last few dozen, and of those of
//                         the last kShareTime
//   none ──► errors       error_share of the last few dozen answers say that the server failed, and at least
//                         kMinBadOfShare of them, and error_share of those of the last kShareTime, or nothing
//                         but errors for kLongRow; or kMinErrorRow in a row within kQuickRow,
//                         or twice the longest such row of late that ended without an outage
//   unanswered ──► errors, refused ──► errors
//                         it answers again, but errors alone
//   unanswered ──► none, refused ──► none
//                         answers without error, and for a unit that refused, connections accepted, more than
//                         refused_share allows for its refusals (one each, or more where refused_share is
//                         below a half): by 1, or by 4 if it was out by its share of refusals
//   errors ──► none       answers without error, 4 more than the shares allow for its errors and refusals; or
//                         1 more, if it was unanswered or refused before
//
// Twice as many are wanted each time that it fails again within 2 s, up to 8 times; but not of one that was
// out by errors and answered none meanwhile: those came in a burst.
// A pause is a time without an answer that ended in one. One of less than 250 ms in which the unit was called
// failing was a pause, too, and is learnt; a longer one was an outage, and teaches nothing.
// An error is an answer: it ends a pause, and a row of refusals. A row of errors is such as a client may
// cause that asks a dozen times for what is broken: the first of them may be taken for a failure, the next is
// not. It is told from an outage by the good answers that follow it at once, however long the unit is out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "agent/config.h"
#include "agent/meters/reading.h"

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
    uint64_t answers = 0, errors = 0, accepted = 0, refused = 0, dismissed = 0;
    // A connection that was accepted only for its request to be refused is no good sign.
    uint64_t Good() const { return answers + accepted - std::min(accepted, refused + dismissed); }
  };

  Duration Patience(const Reading& reading) const;
  Duration PatienceOnceRefused(const Reading& reading) const;
  void LearnPause(Duration pause);
  bool IsErrorRow(Time now, const Reading& reading) const;
  bool IsErrorShare(Time now) const;
  bool IsRefusedShare() const;
  void LearnRow(Time now, const News& news, uint32_t row);
  void AddAnswers(Time now, const News& news);
  Failure Judge(Time now, const Reading& reading, const News& news);
  bool Recovers(Time now, const News& news);
  void Fail(Time now, const Reading& reading, Failure failure, uint32_t evidence_wanted);
  void ForgetEvidence(const Reading& reading);

  FailingConfig config_;
  Failure failure_ = Failure::kNone;
  std::optional<Reading> last_;
  Time looked_{0};
  double pause_ns_ = 0;  // the longest of late; fades
  double row_ = 0;       // of errors, that ended: the longest of late; fades
  Time row_since_{0};    // the look before the present one began
  Time mute_since_{0};   // of a failing unit
  Time failed_at_{0};
  bool row_ended_ = false;         // of a failing unit: it has answered without error
  bool errs_while_out_ = false;    // later than a burst
  bool was_out_by_burst_ = false;  // the last time
  struct Look {                    // one, or a few that followed each other closely: what was new then
    Time at;
    uint64_t answers, errors, good, refused;
  };
  std::deque<Look> looks_;  // within kShareTime
  uint64_t arrivals_at_answer_ = 0;
  uint64_t refused_in_row_ = 0;
  std::optional<Time> refused_at_;
  double good_ = 0, bad_ = 0;          // the last few dozen requests and connections; fade
  double no_errors_ = 0, errors_ = 0;  // the last few dozen answers; fade
  double lead_ = 0;  // of a failing unit: good signs, less what its refusals and errors outweigh
  uint64_t good_wanted_ = 1;
  uint32_t relapses_ = 0;
  std::optional<Time> recovered_at_;
};

}  // namespace spillway::agent
