// SPDX-License-Identifier: Apache-2.0
// In step with the API server: whole lists (nodes, namespaces and whose tenant each is, pods), then a watch
// of pods until the next.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <set>

#include "kubernetes/extender.h"
#include "scheduler/extender/kube_json.h"

namespace spillway::kubernetes {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kRetry{1};
constexpr std::chrono::seconds kLearnPauseAfterError{60};
constexpr std::chrono::seconds kLearnPause{1};  // between two looks whether there is something to learn
constexpr size_t kMaxLooksAtClaims = 256;       // of a look at everything

}  // namespace

Result<void> Extender::Sync() {
  const auto began = steady_clock::now();
  const auto done = SyncOnce();
  const base::MutexLock cache(cache_mutex_);
  if (done) {
    if (!in_step_)
      spdlog::info("extender: synchronized with {}: {} GPUs, {} bookings", config_.api_server,
                   cache_.cluster().gpus(), cache_.Bookings().size());
    in_step_ = true;
    sync_error_.clear();
    synced_ = steady_clock::now();
    sync_took_ = synced_ - began;
  } else {
    ++sync_failures_;
    if (sync_error_ != done.error().message) spdlog::warn("extender: {}", done.error().message);
    sync_error_ = done.error().message;
  }
  return done;
}

// Of claims that no pod on the node accounts for: pods that went, or that another extender is about to bind.
// These.
std::vector<scheduler::BoundPod> Extender::ClaimedByOthers(
    const std::map<std::string, scheduler::Claims>& claims) {
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  std::vector<scheduler::BoundPod> others;
  size_t looks = 0;
  for (const auto& [node, left] : claims)
    for (const auto& [uid, claim] : left) {
      if (claim.by == id_ || IsOver(claim, now) || looks++ >= kMaxLooksAtClaims) continue;
      auto pod = PodOf(uid, claim);
      if (!pod || !*pod || !(*pod)->node.empty()) continue;
      (*pod)->node = node;
      (*pod)->gpu = claim.gpu;
      (*pod)->slice = claim.slice;
      others.push_back(std::move(**pod));
    }
  return others;
}

Result<void> Extender::SyncOnce() {
  uint64_t started = 0;
  bool some_wait = false;
  {
    const base::MutexLock lock(cache_mutex_);
    started = cache_.mark();
    some_wait = cache_.waiting() > 0;
  }
  // Whoever may make pods in a namespace need not be allowed to say whose it is.
  std::map<std::string, std::string> tenants;
  const auto all_spaces = kube_->List("/api/v1/namespaces", [&](const nlohmann::json& space) {
    const nlohmann::json* meta = scheduler::Find(space, "metadata");
    const nlohmann::json* labels = meta == nullptr ? nullptr : scheduler::Find(*meta, "labels");
    if (labels == nullptr) return;
    if (std::string tenant = scheduler::TextAt(*labels, scheduler::kTenantLabel); !tenant.empty())
      tenants[scheduler::TextAt(*meta, "name")] = std::move(tenant);
  });
  if (!all_spaces) return tl::make_unexpected(all_spaces.error());
  std::vector<scheduler::KubeNode> nodes;
  std::map<std::string, scheduler::Claims> claims;  // by node
  const auto all_nodes = kube_->List("/api/v1/nodes", [&](const nlohmann::json& node) {
    if (nodes.size() >= scheduler::kMaxNodes) return;
    auto read = scheduler::ReadKubeNode(node);
    if (!read) return;
    if (auto some = scheduler::ReadClaims(node); !some.empty()) claims[read->name] = std::move(some);
    nodes.push_back(std::move(*read));
  });
  if (!all_nodes) return tl::make_unexpected(all_nodes.error());
  std::vector<scheduler::BoundPod> pods;
  std::vector<scheduler::UnreadablePod> unreadable;
  // Most pods of a cluster ask for no GPU: of them, the CPU that they take of their node is all that counts.
  std::map<std::string, int64_t> other_cpu;
  const auto all_pods =
      kube_->List("/api/v1/pods?fieldSelector=" +
                      api::Client::Encode("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"),
                  [&](const nlohmann::json& pod) {
                    auto read = scheduler::ReadBoundPod(pod);
                    if (!read)
                      unreadable.push_back(scheduler::ReadUnreadablePod(pod));
                    else if (read->ask.giver != scheduler::Giver::kNobody)
                      pods.push_back(std::move(*read));
                    else if (!read->finished)
                      other_cpu[read->node] += read->ask.job.cpu_milli;
                  });
  if (!all_pods) return tl::make_unexpected(all_pods.error());
  // Of pods that wait for a node a watch of those that are on one does not tell: neither that they went.
  std::optional<std::set<std::string>> pending;
  if (some_wait) {
    pending.emplace();
    const auto all_pending = kube_->List(
        "/api/v1/pods?fieldSelector=" + api::Client::Encode("spec.nodeName=,status.phase=Pending"),
        [&](const nlohmann::json& pod) {
          if (const nlohmann::json* meta = scheduler::Find(pod, "metadata"); meta != nullptr)
            pending->insert(scheduler::TextAt(*meta, "uid"));
        });
    if (!all_pending) return tl::make_unexpected(all_pending.error());
  }
  // What was claimed for a pod is what it has, whatever its annotations say by now.
  for (scheduler::BoundPod& pod : pods) {
    const auto at = claims.find(pod.node);
    if (at == claims.end()) continue;
    if (const auto own = at->second.find(pod.ask.uid); own != at->second.end()) {
      pod.gpu = own->second.gpu;
      pod.slice = own->second.slice;
      at->second.erase(own);
    }
  }
  const std::vector<scheduler::BoundPod> others = ClaimedByOthers(claims);
  const base::MutexLock lock(cache_mutex_);
  cache_.SetTenants(std::move(tenants));
  cache_.Sync(nodes, pods, started, unreadable, std::move(other_cpu));
  if (pending) cache_.KeepWaiting(*pending, started);
  for (const scheduler::BoundPod& other : others) cache_.Suppose(other);
  unreadable_pods_ = unreadable.size();
  pods_version_ = *all_pods;
  return {};
}

