// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/pace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace spillway::agent {
namespace {

constexpr double kEnoughAnswers = 100;  // to know a pace by
constexpr double kGuessAnswers = 8;     // by which a guess is carried until then
constexpr double kMemory = 512;         // answers
// Answers of all bins after which a bin's own are old: else backlogs that do not come any more would go on
// telling the pace of a unit that has become slower.
constexpr double kForgotten = 2048;

// A slot is at most kBelowPeak / the answers a second over the best window: where a clock is slow without
// reason it would see overload, spread requests by it, and so never learn better.
constexpr double kBelowPeak = 0.9;
constexpr double kWindowAnswers = 64;
constexpr std::chrono::milliseconds kWindow{100};  // longer than most quotas' periods

double Ns(uint64_t steps) { return static_cast<double>(steps) * (1 << SPW_METER_STEP_SHIFT); }

}  // namespace

void Pace::Learn(Time now, const spw_meter_counts& before, const spw_meter_counts& after, double cpus,
                 double keep) {
  if (after.timed > before.timed) LearnWaits(before, after, cpus);
  peak_per_ns_ *= keep;
  LearnThroughput(now, static_cast<double>(after.completed - before.completed));
}

void Pace::LearnWaits(const spw_meter_counts& before, const spw_meter_counts& after, double cpus) {
  const double old = std::exp(-static_cast<double>(after.timed - before.timed) / kForgotten);
  for (Waited& waited : waited_) {
    waited.answers *= old;
    waited.busy_ns *= old;
  }
  for (size_t b = 0; b < waited_.size(); b++) {
    const double answers = static_cast<double>(after.pace[b].answers - before.pace[b].answers);
    if (answers <= 0) continue;
    const double keep = std::exp(-answers / kMemory);
    waited_[b].answers = waited_[b].answers * keep + answers;
    // Each CPU counts its own answers only.
    waited_[b].busy_ns =
        waited_[b].busy_ns * keep + Ns(after.pace[b].busy_steps - before.pace[b].busy_steps) / cpus;
  }
  const auto [answers, busy_ns] = Longest();
  if (answers >= kEnoughAnswers) known_ns_ = std::max(busy_ns / answers, 1.0);
}

void Pace::LearnThroughput(Time now, double answers) {
  if (window_began_.count() == 0) window_began_ = now;
  window_answers_ += answers;
  if (window_answers_ < kWindowAnswers || now - window_began_ < kWindow) return;
  peak_per_ns_ = std::max(peak_per_ns_, window_answers_ / static_cast<double>((now - window_began_).count()));
  window_answers_ = 0;
  window_began_ = now;
}

Pace::Waited Pace::Longest() const {
  Waited longest;
  for (size_t b = waited_.size(); b-- > 0 && longest.answers < kEnoughAnswers;) {
    longest.answers += waited_[b].answers;
    longest.busy_ns += waited_[b].busy_ns;
  }
  return longest;
}

Pace::Slot Pace::Now(double alone_ns) const {
  if (known_ns_ > 0) return {known_ns_, false};
  const auto [answers, busy_ns] = Longest();
  const double carried = (busy_ns + alone_ns * kGuessAnswers) / (answers + kGuessAnswers);
  return {std::max(std::min(alone_ns, carried), 1.0), true};
}

double Pace::LongestSlotNs() const {
  return peak_per_ns_ > 0 ? kBelowPeak / peak_per_ns_ : std::numeric_limits<double>::infinity();
}

}  // namespace spillway::agent
