// SPDX-License-Identifier: Apache-2.0
// Which model is served on which GPU, and the hourly budget of moves: decides what each host is to have from
// what hosts and executors say. A
// reconciler: an event changes the fleet, and afterwards `Wanted` says, for each host, all that it is to
// have; node_plan.h says what a host does about it. So a lost or repeated message loses and doubles nothing.
// No sockets, no clock, no files: time comes in. One thread.
//
// What it promises, whatever comes in whatever order:
//   - a place is given again only after its host said that nothing is left there: no slice over its GPU, and
//     under isolation `gpu` no two tenants on one
//   - a move begins the new instance, waits until it is ready, drains the old one and ends it last; whatever
//     fails on the way, the model goes on where it ran
//   - the whole state is the Fleet: a controller that is made of a saved one goes on where that one was
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/consolidation.h"
#include "scheduler/controller/fleet.h"
#include "scheduler/controller/fleet_view.h"
#include "scheduler/controller/learned_speeds.h"
#include "scheduler/controller/place_search.h"

namespace spillway::scheduler {

struct ControllerOptions {
  FleetRules rules;
  Policy policy = Policy::kSpillway;
  bool is_moving = true;  // false: nothing moves but at an operator's word
  // GPUs' worth that a tenant's models may hold in all; "*": each tenant that is not listed.
  std::map<std::string, double> gpu_quotas;
  double move_price = 0.3;      // of one, where a GPU that is switched off is worth 1
  double moves_per_hour = 60;   // the budget; as many may come at once
  Millis start_limit = 60'000;  // within which an executor is to be ready
  Millis drain_limit = 60'000;  // after which an instance ends though requests are in hand
  Millis settle = 2'000;        // nothing came or went for so long before jobs are moved to free a GPU
  Millis back_off = 500;        // after a failure, doubled with each further one,
  Millis longest_back_off = 60'000;
};

// What a host says it has of an instance. One that is absent is gone, slice and all.
struct Held {
  uint64_t instance = 0;
  bool has_failed = false;
  bool slice_refused = false;  // has_failed: the GPU did not give the slice
  std::string why = {};        // has_failed
};

// What a host is to have of one.
struct WantedInstance {
  uint64_t instance = 0;
  ServedModel model;
  SlicePlace place;
  bool operator==(const WantedInstance&) const = default;
};

class Controller {
 public:
  explicit Controller(ControllerOptions options, Fleet fleet = {});

  // -- operators. kConflict: another model of that name, or more than the tenant's quota; kBadInput: no such
  // model, or no such place.
  [[nodiscard]] Result<void> AddModel(const ServedModel& model, Millis now);
  [[nodiscard]] Result<void> RemoveModel(const std::string& name, Millis now);
  // One of its instances goes to another GPU: `gpu` (HOST/GPU), or where the placer puts it. kConflict: no
  // room, or a move is under way. Needs no budget.
  [[nodiscard]] Result<void> MoveModel(const std::string& name, const std::string& gpu, Millis now);

  // -- hosts. `revision`: the last one that the host has acted on. `programs`: of its own, that can serve.
  // `agent`: who says so.
  void HostSays(const std::string& host, const std::vector<Gpu>& gpus, const std::vector<Held>& held,
                uint64_t revision, Millis now, const std::set<std::string>& programs = {},
                const std::string& agent = {});
  // A host that is not up and has no instances. False: it is or has, or there is none.
  bool ForgetHost(const std::string& host, Millis now);
  void HostLost(const std::string& host, Millis now);

  // -- executors, as the gateway sees them
  void Joined(uint64_t instance, Millis now);
  void Left(uint64_t instance, Millis now);
  void Idle(uint64_t instance, Millis now);  // draining, and nothing is in hand any more
  // What a move of the model cost its requests.
  void Measured(const std::string& model, Millis downtime_ms, Millis now);
  // What requests of late took, of all instances that had any: new instances of a model rather go where they
  // take less, and a GPU is not freed at their cost. Moves nothing.
  struct Took {
    uint64_t instance = 0;
    std::string model;      // whose requests
    double ms = 0;          // one's mean, the wait not counted
    uint64_t requests = 0;  // of its executor so far
  };
  void Learn(const std::vector<Took>& took, Millis now);

