// SPDX-License-Identifier: Apache-2.0
#include "agent/failure_detector.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bpf/meter.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMinRequests = 3;  // one or two may be lost, or such as the service ignores

// Shorter, and a host that is busy elsewhere looks dead; longer, and a dead unit gets more.
constexpr Duration kMinPatience = 20ms, kMinPatienceOnceRefused = 10ms;
constexpr double kLatencies = 10, kLatenciesOnceRefused = 3;
constexpr Duration kBesides = 5ms;
// Of a unit that stops now and then, by a CPU quota (whose periods are 100 ms mostly) or for garbage
// collection.
constexpr double kPauses = 2;
constexpr Duration kMaxPause = 250ms;
constexpr double kPauseMemoryNs = 60e9;
constexpr Duration kLatencyUnknown = 1s;

constexpr Duration kRefusalCounts = 1s;  // Linux refuses each client once a second, after the first few
constexpr double kShareMemory = 32;      // requests
constexpr double kMinBadOfShare = 8;
// A burst of errors or refusals fills the last few dozen answers of a busy unit in a millisecond: their share
// must hold for as long as this as well. Longer, and a unit of which a part has failed gets more.
constexpr Duration kShareTime = 250ms;
constexpr Duration kLongRow = 100ms;
// Random errors at a share of 0.2 are in such a row once in 300 million answers.
constexpr uint32_t kMinErrorRow = SPW_METER_ERROR_ROW;
constexpr double kErrorRows = 2;         // as kPauses
constexpr Duration kQuickRow = 250ms;    // a slower one is left to the share
constexpr double kMaxShareOfRows = 0.5;  // whoever bears more errors bears longer rows
constexpr double kForgotten = 0.25;      // of a good answer: or a share of 1 would be out of reach for long
constexpr uint32_t kGoodAfterShare = 4;

constexpr Duration kRelapse = 2s;
constexpr uint32_t kMaxRelapses = 3;  // each doubles the evidence wanted

Duration Ns(double ns) { return Duration(static_cast<int64_t>(std::min(ns, 9e18))); }

double ExpectedNs(const Reading& reading) {
  return (reading.learnt.base_us > 0 ? reading.learnt.base_us : reading.latency_us) * 1e3;
}

}  // namespace

const char* Word(Failure failure) {
  switch (failure) {
    case Failure::kUnanswered:
      return "unanswered";
    case Failure::kRefused:
      return "refused";
    case Failure::kErrors:
      return "errors";
    default:
      return "no";
  }
}

Duration FailureDetector::Patience(const Reading& reading) const {
  if (config_.after.count() > 0) return config_.after;
  const double expected = ExpectedNs(reading);
  if (expected == 0) return kLatencyUnknown;
  return std::max(
      {kMinPatience, Ns(expected * kLatencies) + kBesides, std::min(Ns(pause_ns_ * kPauses), kMaxPause)});
}

Duration FailureDetector::PatienceOnceRefused(const Reading& reading) const {
  const double expected = ExpectedNs(reading);
  return std::min(Patience(reading), std::max({kMinPatienceOnceRefused, Ns(expected * kLatenciesOnceRefused),
                                               Ns(pause_ns_ * kPauses)}));
}

void FailureDetector::LearnPause(Duration pause) {
  if (pause <= kMaxPause) pause_ns_ = std::max(pause_ns_, static_cast<double>(pause.count()));
}

bool FailureDetector::IsErrorRow(Time now, const Reading& reading) const {
  return reading.error_row >= kMinErrorRow && reading.error_row >= kErrorRows * row_ &&
         now - row_since_ <= kQuickRow && config_.error_share <= kMaxShareOfRows;
}

// The time is not asked of one that answers nothing else for long: whoever has other clients would answer
// them.
bool FailureDetector::IsErrorShare(Time now) const {
  if (errors_ < kMinBadOfShare || errors_ < config_.error_share * (no_errors_ + errors_)) return false;
  uint64_t answers = 0, errors = 0;
  for (const Look& look : looks_) answers += look.answers, errors += look.errors;
  return static_cast<double>(errors) >= config_.error_share * static_cast<double>(answers) ||
         (last_->error_row >= kMinErrorRow && now - row_since_ >= kLongRow);
}

bool FailureDetector::IsRefusedShare() const {
  if (bad_ < kMinBadOfShare || bad_ < config_.refused_share * (good_ + bad_)) return false;
  uint64_t all = 0, refused = 0;
  for (const Look& look : looks_) all += look.good + look.refused, refused += look.refused;
  return static_cast<double>(refused) >= config_.refused_share * static_cast<double>(all);
}

// Of a failing unit. The row may have gone on since it was noticed.
void FailureDetector::LearnRow(Time now, const News& news, uint32_t row) {
  if (row_ended_ || news.answers == news.errors) return;
  row_ended_ = true;
  if (failure_ == Failure::kErrors && now - failed_at_ <= kQuickRow)
    row_ = std::max(row_, static_cast<double>(row));
}

void FailureDetector::ForgetEvidence(const Reading& reading) {
  arrivals_at_answer_ = reading.arrivals;
  refused_in_row_ = 0;
  refused_at_.reset();
  good_ = bad_ = 0;
  no_errors_ = errors_ = 0;
  looks_.clear();
}

void FailureDetector::Fail(Time now, const Reading& reading, Failure failure, uint32_t evidence_wanted) {
  failure_ = failure;
  mute_since_ = now - reading.stall;
  failed_at_ = now;
  row_ended_ = errs_while_out_ = false;
  const bool again = recovered_at_ && now - *recovered_at_ < kRelapse;
  const bool is_burst = failure == Failure::kErrors && was_out_by_burst_;
  relapses_ = !again ? 0 : is_burst ? relapses_ : std::min(relapses_ + 1, kMaxRelapses);
  good_wanted_ = uint64_t{evidence_wanted} << relapses_;
  lead_ = 0;
}

