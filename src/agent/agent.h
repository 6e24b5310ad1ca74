// SPDX-License-Identifier: Apache-2.0
// The agent: looks at its meter, judges (whether the unit fails only with a meter that sees requests),
// reports; sleeps until the next look, a notice of the meter or a signal. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/config.h"
#include "agent/failure_detector.h"
#include "agent/learner/switch_view.h"
#include "agent/meters/latency_meter.h"
#include "agent/report_schedule.h"
#include "agent/reporter.h"
#include "agent/trigger.h"
#include "base/error.h"

namespace spillway::agent {

class Agent {
 public:
  // Attaches the meter. Nothing is sent yet.
  [[nodiscard]] static Result<std::unique_ptr<Agent>> Start(const AgentConfig& config);

  // Reports until SIGTERM or SIGINT, which the caller has blocked. `on_stats`, if set, gets one JSON
  // document each second and a last one at the end.
  [[nodiscard]] Result<void> Run(const std::function<void(const std::string&)>& on_stats);
  // Nothing is reported then, so that the switch sees the unit silent.
  [[nodiscard]] bool meter_failed() const { return meter_failed_; }
  // Looks for one second without reporting; the JSON document of the look.
  [[nodiscard]] Result<std::string> Once();

 private:
  Agent(const AgentConfig& config, std::unique_ptr<Meter> meter);
  std::optional<Verdict> Look(Time now);  // nullopt: the meter failed
  // Whether the meter is at its interface; it is attached again to one that was made anew.
  [[nodiscard]] Result<void> FollowInterface(Time now);
  [[nodiscard]] Result<void> AttachAnew();  // where another interface has the name, or nothing is on it
  // regular: at one of the looks that come each period.
  void Report(Time now, Verdict verdict, bool regular);
  // Reports again if the switch no longer knows the unit's backlog, or what a request costs.
  void CheckSwitchView(Time now);
  bool ChecksSwitchView() const;
  bool SwitchIsWrong() const;  // as of the last reading
  void JudgeFailure(Time now);
  std::string Stats(Time now);

  AgentConfig config_;
  std::unique_ptr<Meter> meter_;
  LatencyMeter* latency_ = nullptr;  // meter_, if it is one
  int ifindex_;                      // of the interface that it meters
  Time follow_at_{0};                // when that is looked at again
  std::string why_detached_;         // as of then; empty: it is attached
  Trigger trigger_;
  FailureDetector failure_;
  bool failure_changed_ = false;
  ReportSchedule schedule_;
  SwitchView view_;
  Reporter reporter_;
  Reading reading_;
  Verdict verdict_;
  uint64_t trips_ = 0, notices_ = 0, failures_ = 0, corrections_ = 0;
  bool meter_failed_ = false;
  Time stats_at_{0};
  spw_meter_counts stats_counts_{};
};

}  // namespace spillway::agent
