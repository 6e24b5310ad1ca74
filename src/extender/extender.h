// SPDX-License-Identifier: Apache-2.0
// The Kubernetes scheduler extender: POST /filter, /prioritize and /bind over the scheduler's allocation
// cache, which are kept in step with the API server. docs/kubernetes.md describes it.
//
// Threading: HTTP's thread takes requests, a few workers answer them, others bind, one thread keeps in step,
// and one learns what jobs are expected.
// What is bound is claimed before, at the node, by compare-and-swap (scheduler/extender/claims.h), so that
// two extenders, such as one and its stand-by, do not give one GPU twice.
//
// The cache is under one mutex, which nobody holds while he waits for the API server: whatever becomes of
// that one, filter and prioritize go on, and nothing here is ever waited for by the rest of the process.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/http.h"
#include "extender/kube_client.h"
#include "model/pool.h"
#include "scheduler/extender/allocation_cache.h"
#include "scheduler/extender/claims.h"

namespace spillway::extender {

// The cluster file of that configuration, or an empty one.
[[nodiscard]] Result<scheduler::ClusterFile> LoadCluster(const model::ExtenderConfig& config);

class Extender {
 public:
  // Listens, and begins to ask the API server where there is one. Errors: kBadInput of the cluster file, and
  // what keeps it from listening.
  // `kube`: who speaks with the API server, where a test has its own.
  [[nodiscard]] static Result<std::unique_ptr<Extender>> Start(const model::ExtenderConfig& config,
                                                               std::unique_ptr<KubeClient> kube = nullptr);
  ~Extender();
  Extender(const Extender&) = delete;
  Extender& operator=(const Extender&) = delete;

  [[nodiscard]] int port() const { return port_; }
  // Prometheus text; docs/kubernetes.md lists the names.
  [[nodiscard]] std::string MetricsText() const;

 private:
  struct Task {
    api::Request request;
    api::Responder respond;
  };
  struct Lane {
    std::condition_variable work;
    std::deque<Task> tasks;  // under mutex_
  };
  struct Verb {
    uint64_t ok = 0, failed = 0;
    double seconds = 0;
  };

  Extender(const model::ExtenderConfig& config, const scheduler::ClusterFile& file,
           std::unique_ptr<KubeClient> kube);
  void Accept(api::Request request, api::Responder respond);
  void Work(Lane& lane);
  void ResyncLoop();
  void KeepLearning();
  api::Response Answer(const api::Request& request, bool& failed);
  api::Response Filter(const std::string& body, bool& failed);
  api::Response Prioritize(const std::string& body, bool& failed);
  api::Response Bind(const std::string& body, bool& failed);
  api::Response Bookings() const;

  // Asks the API server and takes over what it says. The caller has sync_mutex_.
  Result<void> Sync();
  Result<void> SyncOnce();
  // By node. Asks the API server for the pods.
  std::vector<scheduler::BoundPod> ClaimedByOthers(const std::map<std::string, scheduler::Claims>& claims);
  // What happens to pods from the last look on, until the next is due, the watch fails, or this ends.
  Result<void> Watch(std::chrono::steady_clock::time_point until);
  bool Take(const nlohmann::json& event);
  // Waits until then; true: it is to end.
  bool StopsBefore(std::chrono::steady_clock::time_point time);
  Result<void> InStep();
  // nullopt: it is gone, or another pod has its name.
  Result<std::optional<nlohmann::json>> FetchPod(const std::string& space, const std::string& name,
                                                 const std::string& uid);
  Result<scheduler::PodAsk> AskOf(const scheduler::BindingArgs& args);
  enum class Fate { kBound, kNotBound, kUnknown };
  // `elsewhere`: where kNotBound means that it is bound, but not as we would have it.
  Fate FateOf(const scheduler::BindingArgs& args, const scheduler::AllocationCache::Place& place,
              bool refused, std::optional<scheduler::BoundPod>& elsewhere);
  void Remember(const scheduler::PodAsk& ask);
  // Of the pod that a claim names: nullopt: it is gone, another by that name, or finished.
  Result<std::optional<scheduler::BoundPod>> PodOf(const std::string& uid, const scheduler::Claim& claim);
  // Claims the reserved place at the node, after a look at others' claims there. What they show goes into the
  // cache, and the place is chosen anew.
  Result<void> Claim(const scheduler::BindingArgs& args, const scheduler::PodAsk& ask,
                     scheduler::AllocationCache::Reservation& place, uint64_t& ticket);
  // Takes it back, if it can.
  void Unclaim(const scheduler::BindingArgs& args);

  const model::ExtenderConfig config_;
  const std::string id_;  // of this one, by which it knows its claims
  const std::unique_ptr<KubeClient> kube_;
  int port_ = 0;

  mutable std::mutex cache_mutex_;
  scheduler::AllocationCache cache_;               // under cache_mutex_, as all to the next gap
  std::map<std::string, scheduler::PodAsk> asks_;  // by uid: what pods asked for that may be bound next
  std::deque<std::string> asks_order_;
  std::map<std::string, Verb> verbs_;
  std::map<std::string, uint64_t> refused_nodes_;  // by "busy" and "unfit"
  uint64_t given_back_ = 0, unreadable_pods_ = 0;
  bool in_step_ = false;
  std::string sync_error_ = "it has not answered yet";
  uint64_t sync_failures_ = 0;
  std::chrono::steady_clock::time_point synced_{};
  std::chrono::steady_clock::duration sync_took_{};
  std::string pods_version_;  // of the pods that are known: where a watch goes on
  uint64_t watched_events_ = 0;

  std::mutex sync_mutex_;  // who syncs

  std::mutex mutex_;
  std::condition_variable stop_;
  Lane answers_, binds_;   // a bind waits for the API server: nothing else stands behind one
  bool stopping_ = false;  // under mutex_
  std::stop_source learning_;

  std::vector<std::thread> threads_;
  std::unique_ptr<api::HttpServer> http_;  // last: it goes first
};

}  // namespace spillway::extender