void FailureDetector::AddAnswers(Time now, const News& news) {
  while (!looks_.empty() && now - looks_.front().at > kShareTime) looks_.pop_front();
  // Few, however often a row of errors wakes the agent.
  if (looks_.empty() || now - looks_.back().at > kShareTime / 32) looks_.push_back({now, 0, 0, 0, 0});
  looks_.back().answers += news.answers;
  looks_.back().errors += news.errors;
  looks_.back().good += news.Good();
  looks_.back().refused += news.refused;
  const double keep = std::exp(-static_cast<double>(news.answers) / kShareMemory);
  no_errors_ = no_errors_ * keep + static_cast<double>(news.answers - news.errors);
  errors_ = errors_ * keep + static_cast<double>(news.errors);
  if (no_errors_ < kForgotten) no_errors_ = 0;
}

Failure FailureDetector::Judge(Time now, const Reading& reading, const News& news) {
  const uint64_t good = news.Good();
  if (news.answers > 0) arrivals_at_answer_ = reading.arrivals;
  // Within one look it is not known which came last.
  refused_in_row_ = good > 0 ? 0 : refused_in_row_ + news.refused;
  if (news.refused > 0) refused_at_ = now;
  const double keep = std::exp(-static_cast<double>(good + news.refused) / kShareMemory);
  good_ = good_ * keep + static_cast<double>(good);
  bad_ = bad_ * keep + static_cast<double>(news.refused);
  AddAnswers(now, news);

  const bool owes = reading.arrivals - arrivals_at_answer_ >= kMinRequests;
  const bool was_refused = refused_at_ && now - *refused_at_ < kRefusalCounts;
  if (refused_in_row_ >= kMinRequests ||
      (owes && was_refused && reading.stall > PatienceOnceRefused(reading))) {
    Fail(now, reading, Failure::kRefused, 1);
  } else if (news.refused > 0 && IsRefusedShare()) {
    Fail(now, reading, Failure::kRefused, kGoodAfterShare);
  } else if (news.errors > 0 && (IsErrorRow(now, reading) || IsErrorShare(now))) {
    Fail(now, reading, Failure::kErrors, kGoodAfterShare);
  } else if (owes && reading.stall > Patience(reading)) {
    Fail(now, reading, Failure::kUnanswered, 1);
  }
  return failure_;
}

bool FailureDetector::Recovers(Time now, const News& news) {
  errs_while_out_ |= news.errors > 0 && now - failed_at_ > kQuickRow;
  if (news.errors > 0 && news.errors == news.answers) failure_ = Failure::kErrors;
  // The kernel accepts connections for a program that hangs, and so do programs that answer errors.
  const uint64_t good = news.answers - news.errors + (failure_ == Failure::kRefused ? news.accepted : 0);
  // Not in a row: among the many answers on established connections there is always an error or a refusal,
  // and a client could have one of its requests refused at each look.
  const auto outweighed = [](double share) { return (1 - share) / share; };
  const double errors = failure_ == Failure::kErrors ? outweighed(config_.error_share) : 0;
  lead_ += static_cast<double>(good) - errors * static_cast<double>(news.errors) -
           std::max(1.0, outweighed(config_.refused_share)) * static_cast<double>(news.refused);
  lead_ = std::max(lead_, 0.0);
  return lead_ >= static_cast<double>(good_wanted_);
}

Failure FailureDetector::Update(Time now, const Reading& reading) {
  const bool restarted = last_ && (reading.arrivals < last_->arrivals ||
                                   reading.completed < last_->completed || reading.refused < last_->refused ||
                                   reading.accepted < last_->accepted || reading.errors < last_->errors);
  if (!last_ || restarted) {  // what an earlier agent's program counted is not news
    ForgetEvidence(reading);
    last_ = reading;
    looked_ = now;
    return failure_;
  }
  const double kept = std::exp(-static_cast<double>((now - looked_).count()) / kPauseMemoryNs);
  pause_ns_ *= kept;
  row_ *= kept;
  if (reading.error_row < last_->error_row && failure_ == Failure::kNone)
    row_ = std::max(row_, static_cast<double>(last_->error_row));
  if (last_->error_row == 0 || reading.error_row < last_->error_row) row_since_ = looked_;
  looked_ = now;
  const Duration mute = last_->stall;
  const uint32_t row = last_->error_row;
  News news{reading.completed - last_->completed, reading.errors - last_->errors,
            reading.accepted - last_->accepted, reading.refused - last_->refused,
            reading.dismissed - last_->dismissed};
  // A client's farewell follows answers; where there are none it was a request.
  if (news.answers == 0) news.refused += std::exchange(news.dismissed, 0);
  last_ = reading;
  // Counters are read while they count, so an error may be seen before its answer: it waits for it.
  if (news.errors > news.answers) {
    last_->errors -= news.errors - news.answers;
    news.errors = news.answers;
  }
  if (failure_ == Failure::kNone) {
    if (news.answers > 0) LearnPause(mute);
    return Judge(now, reading, news);
  }
  LearnRow(now, news, row);
  if (Recovers(now, news)) {
    if (failure_ == Failure::kUnanswered) LearnPause(now - mute_since_);
    was_out_by_burst_ = failure_ == Failure::kErrors && !errs_while_out_;
    failure_ = Failure::kNone;
    recovered_at_ = now;
    ForgetEvidence(reading);
  }
  return failure_;
}

}  // namespace spillway::agent