  void Tick(Millis now);
  // Replicas are missing for which no place was looked for yet, as enough were since the last Tick: the next
  // one is due at once.
  [[nodiscard]] bool HasMore() const { return has_more_; }
  static constexpr int kEffortPerTurn = 256;   // a replica is one, and one for which there is no room
  static constexpr int kGpusPerEffort = 1024;  // one more for so many GPUs, as all were looked at for it
  // The program was away. Who was ready has start_limit to be so again.
  void Restarted(Millis now);

  [[nodiscard]] std::vector<WantedInstance> Wanted(const std::string& host) const;
  [[nodiscard]] const Fleet& fleet() const { return fleet_; }
  [[nodiscard]] const ControllerOptions& options() const { return options_; }
  // GPUs on which an instance is that is not stranded.
  [[nodiscard]] size_t GpusOn() const;
  // How often a place was looked for, for a replica that is missing: nearly all that an event costs.
  [[nodiscard]] uint64_t searches() const { return searches_; }

 private:
  // Others moved at most so that one finds room.
  static constexpr int kMaxPushed = 2;
  // All that a search for a place goes by: while it is the same, so is what the search finds.
  struct PlacementInputs {
    uint64_t changes = 0;                          // of hosts, models, instances and what moves cost
    int64_t gpus_waiting = 0, models_waiting = 0;  // in trouble, and their time has not come
    bool has_planned = false;                      // moves
    int moves = 0;                                 // that the budget allows, of kMaxPushed
    bool operator==(const PlacementInputs&) const = default;
  };

  void Begin(Millis now);  // of every event
  void Reconcile();        // and its end
  void EndLate();
  void ForgetTroubles();
  void TrimReplicas();
  void AddReplicas();
  bool AddReplicasOf(const ServedModel& model, int there, PlaceSearches& searches);
  bool AddOne(const ServedModel& model, PlaceSearches& searches);
  [[nodiscard]] Spot Quicker(PlaceSearch& search, const ServedModel& model, const Job& job,
                             const Spot& spot) const;
  bool PlanRoom(const ServedModel& model, PlaceSearches& searches);
  void PlanMoves();
  [[nodiscard]] double LossByMove(const FleetView& view, JobId job, const Spot& from, int node) const;
  void StartPlanned();

  [[nodiscard]] Result<void> WithinQuota(const ServedModel& model) const;
  [[nodiscard]] PlacementInputs InputsNow() const;
  bool MayFindPlace(const std::string& model);
  void Changed();  // hosts, models or phases
  Instance* Find(uint64_t id);
  void To(Instance& one, Phase phase);
  const Instance& Start(const ServedModel& model, const SlicePlace& place, uint64_t replaces);
  void EndDraining(Instance& one);
  void Stop(Instance& one);
  void GiveUp(Instance& one, const std::string& why);
  void Explain(const Instance& one, const std::string& why);
  void CountFailure(Trouble& trouble, const std::string& why) const;
  void Gone(uint64_t id);
  [[nodiscard]] Instance* ReplacementOf(uint64_t id);
  [[nodiscard]] Instance* SpareOf(const ServedModel& model);
  [[nodiscard]] bool IsMoving() const;
  [[nodiscard]] bool MayNeverEnd(const Instance& one) const;
  [[nodiscard]] std::map<std::string, int> Replicas() const;  // by model: those that count

  ControllerOptions options_;
  Fleet fleet_;
  LearnedSpeeds speeds_;
  Millis heard_;  // the caller's time, of the last event: before fleet_.now where his clock was set back
  uint64_t searches_ = 0;
  int effort_left_ = kEffortPerTurn;  // until the next Tick
  bool has_more_ = false;
  std::string next_model_;  // if has_more_: with whom it goes on, so that each model has its turn
  uint64_t changes_ = 0;
  PlacementInputs inputs_;
  std::set<std::string> unplaceable_;  // models for which there was no place under inputs_
};

}  // namespace spillway::scheduler
