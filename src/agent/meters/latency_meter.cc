// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/latency_meter.h"

#include <fmt/format.h>
#include <net/if.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "agent/meters/reading.h"
#include "agent/meters/system_clock.h"
#include "bpf/meter_account.h"

namespace spillway::agent {

namespace {

// Weight of what came within `elapsed` against all before, for the time constant `window`.
double Weight(Duration elapsed, Duration window) {
  return 1 - std::exp(-static_cast<double>(elapsed.count()) / static_cast<double>(window.count()));
}

}  // namespace

Reading LatencyWindow::Update(Time now, const MeterTotals& totals) {
  const spw_meter_counts& counts = totals.counts;
  // The first look knows no window yet: what an earlier agent's program counted is not news.
  if (!last_) {
    last_ = totals;
    last_look_ = last_answer_ = last_measured_ = now;
  }
  const spw_meter_counts& before = last_->counts;

  Reading reading;
  reading.at = now;
  const uint64_t timed = counts.timed - before.timed;
  if (timed > 0) {
    const double mean =
        static_cast<double>(counts.latency_sum_ns - before.latency_sum_ns) / static_cast<double>(timed);
    // A time without measurements ages the old ones, so it counts as elapsed too.
    smoothed_ns_ = smoothed_ns_ == 0
                       ? mean
                       : smoothed_ns_ + (mean - smoothed_ns_) * Weight(now - last_measured_, window_);
    last_measured_ = now;
    reading.measure = smoothed_ns_;
  }
  reading.exceeded = counts.over_threshold != before.over_threshold;
  if (counts.completed != before.completed || totals.pending == 0) last_answer_ = now;
  reading.stall = std::min<Duration>(totals.oldest, now - last_answer_);
  reading.queue = totals.pending;
  reading.latency_us = static_cast<uint32_t>(std::min(smoothed_ns_ / 1000, 4294967295.0));
  reading.arrivals = counts.arrivals;
  reading.completed = counts.completed;
  reading.errors = counts.errors;
  reading.error_row = totals.error_row;
  reading.accepted = counts.accepted;
  reading.refused = counts.refused;
  reading.dismissed = counts.dismissed;
  reading.timed = counts.timed;
  reading.latency_sum_ns = counts.latency_sum_ns;
  reading.latency_min_ns = counts.latency_min_ns;

  const Duration elapsed = now - last_look_;
  if (elapsed.count() > 0) {
    const double rate =
        static_cast<double>(counts.arrivals - before.arrivals) * 1e9 / static_cast<double>(elapsed.count());
    rate_ += (rate - rate_) * Weight(elapsed, std::chrono::milliseconds(500));
    last_look_ = now;
  }
  given_up_ += totals.given_up;
  last_ = totals;
  return reading;
}

namespace {

// Of the search for requests that timed out or are lost. More often where some are: what was lost since the
// last search is in the queue yet.
constexpr Duration kSweepPeriod = std::chrono::milliseconds(250),
                   kSweepWhileLosing = std::chrono::milliseconds(50);

// A unit that has been silent for so many of its tail latencies, and for kLongPause, either dropped what
// waited when it last answered, or stalls: then what has come since gets no answer either, and that counts.
// Less: what waits in a unit that pauses is forgotten, and it gets more. More: one whose queue overflowed at
// the end of a burst seems to be full, and gets nothing by which it could show that it is not.
constexpr int kTails = 2;
constexpr Duration kLongPause =
    std::chrono::milliseconds(250);  // failure_detector.cc's kMaxPause: change both

}  // namespace

void LatencyMeter::Count(Time now) {
  const uint64_t answered = totals_.counts.completed;
  totals_ = Sum(memory_);
  if (totals_.counts.completed == answered && answered != 0) return;
  answered_ = now;
  arrivals_at_answer_ = totals_.counts.arrivals;
}

void LatencyMeter::DiscountLost(Time now) {
  totals_.pending -= std::min(totals_.pending, lost_);
  if (now - answered_ >
      std::max(kLongPause, kTails * Duration(std::chrono::microseconds(learner_.learnt().tail_us))))
    totals_.pending = static_cast<uint32_t>(
        std::min<uint64_t>(totals_.pending, totals_.counts.arrivals - arrivals_at_answer_));
}

void LatencyMeter::Learn(Time now) {
  if (quota_) ReadQuota(now);
  learner_.Look(now, totals_.pending, totals_.counts, totals_.cpus, *memory_.clocks, ration_.rationed());
}

void LatencyMeter::ReadQuota(Time now) {
  if (!ration_.Due(now)) {
    ration_.Pass(now);
  } else if (const auto reading = quota_->Read(now)) {
    // As of now: to find the group may have taken its time.
    ration_.Learn(ReadClock(CLOCK_MONOTONIC), *reading, totals_.counts.arrivals, totals_.counts.completed);
  } else {
    ration_ = Ration(told_within_);
  }
}

Learnt LatencyMeter::Glance(Time now) {
  Count(now);
  DiscountLost(now);
  Learn(now);
  return learner_.learnt();
}

Result<Reading> LatencyMeter::Read(Time now) {
  Count(now);
  // A unit that answered since the last reading does not stall, so its oldest request needs no search.
  const bool answers = totals_.counts.completed != std::exchange(completed_, totals_.counts.completed);
  if (now - swept_ >= (lost_ > 0 ? kSweepWhileLosing : kSweepPeriod) || (totals_.pending > lost_ && !answers))
    Search(now);
  DiscountLost(now);
  Reading reading = window_.Update(now, totals_);
  Learn(now);
  reading.learnt = learner_.learnt();
  const uint32_t mask = SampleMask(window_.rate());
  if (memory_.config->sample_mask != mask)
    __atomic_store_n(&memory_.config->sample_mask, mask, __ATOMIC_RELAXED);
  return reading;
}

void LatencyMeter::Search(Time now) {
  overtaken_.clear();
  Sweep(memory_, now, &totals_, &overtaken_);
  const Duration elapsed = now - std::exchange(swept_, now);
  const uint32_t more = totals_.latest_start - std::exchange(latest_start_, totals_.latest_start);
  const spw_meter_counts before = std::exchange(swept_counts_, totals_.counts);
  if (elapsed == now) return;  // the first: what an earlier agent's program counted is not news
  odds_.Fade(elapsed);
  for (size_t octave = 0; octave < SPW_METER_OVERTAKEN_OCTAVES; octave++)
    odds_.Answered(octave, static_cast<double>(totals_.counts.overtaken[octave] - before.overtaken[octave]));
  double lost = 0;
  for (const uint32_t by : overtaken_) {
    odds_.Waits(by, more);
    lost += 1 - odds_.Of(by);
  }
  lost_ = static_cast<uint32_t>(std::lround(lost));
  RenewLost(now);
}

void LatencyMeter::RenewLost(Time now) {
  const uint32_t step = spw_meter_step(static_cast<uint64_t>(now.count())),
                 timeout = memory_.config->timeout_steps;
  uint32_t before = totals_.latest_start - odds_.MostlyLostFrom();
  if (totals_.latest_start == 0 || step - before > timeout) before = step - timeout;
  __atomic_store_n(&memory_.shared->lost_before, std::max(before, 1u), __ATOMIC_RELAXED);
}

void LatencyMeter::Watch(bool busy, bool errors) {
  const uint32_t watch =
      (busy ? SPW_METER_WATCH_DRAINED : SPW_METER_WATCH_BUSY) | (errors ? SPW_METER_WATCH_ERRORS : 0);
  if (__atomic_load_n(&memory_.shared->watch, __ATOMIC_RELAXED) != watch)
    __atomic_store_n(&memory_.shared->watch, watch, __ATOMIC_RELEASE);
}

namespace {

Result<std::unique_ptr<LatencyMeter>> OpenSource(const AgentConfig& config) {
  const int ifindex = static_cast<int>(if_nametoindex(config.interface.c_str()));
  if (ifindex == 0)
    return tl::make_unexpected(
        yaml::At(config.places, "interface",
                 {ErrorCode::kBadInput, fmt::format("no such interface: {}", config.interface)}));
  if (config.meter.source != MeterSource::kAfPacket) {
    auto meter = OpenBpfMeter(config, ifindex);
    if (meter || config.meter.source == MeterSource::kBpf || meter.error().code == ErrorCode::kConflict)
      return meter;
    spdlog::warn("{}; metering by AF_PACKET, which costs more CPU time", meter.error().message);
  }
  return OpenPacketMeter(config, ifindex);
}

}  // namespace

Result<std::unique_ptr<LatencyMeter>> OpenLatencyMeter(const AgentConfig& config) {
  const std::string& group = config.meter.cgroup;
  if (group == kNoCgroup) return OpenSource(config);
  auto quota =
      group.empty() ? CgroupQuota::OfService(ServiceCgroup(config.services)) : CgroupQuota::Open(group);
  if (!quota) return tl::make_unexpected(yaml::At(config.places, "meter.cgroup", quota.error()));
  auto meter = OpenSource(config);
  if (meter) (*meter)->WatchQuota(std::move(*quota));
  return meter;
}

}  // namespace spillway::agent