// False: the watch has lost its place, and a look at everything is due.
bool Extender::Take(const nlohmann::json& event) {
  const std::string type = scheduler::TextAt(event, "type");
  const nlohmann::json* pod = scheduler::Find(event, "object");
  const nlohmann::json* meta = pod == nullptr ? nullptr : scheduler::Find(*pod, "metadata");
  if (type == "ERROR" || meta == nullptr) return false;
  const auto bound = scheduler::ReadBoundPod(*pod);
  const base::MutexLock lock(cache_mutex_);
  ++watched_events_;
  if (const std::string version = scheduler::TextAt(*meta, "resourceVersion"); !version.empty())
    pods_version_ = version;
  if (type == "BOOKMARK") return true;
  if (type == "DELETED")
    cache_.Forget(scheduler::TextAt(*meta, "uid"));
  else if (bound)
    cache_.See(*bound);
  // What is not understood is for the next look.
  return true;
}

Result<void> Extender::Watch(steady_clock::time_point until) {
  const auto over = [&] { return StopsBefore({}) || steady_clock::now() >= until; };
  bool in_place = true;
  while (in_place && !over()) {
    const auto began = steady_clock::now();
    std::string version;
    {
      const base::MutexLock lock(cache_mutex_);
      version = pods_version_;
    }
    if (version.empty()) return Fail(ErrorCode::kUnavailable, "the list of pods has no resourceVersion");
    const auto left = std::chrono::ceil<std::chrono::seconds>(until - steady_clock::now());
    const auto watched = kube_->Watch(
        fmt::format("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}"
                    "&fieldSelector={}",
                    std::max<int64_t>(left.count(), 1), api::Client::Encode(version),
                    api::Client::Encode("spec.nodeName!=")),
        [&](const nlohmann::json& event) { return in_place = Take(event); }, over);
    if (!watched) return watched;
    // Servers end watches now and then; one that does so at once is not asked again and again.
    if (in_place && StopsBefore(std::min(until, began + kRetry))) return {};
  }
  return {};
}

void Extender::ResyncLoop() {
  std::string watch_error;
  while (true) {
    bool good = false;
    try {
      const base::MutexLock lock(sync_mutex_);
      good = Sync().has_value();
    } catch (const std::exception& e) {
      spdlog::error("extender: {}", e.what());
    }
    const auto pause = std::chrono::milliseconds(config_.resync_ms);
    auto next = steady_clock::now() + (good ? pause : std::min<std::chrono::milliseconds>(pause, kRetry));
    if (good) {
      Result<void> watched;
      try {
        watched = Watch(next);
      } catch (const std::exception& e) {
        watched = Fail(ErrorCode::kSystem, e.what());
      }
      if (watched) {
        next = std::min(next, steady_clock::now() + kRetry);  // it has lost its place, or the time has come
      } else if (watch_error != watched.error().message) {
        watch_error = watched.error().message;
        spdlog::warn("extender: watching pods: {}; polling every {} ms instead", watch_error, pause.count());
      }
    }
    if (StopsBefore(next)) return;
  }
}

// Prices are learnt from a copy, without the cache's mutex: decisions go on by the old ones.
void Extender::KeepLearning() {
  do {
    try {
      std::optional<scheduler::AllocationCache::Demand> demand;
      {
        const base::MutexLock lock(cache_mutex_);
        if (in_step_) demand = cache_.DemandIfOld();
      }
      if (!demand) continue;
      auto look_ahead = std::make_shared<const scheduler::LookAhead>(
          demand->running, demand->waiting, demand->nodes, demand->models, learning_.get_token());
      if (learning_.stop_requested()) return;
      const base::MutexLock lock(cache_mutex_);
      cache_.Use(std::move(look_ahead), *demand);
    } catch (const std::exception& error) {
      // Decisions go on by the prices that there are.
      spdlog::error("extender: learning what jobs are expected: {}", error.what());
      if (StopsBefore(steady_clock::now() + kLearnPauseAfterError)) return;
    }
  } while (!StopsBefore(steady_clock::now() + kLearnPause));
}

bool Extender::StopsBefore(steady_clock::time_point time) {
  const base::MutexLock lock(mutex_);
  return stop_.WaitUntil(mutex_, time, [this]() SPILLWAY_REQUIRES(mutex_) { return stopping_; });
}

}  // namespace spillway::kubernetes
