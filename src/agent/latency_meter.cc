// SPDX-License-Identifier: Apache-2.0
#include "agent/latency_meter.h"

#include <fmt/format.h>
#include <net/if.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace spillway::agent {
namespace {

// Of the search for requests that timed out.
constexpr Duration kSweepPeriod = std::chrono::milliseconds(250);

// A request that waits for no more than so many times the latency of those that are answered meanwhile is in
// the unit's queue, and so is any that is younger than AnswerOdds::kYoungest. Of those that wait for longer,
// the part that by experience is answered in the end is; the others are taken for such as no answer will come
// to. Less: when a unit becomes slow its queue is underrated until the first slow answers have left. More:
// what a scanner sends counts for longer.
constexpr int kUsualLatencies = 32;
constexpr Duration kStillAnswers = std::chrono::seconds(1);  // after its last answer

}  // namespace

Result<Reading> LatencyMeter::Read(Time now) {
  const uint64_t answered = totals_.counts.completed;
  totals_ = Sum(memory_);
  // A unit that answered since the last look does not stall, so its oldest request needs no search.
  const bool answers = totals_.counts.completed != answered;
  if (now - swept_ >= kSweepPeriod || (totals_.pending > 0 && !answers)) {
    Search(now);
    if (answers) lost_ = Lost();
  }
  if (now - answered_ >= kStillAnswers) lost_ = 0;  // then all that wait count
  if (answers) answered_ = now;
  totals_.pending -= std::min(totals_.pending, lost_);
  Reading reading = window_.Update(now, totals_);
  latency_ = std::chrono::microseconds(reading.latency_us);
  learner_.Look(now, totals_.pending, totals_.counts, totals_.cpus, *memory_.clocks);
  reading.learnt = learner_.learnt();
  const uint32_t mask = SampleMask(window_.rate());
  if (memory_.config->sample_mask != mask)
    __atomic_store_n(&memory_.config->sample_mask, mask, __ATOMIC_RELAXED);
  return reading;
}

void LatencyMeter::Search(Time now) {
  long_waits_.clear();
  Sweep(memory_, now, &totals_, AnswerOdds::kYoungest, &long_waits_);
  const Duration elapsed = now - swept_;
  const bool is_first = swept_ == Time{0};
  swept_ = now;
  const spw_meter_counts before = std::exchange(swept_counts_, totals_.counts);
  if (is_first) return;  // what an earlier agent's program counted is not news
  odds_.Fade(elapsed);
  // Not all requests are timed; the others fare likewise.
  const uint64_t timed = totals_.counts.timed - before.timed;
  const double each = timed == 0 ? 0
                                 : static_cast<double>(totals_.counts.completed - before.completed) /
                                       static_cast<double>(timed);
  for (uint32_t i = 0; i < SPW_METER_HISTOGRAM; i++)
    if (const uint64_t more = totals_.counts.histogram[i] - before.histogram[i]; more != 0)
      odds_.Answered(Duration(static_cast<int64_t>(spw_meter_histogram_floor(i)) << SPW_METER_STEP_SHIFT),
                     each * static_cast<double>(more));
  for (const Duration age : long_waits_) odds_.Waits(age, elapsed);
  odds_.GivenUp(static_cast<double>(totals_.given_up) +
                static_cast<double>(totals_.counts.timed_out - before.timed_out));
}

uint32_t LatencyMeter::Lost() const {
  double lost = 0;
  for (const Duration age : long_waits_)
    if (age > latency_ * kUsualLatencies) lost += 1 - odds_.Of(age);
  return static_cast<uint32_t>(lost + 0.5);
}

void LatencyMeter::Watch(bool busy, bool errors) {
  const uint32_t watch =
      (busy ? SPW_METER_WATCH_DRAINED : SPW_METER_WATCH_BUSY) | (errors ? SPW_METER_WATCH_ERRORS : 0);
  if (__atomic_load_n(&memory_.shared->watch, __ATOMIC_RELAXED) != watch)
    __atomic_store_n(&memory_.shared->watch, watch, __ATOMIC_RELEASE);
}

Result<std::unique_ptr<LatencyMeter>> OpenLatencyMeter(const AgentConfig& config) {
  const int ifindex = static_cast<int>(if_nametoindex(config.interface.c_str()));
  if (ifindex == 0)
    return Fail(ErrorCode::kSystem, fmt::format("interface {}: no such interface", config.interface));
  if (config.meter.source != MeterSource::kAfPacket) {
    auto meter = OpenBpfMeter(config, ifindex);
    if (meter || config.meter.source == MeterSource::kBpf || meter.error().code == ErrorCode::kConflict)
      return meter;
    spdlog::warn("{}; metering by AF_PACKET, which costs more CPU time", meter.error().message);
  }
  return OpenPacketMeter(config, ifindex);
}

}  // namespace spillway::agent
