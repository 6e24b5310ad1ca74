// SPDX-License-Identifier: Apache-2.0
// Who has which GPU of a Kubernetes cluster: the scheduler's cluster, kept in step with what the API server
// says, and the answers to the extender's questions. The decisions are Placer's. Pure; one thread.
//
// A booking's life: Reserve ──► Confirm (the API server took it) ──► gone when the pod is
//                          ├──► GiveBack (it refused)
//                          └──► Doubt (nobody knows) ──► the next Sync that began later decides; until then
//                                                        it stays, and its pod may be bound there alone
//
// What a pod's annotations say of its GPU counts when it is first seen, and never again: whoever may edit the
// pod may edit them. Its tenant is its namespace's.
//
// On a node with a job whose GPU is not known, no part of a GPU is given: it might be that one.
//
// allocation_answers.cc: whether a pod may go to a node, and where; allocation_cluster.cc: nodes and jobs in
// step with the API server; allocation_demand.cc: what jobs are expected.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/cluster_reader.h"
#include "scheduler/extender/node.h"
#include "scheduler/extender/pod.h"
#include "scheduler/extender/wire.h"
#include "scheduler/look_ahead.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {

inline constexpr size_t kMaxNodes = 20'000;

class AllocationCache {
 public:
  // Rules, models, nodes and jobs of a cluster file: its nodes go before labels, its jobs stay for good.
  explicit AllocationCache(const ClusterFile& file);

  // All nodes there are (kMaxNodes of them are kept), and all pods that are on one; `unreadable`: of these
  // those whose request is not understood; `other_cpu`: thousandths of a CPU that pods which are not among
  // `pods` take, by node. `started`: what mark() was before they were asked for; what was
  // booked since is not judged by them.
  void Sync(const std::vector<KubeNode>& nodes, const std::vector<BoundPod>& pods, uint64_t started,
            const std::vector<UnreadablePod>& unreadable = {}, std::map<std::string, int64_t> other_cpu = {});
  // What a watch tells of a pod: it is on a node, or holds nothing any more. One that has gone does not come
  // back, whatever an older list says.
  void See(const BoundPod& pod);
  void Forget(const std::string& uid);
  // Whose pods a namespace's are, where that is not its own name. Holds from the next Sync on.
  void SetTenants(std::map<std::string, std::string> by_space) { tenant_of_space_ = std::move(by_space); }
  // Nodes from a scheduler that sends whole ones.
  void Learn(const std::vector<KubeNode>& nodes);
  [[nodiscard]] uint64_t mark() const { return mark_; }

  // What is expected is learnt from the jobs that are there, apart from the cache, as it takes about a
  // second: DemandIfOld ──► LookAhead, on whatever thread ──► Use. Until then, and under isolations
  // other than none, scores are by fragmentation alone.
  struct Demand {
    std::vector<Job> running, waiting;
    std::vector<Node> nodes;
    size_t models = 0;
    uint64_t layout = 0;
  };
  // Nothing where what is in use is still good.
  [[nodiscard]] std::optional<Demand> DemandIfOld() const;
  // `demand`: what it was learnt from. Does nothing if the nodes have changed since.
  void Use(std::shared_ptr<const LookAhead> look_ahead, const Demand& demand);
  [[nodiscard]] uint64_t learnt() const { return learnt_; }  // how often

  // A pod that was refused by every node: it counts among those that wait until it is booked or gone. Where a
  // namespace has more than kMaxWaitingOfSpace, or all have more than kMaxWaiting, the oldest of the
  // namespace with most is forgotten: none crowds the others out, nor makes what is expected of its pods
  // alone.
  void Waits(const PodAsk& ask);
  static constexpr size_t kMaxWaiting = 256;  // also bounds the kinds of jobs, which learning takes time for
  static constexpr size_t kMaxWaitingOfSpace = kMaxWaiting / 2;
  // Forgets those that waited when mark() was `started` and are not among these uids.
  void KeepWaiting(const std::set<std::string>& pending, uint64_t started);
  [[nodiscard]] size_t waiting() const { return waiting_.size(); }

  [[nodiscard]] FilterVerdict Judge(const PodAsk& ask, const std::string& node) const;
  // 0..10 for each node: 10 for the one that Placer would take, at most 9 for the others.
  [[nodiscard]] std::vector<int> Score(const PodAsk& ask, const std::vector<std::string>& nodes) const;

