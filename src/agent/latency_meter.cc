// SPDX-License-Identifier: Apache-2.0
#include "agent/latency_meter.h"

#include <fmt/format.h>
#include <net/if.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace spillway::agent {
namespace {

// Of the search for requests that timed out.
constexpr Duration kSweepPeriod = std::chrono::milliseconds(250);

// A request that waits for so many times the latency of those that are answered meanwhile is taken for one
// that no answer will come to, such as what a scanner sends: it is not in the unit's queue. Less: the slow
// requests of a mixed load are left out. More: each such packet counts for longer.
constexpr int kOverdueLatencies = 32;
constexpr Duration kMinPatience = std::chrono::milliseconds(50);
constexpr Duration kStillAnswers = std::chrono::seconds(1);  // after its last answer

}  // namespace

Result<Reading> LatencyMeter::Read(Time now) {
  const uint64_t answered = totals_.counts.completed;
  totals_ = Sum(memory_);
  // A unit that answered since the last look does not stall, so its oldest request needs no search.
  const bool answers = totals_.counts.completed != answered;
  if (now - swept_ >= kSweepPeriod || (totals_.pending > 0 && !answers)) {
    Sweep(memory_, now, std::max<Duration>(kMinPatience, latency_ * kOverdueLatencies), &totals_);
    swept_ = now;
    if (answers) overdue_ = totals_.overdue;
  }
  if (now - answered_ >= kStillAnswers) overdue_ = 0;  // then all that wait count
  if (answers) answered_ = now;
  totals_.pending -= std::min(totals_.pending, overdue_);
  Reading reading = window_.Update(now, totals_);
  latency_ = std::chrono::microseconds(reading.latency_us);
  learner_.Look(now, totals_.pending, totals_.counts, totals_.cpus, *memory_.clocks);
  reading.learnt = learner_.learnt();
  const uint32_t mask = SampleMask(window_.rate());
  if (memory_.config->sample_mask != mask)
    __atomic_store_n(&memory_.config->sample_mask, mask, __ATOMIC_RELAXED);
  return reading;
}

void LatencyMeter::Watch(bool busy) {
  const uint32_t watch = busy ? SPW_METER_WATCH_DRAINED : SPW_METER_WATCH_BUSY;
  if (__atomic_load_n(&memory_.shared->watch, __ATOMIC_RELAXED) != watch)
    __atomic_store_n(&memory_.shared->watch, watch, __ATOMIC_RELEASE);
}

Result<std::unique_ptr<LatencyMeter>> OpenLatencyMeter(const AgentConfig& config) {
  const int ifindex = static_cast<int>(if_nametoindex(config.interface.c_str()));
  if (ifindex == 0)
    return Fail(ErrorCode::kSystem,
                fmt::format("interface {}: there is no such interface", config.interface));
  if (config.meter.source != MeterSource::kAfPacket) {
    auto meter = OpenBpfMeter(config, ifindex);
    if (meter || config.meter.source == MeterSource::kBpf || meter.error().code == ErrorCode::kConflict)
      return meter;
    spdlog::warn("{}; metering by AF_PACKET, which costs more CPU time", meter.error().message);
  }
  return OpenPacketMeter(config, ifindex);
}

}  // namespace spillway::agent
