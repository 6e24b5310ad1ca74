// SPDX-License-Identifier: Apache-2.0
// The jobs of a list on a pool of GPUs under one policy, event by event: they come, are moved, work at the
// speed of the GPU that they are on, and leave. What gpu_hours_experiment.h says of the experiment holds.
//
// A move that takes time begins the job's new instance and lets the old one work on meanwhile. So both places
// are taken; then the old one ends, and the job goes on at the speed of its new place. A job that ends in the
// middle gives both back. Pure; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "scheduler/replay/gpu_hours_experiment.h"

namespace spillway::scheduler {

class GpuHoursReplay {
 public:
  // `jobs` last and ask for GPUs.
  GpuHoursReplay(std::vector<TraceJob> jobs, SharePolicy policy, const GpuHoursOptions& options);
  GpuHoursReplay(const GpuHoursReplay&) = delete;
  GpuHoursReplay& operator=(const GpuHoursReplay&) = delete;

  // To the end. `look` sees each job that will share a GPU, and what is there as it comes.
  [[nodiscard]] GpuHoursRun Run(const ArrivalLook& look);

 private:
  // At one time: moves end, then jobs leave, then others come.
  enum class Kind : uint8_t { kMoveEnds, kLeaves, kComes };
  struct Event {
    double at;  // s
    Kind kind;
    JobId id;
    bool operator<(const Event& other) const {
      return std::tie(at, kind, id) < std::tie(other.at, other.kind, other.id);
    }
  };
  struct Running {
    double began = 0;  // s
    double work = 0;   // left at `since`, in seconds at speed 1
    double since = 0;  // s
    double speed = 1;
    double ends = 0;  // s, if it stays there
    size_t stay = 0;  // where run_.stays has it
  };
  struct UnderWay {
    double began, ends;
    double share;  // of a GPU, that the old place takes
    size_t old_stay;
  };

  void Advance(double now);
  void MakeCurve(double first);
  void Come(JobId id, double now);
  void Leave(JobId id, double now);
  void EndMove(JobId id, double now);
  void CutMove(JobId id, double now);
  // Where the job goes by a policy that moves nobody; node < 0: nowhere.
  Spot Choose(const Job& job) const;
  int ChooseNode(const Job& job) const;
  void BeginWork(JobId id, double now);
  size_t OpenStay(JobId id, double now);
  void CloseStay(size_t stay, double now);
  void WorkAt(JobId id, double speed, double now);
  void Take(const std::vector<Move>& moves, double now);
  // Whether jobs may be moved is looked at as one comes or goes; where moves take time, once for all that end
  // at one time, as it would be a waste to move one that is about to end.
  void ConsolidateSoon(double now);
  void ConsolidateIfDue(double now);
  double SpeedOf(JobId id) const;
  bool InPool(const Job& job) const { return job.Fractional() || own_cluster_; }
  // The old place of a job that moves, as a job of its own.
  JobId OldPlaceOf(JobId id) const { return static_cast<JobId>(jobs_.size()) + id; }
  int GpusGoingOff() const;

  const std::vector<TraceJob> jobs_;  // as the policy has them share
  const SharePolicy policy_;
  const GpuHoursOptions options_;
  const bool own_cluster_;  // the options', instead of as many alike GPUs as are wanted
  const bool is_ours_, may_move_;
  Cluster pool_;
  Consolidator consolidator_;
  std::vector<Running> running_;
  std::set<Event> events_;
  std::map<JobId, UnderWay> moving_;
  bool is_due_ = false;  // ConsolidateIfDue
  int whole_ = 0;        // GPUs of jobs that have all of one, where these are not in the pool
  double last_ = 0;
  GpuHoursRun run_;
  struct Span {
    double from, to;
    int on;
  };
  std::vector<Span> spans_;
};

}  // namespace spillway::scheduler
