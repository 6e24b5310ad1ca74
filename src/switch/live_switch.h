// SPDX-License-Identifier: Apache-2.0
// The Switch on a real kernel: plans are made by plan.h, kept in step with the maps here. live_ejections.cc:
// what checks found; live_reachability.cc: neighbours; live_reports.cc: load reports and keys;
// live_writes.cc: what is written into maps; live_views.cc: what is shown.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data_plane.h"
#include "ejection.h"
#include "flow_sweeper.h"
#include "health_keeper.h"
#include "heard_file.h"
#include "instance_lock.h"
#include "neighbours.h"
#include "plan.h"
#include "reachability.h"
#include "ring_keeper.h"
#include "switch.h"

namespace spillway::switching {

class LiveSwitch : public Switch {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Switch>> Start(const model::Config& config,
                                                             const Options& options);
  ~LiveSwitch() override;

  bool adopted() const override { return plane_->adopted(); }
  std::vector<std::string> StartWarnings() const override { return start_warnings_; }
  Result<ApplyReport> Check(const model::Config& config) const override;
  Result<ApplyReport> Apply(const model::Config& config) override;
  const model::Config& config() const override { return plan_.config; }
  Result<std::vector<std::string>> SetUnitStatus(const std::string& pool, const std::string& server,
                                                 const std::string& unit, spw_unit_status status) override;
  Result<void> ForgetReports(const std::string& pool, const std::string& server,
                             const std::string& unit) override;
  void SetFailing(const std::vector<FailingUnit>& failing) override;
  std::vector<CheckNews> TakeCheckNews() override { return std::exchange(check_news_, {}); }
  std::vector<WitnessedUnit> SaidDead() const override;
  void SetWitnessed(const std::vector<WitnessedUnit>& units) override;
  void Tick() override;
  std::vector<HealthNews> TakeHealthNews() override;
  int netlink_fd() const override { return neighbours_->fd(); }
  void OnNetlink() override;
  std::vector<InterfaceView> Interfaces() const override { return plane_->interfaces(); }
  std::vector<UnitView> Units() const override;
  std::vector<ServiceView> Services() const override;
  FlowTableView FlowTable() const override;
  spw_counters Counters() const override { return plane_->ReadCounters(); }
  Result<void> Remove() override;

 private:
  LiveSwitch(Options options, std::unique_ptr<InstanceLock> lock)
      : options_(std::move(options)), lock_(std::move(lock)) {}

  [[nodiscard]] Result<void> CheckSeedFile(const model::Config& config) const;
  [[nodiscard]] Result<Plan> PlanOf(const model::Config& config, Ledger& ledger) const;
  [[nodiscard]] Result<ApplyReport> Commit(Plan plan, Ledger ledger);
  void WriteServers(const Plan& plan);
  void WriteUnits(const Plan& plan);
  // Whether the running data plane has the ring; the others' slots are filled first of all.
  bool IsKnownRing(const PlannedRing& ring) const;
  void FillNewRings(const Plan& plan);
  RingTally MoveKnownRings(const Plan& plan);
  void RetireUnits(const Plan& plan);
  // Looks up the unit's next hop and writes it.
  void Resolve(const PlannedUnit& unit);
  void WriteStatus(const PlannedUnit& unit);
  // As one word, so that the data plane never sees half a change.
  static void StoreConfig(spw_unit_config& field, const spw_unit_config& config);
  bool IsReachable(uint16_t unit) const;
  void LookAtHops();  // once a tick
  // Carries what health checks and next hops say into a new plan, before it is written.
  void KeepOutages(Plan& plan) const;
  // Decides anew who is ejected, and writes what has changed: the units' words at once, the rings soon.
  void UpdateEjections();
  void FollowInterfaces();
  void NoteEjections(const Ejection& before, const Ejection& after);
  void RelayRings();  // those due, if it is time
  void AwaitNextHops();
  void CheckDevices();  // what the host's settings will do to packets: into start_warnings_
  bool IsAlive(uint16_t unit) const;
  // The last report heard of each unit: known to the data plane, and kept where it outlives it.
  // Ends reports under keys, or of units, that this plan does not have: what they said is then known.
  [[nodiscard]] Result<bool> MuteForChange(const Plan& plan);  // true: some units may not report any more
  void WriteKeyOf(const Plan& plan, const PlannedServer& server);
  void NoteHeard(const Plan& plan);  // what the data plane has heard of the plan's units
  void LoadHeardReports();
  void SaveHeardReports();  // NoteHeard of the running plan, and
  void WriteHeardReports();
  const PlannedUnit* FindUnit(const std::string& pool, const std::string& server,
                              const std::string& unit) const;
  // What views show of the rings, whose slots are many: counted with each change and each tick, never for a
  // view.
  void CountRings();

  Options options_;
  std::unique_ptr<InstanceLock> lock_;
  std::unique_ptr<DataPlane> plane_;
  std::unique_ptr<Neighbours> neighbours_;
  Ledger ledger_;
  Plan plan_;
  HeardReports heard_;
  bool heard_fails_ = false;          // to be written
  std::map<uint16_t, NextHop> hops_;  // by unit id; absent: no route
  std::map<uint16_t, Reachability> reach_;
  std::set<uint16_t> ask_again_;  // the kernel gave no answer about these
  FailingUnits failing_;
  Ejection ejection_;                            // as written
  std::map<std::string, uint64_t> fail_opened_;  // by service
  std::vector<CheckNews> check_news_;
  std::vector<std::string> start_warnings_;
  std::set<std::string> rings_due_;  // pools whose rings are to be laid anew
  std::chrono::steady_clock::time_point relay_from_;
  std::map<uint16_t, double> ring_shares_;       // by unit id
  std::map<std::string, uint32_t> slots_moved_;  // by service
  std::map<std::string, RingMoves> ring_moves_;  // by service
  FlowSweeper sweeper_;
  HealthKeeper health_;
  std::chrono::steady_clock::time_point last_round_ = std::chrono::steady_clock::now();
  uint64_t rounds_seen_ = 0;
  uint32_t tick_count_ = 0;
};

}  // namespace spillway::switching
