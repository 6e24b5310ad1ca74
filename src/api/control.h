// SPDX-License-Identifier: Apache-2.0
// The running switch as the API, the signals and the timer see it: one object, one mutex; and what the
// log says of units that their agents report failing.
//
// Threading: every method may be called from any thread. The switch itself is not thread-safe, and never
// touched by anybody else while a Control exists.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/changes.h"
#include "api/metrics.h"
#include "base/mutex.h"
#include "health/checker.h"
#include "model/parse.h"
#include "switch/switch.h"

namespace spillway::api {

// What never changes while the daemon runs.
struct DaemonInfo {
  std::string version;
  std::string instance;
  std::string config_path;
  std::string last_good_path;  // empty: accepted configurations are not saved
};

class Control {
 public:
  // `sw` outlives this.
  Control(switching::Switch& sw, DaemonInfo info);
  // From now on the configuration's health checks run, and their outcome is carried into the switch.
  [[nodiscard]] Result<void> StartChecks();

  // What Apply would say, but for what only the attempt shows.
  [[nodiscard]] Result<switching::ApplyReport> Check(const std::string& yaml, const std::string& file_name);
  // All or nothing; what was accepted is saved as the last good configuration.
  [[nodiscard]] Result<switching::ApplyReport> Apply(const std::string& yaml, const std::string& file_name);
  // Re-reads the file spillwayd was started with.
  [[nodiscard]] Result<switching::ApplyReport> Reload();

  // nullopt: no such unit or service. Of a unit: the services that take no new flows then, a note each.
  [[nodiscard]] std::optional<Result<std::vector<std::string>>> ChangeUnit(const std::string& pool,
                                                                           const std::string& server,
                                                                           const std::string& unit,
                                                                           const UnitChange& change);
  [[nodiscard]] std::optional<Result<switching::ApplyReport>> ChangeService(const std::string& name,
                                                                            const ServiceChange& change);

  void Tick();
  void OnNetlink();

  const DaemonInfo& info() const { return info_; }
  double uptime_s() const;
  Snapshot Read() const;
  std::vector<health::CheckView> Checks() const;
  std::string ConfigYaml() const;

 private:
  Result<switching::ApplyReport> TakeFile(const Result<model::PoolFile>& file, const std::string& name)
      SPILLWAY_REQUIRES(mutex_);
  // What follows an apply, whichever way it went.
  Result<switching::ApplyReport> Conclude(Result<switching::ApplyReport> report) SPILLWAY_REQUIRES(mutex_);
  Result<switching::ApplyReport> TakeEdited(const model::Config& config) SPILLWAY_REQUIRES(mutex_);
  Result<void> NoNewCommands(const model::Config& config) const SPILLWAY_REQUIRES(mutex_);
  void SaveLastGood() const SPILLWAY_REQUIRES(mutex_);
  void LogCheckNews() SPILLWAY_REQUIRES(mutex_);
  void CarryWitnesses() SPILLWAY_REQUIRES(mutex_);
  void OnChecks(const std::vector<health::CheckChange>& changes,
                const std::vector<health::FailingUnit>& failing);

  const DaemonInfo info_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  mutable base::Mutex mutex_;
  switching::Switch& switch_ SPILLWAY_GUARDED_BY(mutex_);
  double start_time_s_ = 0;  // Unix time
  double apply_time_s_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool last_apply_ok_ SPILLWAY_GUARDED_BY(mutex_) = true;  // of files, not of single changes
  std::string applied_file_ SPILLWAY_GUARDED_BY(mutex_);   // what the running configuration was read from
  // Calls back into this, so it goes first. The pointer is set once, before other threads know of this.
  std::unique_ptr<health::Checker> checker_;
};

}  // namespace spillway::api
