// SPDX-License-Identifier: Apache-2.0
// Request latency seen passively at the unit's interface: by the BPF program, or by an AF_PACKET
// socket where BPF is missing. Both keep the same memory; this class reads it. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/config.h"
#include "agent/learner/outcome_learner.h"
#include "agent/meters/answer_odds.h"
#include "agent/meters/cgroup_quota.h"
#include "agent/meters/meter_memory.h"
#include "agent/meters/reading.h"

namespace spillway::agent {

// Cumulative totals, look by look -> Reading. Pure: time is an argument.
class LatencyWindow {
 public:
  // window: time constant of the smoothing.
  explicit LatencyWindow(Duration window) : window_(window) {}

  Reading Update(Time now, const MeterTotals& totals);
  // Requests a second over about the last second; for the choice of the sample.
  double rate() const { return rate_; }
  uint64_t given_up() const { return given_up_; }

 private:
  Duration window_;
  std::optional<MeterTotals> last_;
  Time last_look_{0}, last_answer_{0};
  double smoothed_ns_ = 0;  // 0: no measurement yet
  Time last_measured_{0};
  double rate_ = 0;
  uint64_t given_up_ = 0;
};

class LatencyMeter : public Meter {
 public:
  explicit LatencyMeter(const AgentConfig& config)
      : window_(config.meter.window),
        learner_(config.learn.workers),
        told_within_(config.report.ToldWithin()),
        odds_(spw_meter_step(static_cast<uint64_t>(config.meter.timeout.count()))) {}

  Result<Reading> Read(Time now) override;
  // What is learnt of the unit by now, at a small part of Read's cost: no request is searched for. The next
  // Read is unaffected.
  Learnt Glance(Time now);
  void Watch(bool busy, bool errors) override;
  // From now on the accounts of the unit's control group are read, too.
  void WatchQuota(std::unique_ptr<CgroupQuota> quota) { quota_ = std::move(quota); }
  const MeterTotals& totals() const { return totals_; }
  uint64_t given_up() const { return window_.given_up(); }
  uint32_t sample_one_in() const { return memory_.config->sample_mask + 1; }
  // Attaches the source again where something took it off the interface that it is on, the index being the
  // same: the interface was in another network namespace, or its filters were deleted. Whether it had to.
  [[nodiscard]] virtual Result<bool> KeepAttached() { return false; }
  // Packets that the source itself lost before they were seen.
  virtual uint64_t packets_lost() { return 0; }

 protected:
  MeterMemory memory_;

 private:
  void Count(Time now);
  void DiscountLost(Time now);
  void Learn(Time now);
  void ReadQuota(Time now);
  void Search(Time now);     // for requests that timed out, and for those that were overtaken
  void RenewLost(Time now);  // tells the data plane which requests, when they come again, are new ones

  LatencyWindow window_;
  OutcomeLearner learner_;
  std::unique_ptr<CgroupQuota> quota_;
  Duration told_within_;
  Ration ration_{told_within_};
  MeterTotals totals_;
  uint64_t completed_ = 0;  // by the last reading
  Time answered_{0};
  uint64_t arrivals_at_answer_ = 0;
  AnswerOdds odds_;
  // As of the last sweep.
  Time swept_{0};
  spw_meter_counts swept_counts_{};
  uint32_t latest_start_ = 0;
  std::vector<uint32_t> overtaken_;  // steps
  uint32_t lost_ = 0;                // of those that wait
};

// Attaches the source that the configuration asks for. `auto`: BPF, else AF_PACKET with a warning.
[[nodiscard]] Result<std::unique_ptr<LatencyMeter>> OpenLatencyMeter(const AgentConfig& config);

[[nodiscard]] Result<std::unique_ptr<LatencyMeter>> OpenBpfMeter(const AgentConfig& config, int ifindex);
[[nodiscard]] Result<std::unique_ptr<LatencyMeter>> OpenPacketMeter(const AgentConfig& config, int ifindex);

}  // namespace spillway::agent
