// SPDX-License-Identifier: Apache-2.0
#include "agent/latency_meter.h"

#include <fmt/format.h>
#include <net/if.h>
#include <spdlog/spdlog.h>

namespace spillway::agent {
namespace {

// Of the search for requests that timed out.
constexpr Duration kSweepPeriod = std::chrono::milliseconds(250);

}  // namespace

Result<Reading> LatencyMeter::Read(Time now) {
  const uint64_t answered = totals_.counts.completed;
  totals_ = Sum(memory_);
  // A unit that answered since the last look does not stall, so its oldest request needs no search.
  if (now - swept_ >= kSweepPeriod || (totals_.pending > 0 && totals_.counts.completed == answered)) {
    Sweep(memory_, now, &totals_);
    swept_ = now;
  }
  Reading reading = window_.Update(now, totals_);
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
