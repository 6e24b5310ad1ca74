// SPDX-License-Identifier: Apache-2.0
// The Kubernetes scheduler extender: POST /filter, /prioritize and /bind, decided by an allocation cache that
// is kept in step with the API server. docs/kubernetes.md describes it.
//
// Threading: HTTP's thread takes requests, a few workers answer them, others bind, one thread keeps in step,
// and one learns what jobs are expected.
// What is bound is claimed before, at the node, by compare-and-swap (scheduler/extender/claims.h), so that
// two extenders, such as one and its stand-by, do not give one GPU twice.
//
// The cache is under one mutex, which nobody holds while he waits for the API server: whatever becomes of
// that one, filter and prioritize go on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/http.h"
#include "base/mutex.h"
#include "kubernetes/config.h"
#include "kubernetes/kube_client.h"
#include "scheduler/extender/allocation_cache.h"
#include "scheduler/extender/claims.h"

namespace spillway::kubernetes {

class Extender {
 public:
  // Listens, and begins to ask the API server where there is one. Errors: kBadInput of the cluster file, and
  // what keeps it from listening.
  // `kube`: who speaks with the API server, where a test has its own.
  [[nodiscard]] static Result<std::unique_ptr<Extender>> Start(const ExtenderConfig& config,
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
    base::Condition work;
    std::deque<Task> tasks SPILLWAY_GUARDED_BY(&Extender::mutex_);
  };
  struct Verb {
    uint64_t ok = 0, failed = 0;
    double seconds = 0;
  };

  Extender(const ExtenderConfig& config, const scheduler::ClusterFile& file,
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

  // Asks the API server and takes over what it says.
  Result<void> Sync() SPILLWAY_REQUIRES(sync_mutex_) SPILLWAY_EXCLUDES(cache_mutex_);
  Result<void> SyncOnce() SPILLWAY_REQUIRES(sync_mutex_) SPILLWAY_EXCLUDES(cache_mutex_);
  // By node. Asks the API server for the pods.
  std::vector<scheduler::BoundPod> ClaimedByOthers(const std::map<std::string, scheduler::Claims>& claims)
      SPILLWAY_EXCLUDES(cache_mutex_);
  // What happens to pods from the last look on, until the next is due, the watch fails, or this ends.
  Result<void> Watch(std::chrono::steady_clock::time_point until) SPILLWAY_EXCLUDES(cache_mutex_);
  bool Take(const nlohmann::json& event);
  // Waits until then; true: it is to end.
  bool StopsBefore(std::chrono::steady_clock::time_point time);
  Result<void> InStep();
  // nullopt: it is gone, or another pod has its name.
  Result<std::optional<nlohmann::json>> FetchPod(const std::string& space, const std::string& name,
                                                 const std::string& uid) SPILLWAY_EXCLUDES(cache_mutex_);
  Result<scheduler::PodAsk> AskOf(const scheduler::BindingArgs& args) SPILLWAY_EXCLUDES(cache_mutex_);
  enum class Fate { kBound, kNotBound, kUnknown };
  // `elsewhere`: where kNotBound means that it is bound, but not as we would have it.
  Fate FateOf(const scheduler::BindingArgs& args, const scheduler::AllocationCache::Place& place,
              bool refused, std::optional<scheduler::BoundPod>& elsewhere) SPILLWAY_EXCLUDES(cache_mutex_);
  void Remember(const scheduler::PodAsk& ask) SPILLWAY_REQUIRES(cache_mutex_);
  // Of the pod that a claim names: nullopt: it is gone, another by that name, or finished.
  Result<std::optional<scheduler::BoundPod>> PodOf(const std::string& uid, const scheduler::Claim& claim)
      SPILLWAY_EXCLUDES(cache_mutex_);
  // Claims the reserved place at the node, after a look at others' claims there. What they show goes into the
  // cache, and the place is chosen anew.
  Result<void> Claim(const scheduler::BindingArgs& args, const scheduler::PodAsk& ask,
                     scheduler::AllocationCache::Reservation& place, uint64_t& ticket)
      SPILLWAY_EXCLUDES(cache_mutex_);
  // Takes it back, if it can.
  void Unclaim(const scheduler::BindingArgs& args) SPILLWAY_EXCLUDES(cache_mutex_);

  const ExtenderConfig config_;
  const std::string id_;  // of this one, by which it knows its claims
  const std::unique_ptr<KubeClient> kube_;
  int port_ = 0;

  mutable base::Mutex cache_mutex_;
  scheduler::AllocationCache cache_ SPILLWAY_GUARDED_BY(cache_mutex_);
  // By uid: what pods asked for that may be bound next.
  std::map<std::string, scheduler::PodAsk> asks_ SPILLWAY_GUARDED_BY(cache_mutex_);
  std::deque<std::string> asks_order_ SPILLWAY_GUARDED_BY(cache_mutex_);
  std::map<std::string, Verb> verbs_ SPILLWAY_GUARDED_BY(cache_mutex_);
  // By "busy" and "unfit".
  std::map<std::string, uint64_t> refused_nodes_ SPILLWAY_GUARDED_BY(cache_mutex_);
  uint64_t given_back_ SPILLWAY_GUARDED_BY(cache_mutex_) = 0;
  uint64_t unreadable_pods_ SPILLWAY_GUARDED_BY(cache_mutex_) = 0;
  bool in_step_ SPILLWAY_GUARDED_BY(cache_mutex_) = false;
  std::string sync_error_ SPILLWAY_GUARDED_BY(cache_mutex_) = "it has not answered yet";
  uint64_t sync_failures_ SPILLWAY_GUARDED_BY(cache_mutex_) = 0;
  std::chrono::steady_clock::time_point synced_ SPILLWAY_GUARDED_BY(cache_mutex_){};
  std::chrono::steady_clock::duration sync_took_ SPILLWAY_GUARDED_BY(cache_mutex_){};
  // Of the pods that are known: where a watch goes on.
  std::string pods_version_ SPILLWAY_GUARDED_BY(cache_mutex_);
  uint64_t watched_events_ SPILLWAY_GUARDED_BY(cache_mutex_) = 0;

  base::Mutex sync_mutex_;  // who syncs

  base::Mutex mutex_;
  base::Condition stop_;
  Lane answers_, binds_;  // a bind waits for the API server: nothing else stands behind one
  bool stopping_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::stop_source learning_;

  std::vector<std::thread> threads_;
  std::unique_ptr<api::HttpServer> http_;  // last: it goes first
};

}  // namespace spillway::kubernetes
