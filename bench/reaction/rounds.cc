// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/rounds.h"

#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "bench/reaction/question_stream.h"
#include "report/percentile.h"

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

// Sooner after the last fault the agent would take the next for a relapse.
constexpr auto kBefore = 2200ms;
// Three failures of a check each second, and a timeout; and what comes after.
constexpr auto kFaultLasts = 1200ms, kFaultLastsForChecks = 6000ms;
// An agent unheard for 3 s is silent.
constexpr auto kAgentIsDead = 4000ms;
// An answer is late that takes so many times the median of those before the fault.
constexpr int kTimesLate = 10;
// More than one question in so many late before the fault: the machine is too busy to judge.
constexpr size_t kOneInLate = 50;
// A row plays so many disturbed rounds again, beside one for each that it wants; then it goes without.
constexpr int kMoreAgain = 3;

double Ms(Moment time) { return std::chrono::duration<double, std::milli>(time).count(); }

std::chrono::milliseconds FaultLasts(Health health, Fault fault) {
  if (health != Health::kPassive) return kFaultLastsForChecks;
  return fault == Fault::kAgentKilled ? kAgentIsDead : kFaultLasts;
}

tl::unexpected<Error> FailInterrupted() { return Fail(ErrorCode::kSystem, "interrupted"); }

// nullopt: disturbed before the fault.
Result<std::optional<Round>> RunRound(ReactionBed& bed, Fault fault, uint32_t questions_per_s) {
  if (auto well = bed.AwaitWell(); !well) return tl::make_unexpected(well.error());
  QuestionStream stream(bed.plan().client_netns, bed.MakeAsker(), questions_per_s);
  const std::vector<uint64_t> packets = bed.Packets();
  if (!base::SleepUnlessInterrupted(kBefore)) return FailInterrupted();
  if (bed.spec().one_server)
    if (auto aimed = bed.AimAtBusiest(packets); !aimed) return tl::make_unexpected(aimed.error());
  Breakage breakage(bed, fault);
  auto hit = breakage.Begin();
  if (!hit) return tl::make_unexpected(hit.error());
  if (!base::SleepUnlessInterrupted(FaultLasts(bed.spec().health, fault))) return FailInterrupted();
  const bool was_out = !bed.IsWell();
  const Moment mending = Now();
  if (auto mended = breakage.Mend(); !mended) return tl::make_unexpected(mended.error());
  const Moment mended = Now();
  if (auto well = bed.AwaitWell(); !well) return tl::make_unexpected(well.error());
  Round round;
  if (was_out) round.back_ms = Ms(Now() - mended);
  const auto questions = stream.Stop();
  if (!questions) return tl::make_unexpected(questions.error());

  Moment begin = *hit;
  // The server obeys some milliseconds after it is told.
  if (fault == Fault::kFailsFast)
    if (const auto first = FirstLost(*questions, *hit); first && *first < mending) begin = *first;
  const Moment too_late =
      fault == Fault::kUnitSlow ? kTimesLate * MedianLatency(*questions, *hit) : Moment::max();
  round.outcome = Judge(*questions, begin, mending, too_late);
  if (round.outcome.lost_before > 0 || round.outcome.late_before * kOneInLate > round.outcome.asked_before)
    return std::nullopt;
  return round;
}

}  // namespace

std::chrono::milliseconds LengthOf(Health health, Fault fault) {
  return kBefore + FaultLasts(health, fault) + kPatience;
}

Result<RowRounds> PlayRounds(ReactionBed& bed, Fault fault, int rounds, uint32_t questions_per_s,
                             const std::function<void()>& on_round) {
  RowRounds played;
  for (int left = rounds; left > 0;) {
    const auto round = RunRound(bed, fault, questions_per_s);
    if (!round) return tl::make_unexpected(round.error());
    if (*round)
      played.rounds.push_back(**round);
    else if (++played.disturbed <= rounds + kMoreAgain)
      continue;
    left--;
    on_round();
  }
  return played;
}

ordered_json MakeRow(const BedSpec& bed, Fault fault, spw_unit_policy policy, const RowRounds& played) {
  std::vector<double> detect, back;
  double lost = 0, lost_after = 0, late = 0, asked = 0;
  for (const Round& round : played.rounds) {
    const Outcome& outcome = round.outcome;
    if (outcome.detect_ms) detect.push_back(*outcome.detect_ms);
    if (round.back_ms) back.push_back(*round.back_ms);
    lost += static_cast<double>(outcome.lost);
    lost_after += static_cast<double>(outcome.lost_after_detect);
    late += static_cast<double>(outcome.late + outcome.late_after_detect);
    asked += static_cast<double>(outcome.asked);
  }
  const auto count = static_cast<double>(played.rounds.size());
  ordered_json row;
  row["bed"] = Word(bed.server);
  row["health"] = Word(bed.health);
  row["fault"] = Word(fault);
  row["policy"] = model::ToString(policy);
  row["rounds"] = played.rounds.size();
  row["disturbed"] = played.disturbed;
  row["undetected"] = played.rounds.size() - detect.size();
  row["detect_ms_p50"] = report::PercentileOf(detect, 50);
  row["detect_ms_p99"] = report::PercentileOf(detect, 99);
  row["lost"] = lost / count;
  row["lost_after_detect"] = lost_after / count;
  row["late_pct"] = fault == Fault::kUnitSlow ? ordered_json(100 * late / asked) : ordered_json(nullptr);
  row["back_ms_p50"] = report::PercentileOf(back, 50);
  row["back_ms_p99"] = report::PercentileOf(back, 99);
  return row;
}

}  // namespace spillway::bench