  // The annotations' text.
  struct Place {
    std::string gpu, slice;
    bool operator==(const Place&) const = default;
  };
  // `ticket` is for the three below, which do nothing with one that is past; 0: nothing was reserved, as the
  // pod asks for no GPU or has that place for certain.
  struct Reservation : Place {
    uint64_t ticket = 0;
  };
  // The best GPU of that node. kConflict: the pod does not fit there (any more), or is being bound by another
  // call. A pod that is booked there keeps its place.
  [[nodiscard]] Result<Reservation> Reserve(const PodAsk& ask, const std::string& node);
  void Confirm(const std::string& uid, uint64_t ticket);
  void Doubt(const std::string& uid, uint64_t ticket);
  // True: it was reserved until now.
  bool GiveBack(const std::string& uid, uint64_t ticket);
  // The API server says that this pod, of which nothing is booked, is on that node.
  void Adopt(const BoundPod& pod);
  // Another extender means to bind this pod, of which nothing is booked, there: it stays until a Sync
  // decides.
  void Suppose(const BoundPod& pod);
  // Whether something is booked for that pod, on that node.
  [[nodiscard]] bool Knows(const std::string& uid, const std::string& node) const;
  // Whether a bind of that pod may have been done, or may yet be.
  [[nodiscard]] bool InDoubt(const std::string& uid) const;

  enum class State : uint8_t { kFixed, kReserved, kConfirmed, kDoubtful };
  struct View {
    std::string uid, pod, node;
    Place place;
    int milli = 0;
    State state = State::kFixed;
    bool placed = true;  // false: it runs there, but not beside the others by our rules
  };
  [[nodiscard]] std::vector<View> Bookings() const;
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }

 private:
  struct Booking {
    std::string pod, node, tenant;
    PodAsk ask;
    Job job;     // as asked, for what usually comes
    Place want;  // an exact place, where one is known
    State state = State::kFixed;
    bool is_supposed = false;  // by another extender's claim, of a bind that it may have taken back
    uint64_t since = 0;        // when its state came about; of a reserved one, its ticket
    std::optional<JobId> id;   // in cluster_
  };

  void Rebuild();
  std::optional<int> NodeAt(const std::string& name) const;
  std::optional<Job> JobOn(const PodAsk& ask, const Node& node, FilterVerdict& verdict) const;
  std::optional<Spot> ExactSpot(const Job& job, int node, const Place& want) const;
  bool Put(Booking& booking);
  void Count(const std::string& node, Giver giver, int by);
  void CountUnknown(const std::string& node, Giver giver, int by);
  void Take(Booking& booking);
  Booking BookingOf(const BoundPod& pod) const;
  Booking* Held(const std::string& uid, uint64_t ticket);
  Place PlaceOf(const Booking& booking) const;
  JobMix MixWith(const PodAsk& ask) const;
  [[nodiscard]] std::vector<Job> Running() const;
  [[nodiscard]] bool LooksAhead() const { return look_ahead_ != nullptr && look_ahead_layout_ == layout_; }
  void Changed() { ++changes_; }
  int TenantNumber(const std::string& name);
  [[nodiscard]] const std::string& TenantOf(const PodAsk& ask) const;
  void AddOnce(const BoundPod& pod, State state);

  const Rules rules_;
  std::vector<GpuModel> file_models_;
  std::vector<KubeNode> file_nodes_;
  std::map<std::string, KubeNode> nodes_;       // all
  std::map<std::string, std::string> surplus_;  // nodes of models too many, and what to say of them
  std::vector<UnreadablePod> unreadable_;
  std::map<std::string, int64_t> other_cpu_;  // by node: of pods without GPUs
  std::map<std::string, int> tenants_;
  std::map<std::string, std::string> tenant_of_space_;

  std::map<std::string, Booking> bookings_;  // by uid; "file:N" of the cluster file's jobs
  std::unique_ptr<Cluster> cluster_;
  std::map<std::string, int> node_at_;
  std::vector<std::array<int, 3>> givers_;  // by node: jobs by who gave them their GPUs, placed or not
  std::vector<int> unknown_;                // by node: those of Spillway's whose GPU is not known
  std::vector<JobId> free_ids_;
  JobId next_id_ = 0;
  uint64_t mark_ = 1;
  std::set<std::string> gone_;          // uids
  std::deque<std::string> gone_order_;  // the oldest first

  std::shared_ptr<const LookAhead> look_ahead_;
  uint64_t layout_ = 0;                               // counts changes of nodes and models
  uint64_t look_ahead_layout_ = 0;                    // for which look_ahead_ was learnt
  uint64_t changes_ = 0, learn_at_ = 0, learnt_ = 0;  // changes_: of bookings, and of those that wait
  struct Waiting {
    Job job;
    std::string space;
    uint64_t since = 0;  // by mark_
  };
  std::map<std::string, Waiting> waiting_;  // by uid
};

[[nodiscard]] const char* ToString(AllocationCache::State state);

}  // namespace spillway::scheduler
