// SPDX-License-Identifier: Apache-2.0
// The controller at work: a thread that takes in what operators, node agents and the gateway's executors say,
// writes the fleet to its file, and only then answers and acts. Operators and node agents come by HTTP, the
// executors' comings and goings from the server's thread.
//
// An executor is an instance's if it is called instance-ID.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/http.h"
#include "base/mutex.h"
#include "gateway/control/fleet_file.h"
#include "gateway/control/fleet_report.h"
#include "gateway/control/host_table.h"
#include "gateway/control/move_times.h"
#include "gateway/control/waiting_reports.h"
#include "gateway/server.h"

namespace spillway::gateway {

class Control {
 public:
  // Reads the file, or starts a fleet without models. `server` outlives it, and does not run yet. kConflict:
  // another gateway has the file; kBadInput: "FILE: KEY: what was expected".
  [[nodiscard]] static Result<std::unique_ptr<Control>> Open(const ControllerConfig& config, Server& server);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // The API; its servers end before this does.
  api::AsyncHandler Front();
  [[nodiscard]] static api::HttpLimits LocalLimits();
  // Whoever comes by TCP shows the token, before his body is read.
  [[nodiscard]] api::HttpLimits RemoteLimits() const;

 private:
  Control(const ControllerConfig& config, Server& server, FleetFile file, scheduler::Fleet fleet);

  void Post(std::function<void()> work);
  void TakeReport(const api::Request& request, const std::string& host, const api::Responder& respond);
  void Loop();
  // -- on its thread
  void Turn();
  void ExcuseHosts(std::chrono::steady_clock::duration busy);
  void Handle(const api::Request& request, const api::Responder& respond);
  [[nodiscard]] api::Response Change(const api::Request& request, const std::string& model,
                                     const std::string& verb);
  void HearHost(const WaitingReports::Key& key);
  void HearExecutor(const std::string& name, bool is_here);
  void ForgetHosts(std::chrono::milliseconds silent);
  void DrainExecutors();
  void AskWhoIsIdle(const std::vector<uint64_t>& draining);
  void AskWhatRequestsTake();
  [[nodiscard]] static scheduler::Millis Now();

  ControllerConfig config_;
  Server& server_;
  FleetFile file_;
  scheduler::Controller controller_;
  HostTable hosts_;
  MoveTimes move_times_;
  std::set<uint64_t> here_;                     // instances whose executors are at the gateway
  std::vector<std::function<void()>> answers_;  // once all is written
  std::set<std::string, std::less<>> draining_;
  bool is_asking_ = false;
  std::chrono::steady_clock::time_point asked_{};     // what requests take
  std::chrono::steady_clock::time_point measured_{};  // for the metrics
  TookMs took_;
  std::map<int, uint64_t> refused_;  // operators' changes, by the status of the answer

  WaitingReports reports_;

  base::Mutex mutex_;
  base::Condition wake_;
  std::vector<std::function<void()>> posted_ SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::gateway
