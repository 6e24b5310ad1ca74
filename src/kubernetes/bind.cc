// SPDX-License-Identifier: Apache-2.0
// The verb bind: a pod gets the place that was reserved for it, by a claim at the node and a Binding.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "kubernetes/extender.h"
#include "kubernetes/replies.h"
#include "scheduler/extender/kube_json.h"
#include "scheduler/extender/wire.h"

namespace spillway::kubernetes {
namespace {

using api::Response;
using nlohmann::json;
using scheduler::AllocationCache;

// Pods of a node's claims that a bind asks for. An extender that works leaves few that others do not know;
// more are the node's own making, and the binds to other nodes must not wait for them.
constexpr size_t kMaxClaimsAsked = 64;
constexpr int kClaimAttempts = 8;  // others may write the node's claims in between

std::string NodeTarget(const std::string& node) { return "/api/v1/nodes/" + api::Client::Encode(node); }

std::string PodTarget(const std::string& space, const std::string& pod) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", api::Client::Encode(space), api::Client::Encode(pod));
}

int64_t SecondsNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// 200 alone may be the page of a proxy between us.
bool SaysBound(const api::Reply& reply) {
  if (reply.status == 201) return true;
  if (reply.status < 200 || reply.status > 299) return false;
  const auto status = scheduler::ParseKubeJson(reply.body);
  return status && scheduler::TextAt(*status, "kind") == "Status" &&
         scheduler::TextAt(*status, "status") == "Success";
}

}  // namespace

// Who it is comes before what it asks for: of a pod that has taken another's name nothing else matters, and
// nobody need understand it.
Result<std::optional<json>> Extender::FetchPod(const std::string& space, const std::string& name,
                                               const std::string& uid) {
  const auto reply = kube_->Get(PodTarget(space, name));
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->status == 404) return std::optional<json>();
  if (reply->status != 200) return Fail(ErrorCode::kUnavailable, KubeClient::Explain(*reply));
  auto pod = scheduler::ParseKubeJson(reply->body);
  if (!pod) return tl::make_unexpected(pod.error());
  const json* meta = scheduler::Find(*pod, "metadata");
  if (meta == nullptr) return Fail(ErrorCode::kUnavailable, "expected a pod, got something else");
  if (scheduler::TextAt(*meta, "uid") != uid) return std::optional<json>();
  return std::optional(std::move(*pod));
}

Result<scheduler::PodAsk> Extender::AskOf(const scheduler::BindingArgs& args) {
  {
    const base::MutexLock lock(cache_mutex_);
    if (const auto known = asks_.find(args.uid); known != asks_.end()) return known->second;
  }
  const auto pod = FetchPod(args.space, args.pod, args.uid);
  if (!pod) return tl::make_unexpected(pod.error());
  if (!*pod)
    return Fail(ErrorCode::kConflict,
                fmt::format("{}/{} is gone, or replaced by another pod", args.space, args.pod));
  return scheduler::ReadPodAsk(**pod);
}

// What became of a binding whose answer says it did not, or that had none; `refused`: the answer was a word
// of the API server that it will not be done later either.
Extender::Fate Extender::FateOf(const scheduler::BindingArgs& args, const AllocationCache::Place& place,
                                bool refused, std::optional<scheduler::BoundPod>& elsewhere) {
  const auto pod = FetchPod(args.space, args.pod, args.uid);
  if (!pod) return Fate::kUnknown;
  if (!*pod) return Fate::kNotBound;
  const auto bound = scheduler::ReadBoundPod(**pod);
  if (!bound) return Fate::kUnknown;
  // On no node yet: a request that was not answered may still be on its way.
  if (bound->node.empty()) return refused ? Fate::kNotBound : Fate::kUnknown;
  if (bound->node == args.node && bound->gpu == place.gpu && bound->slice == place.slice) return Fate::kBound;
  elsewhere = *bound;
  return Fate::kNotBound;
}

Result<std::optional<scheduler::BoundPod>> Extender::PodOf(const std::string& uid,
                                                           const scheduler::Claim& claim) {
  const auto pod = FetchPod(claim.space, claim.pod, uid);
  if (!pod) return tl::make_unexpected(pod.error());
  if (!*pod) return std::optional<scheduler::BoundPod>();
  auto bound = scheduler::ReadBoundPod(**pod);
  if (!bound) return tl::make_unexpected(bound.error());
  if (bound->finished) return std::optional<scheduler::BoundPod>();
  return std::optional(std::move(*bound));
}

Result<void> Extender::Claim(const scheduler::BindingArgs& args, const scheduler::PodAsk& ask,
                             AllocationCache::Reservation& place, uint64_t& ticket) {
  size_t asked = 0;
  for (int attempt = 0; attempt < kClaimAttempts; ++attempt) {
    const auto reply = kube_->Get(NodeTarget(args.node));
    if (!reply) return tl::make_unexpected(reply.error());
    if (reply->status != 200) return Fail(ErrorCode::kUnavailable, KubeClient::Explain(*reply));
    const auto node = scheduler::ParseKubeJson(reply->body);
    if (!node) return tl::make_unexpected(node.error());
    scheduler::Claims claims = scheduler::ReadClaims(*node);
    std::vector<scheduler::BoundPod> others;
    for (auto at = claims.begin(); at != claims.end();) {
      bool known = at->first == args.uid;
      if (!known) {
        const base::MutexLock lock(cache_mutex_);
        known = cache_.Knows(at->first, args.node);
      }
      if (known) {
        ++at;
        continue;
      }
      // What our own cache has dropped is nobody's.
      if (at->second.by == id_) {
        at = claims.erase(at);
        continue;
      }
      if (asked++ == kMaxClaimsAsked)
        return Fail(ErrorCode::kConflict,
                    fmt::format("{}: over {} claims of pods that are not known", args.node, kMaxClaimsAsked));
      auto pod = PodOf(at->first, at->second);
      if (!pod) return tl::make_unexpected(pod.error());
      // Gone, elsewhere, or never bound: the claim goes with the next write.
      if (!*pod || ((*pod)->node.empty() ? IsOver(at->second, SecondsNow()) : (*pod)->node != args.node)) {
        at = claims.erase(at);
        continue;
      }
      (*pod)->gpu = at->second.gpu;
      (*pod)->slice = at->second.slice;
      others.push_back(std::move(**pod));
      ++at;
    }
    if (!others.empty()) {
      const base::MutexLock lock(cache_mutex_);
      cache_.GiveBack(args.uid, ticket);
      for (scheduler::BoundPod& other : others) {
        const bool is_bound = !std::exchange(other.node, args.node).empty();
        is_bound ? cache_.Adopt(other) : cache_.Suppose(other);
      }
      auto again = cache_.Reserve(ask, args.node);
      if (!again) return tl::make_unexpected(again.error());
      place = std::move(*again);
      ticket = place.ticket;
    }
    claims[args.uid] = {args.space, args.pod, place.gpu, place.slice, SecondsNow(), id_};
    const auto written = kube_->Patch(NodeTarget(args.node), scheduler::ClaimsPatch(*node, claims));
    if (!written) return tl::make_unexpected(written.error());
    if (written->status == 200) return {};
    if (written->status != 409)
      return Fail(ErrorCode::kUnavailable, "the claim at the node: " + KubeClient::Explain(*written));
  }
  return Fail(ErrorCode::kConflict, fmt::format("{}: gave up after repeated conflicting updates", args.node));
}

void Extender::Unclaim(const scheduler::BindingArgs& args) {
  const auto reply = kube_->Get(NodeTarget(args.node));
  if (!reply || reply->status != 200) return;
  const auto node = scheduler::ParseKubeJson(reply->body);
  scheduler::Claims claims = node ? scheduler::ReadClaims(*node) : scheduler::Claims();
  // Where it fails, the claim ends by itself.
  if (claims.erase(args.uid) > 0)
    (void)kube_->Patch(NodeTarget(args.node), scheduler::ClaimsPatch(*node, claims));
}

Response Extender::Bind(const std::string& body, bool& failed) {
  const auto args = scheduler::ParseBindingArgs(body);
  if (!args) return Failed(failed, args.error().message);
  if (config_.api_server.empty())
    return Failed(failed,
                  "extender.api_server is not set, so pods cannot be bound; remove bindVerb from the "
                  "scheduler's configuration");
  const auto undone = [&](const std::string& why) {
    const std::string message = fmt::format("bind {}/{} to {}: {}", args->space, args->pod, args->node, why);
    spdlog::warn("extender: {}", message);
    return Failed(failed, message);
  };
  const auto ask = AskOf(*args);
  if (!ask) return undone(ask.error().message);
  if (ask->giver != scheduler::Giver::kNobody)
    if (const auto ready = InStep(); !ready) return undone(ready.error().message);
  // However this ends, the reservation does not stay as one that is under way.
  struct Doubtful {
    ~Doubtful() {
      const base::MutexLock lock(self.cache_mutex_);
      self.cache_.Doubt(uid, ticket);  // nothing, where it was decided below
    }
    Extender& self;
    const std::string& uid;
    uint64_t ticket = 0;
  } otherwise{*this, args->uid};
  Result<AllocationCache::Reservation> place = AllocationCache::Reservation{};
  {
    const base::MutexLock lock(cache_mutex_);
    place = cache_.Reserve(*ask, args->node);
    if (place) otherwise.ticket = place->ticket;
  }
  if (!place) return undone(place.error().message);
  // The device plugin chooses itself, and keeps its own records.
  const bool claims = ask->giver == scheduler::Giver::kSpillway && place->ticket != 0;
  if (claims)
    if (const auto claimed = Claim(*args, *ask, *place, otherwise.ticket); !claimed) {
      const base::MutexLock lock(cache_mutex_);
      if (cache_.GiveBack(args->uid, otherwise.ticket)) ++given_back_;
      return undone(claimed.error().message);
    }
  std::vector<std::pair<std::string, std::string>> notes;
  if (!place->gpu.empty()) notes.emplace_back(scheduler::kGpuAnnotation, place->gpu);
  if (!place->slice.empty()) notes.emplace_back(scheduler::kSliceAnnotation, place->slice);

  std::string why;
  Fate fate = Fate::kBound;
  std::optional<scheduler::BoundPod> elsewhere;
  const auto reply =
      kube_->Post(PodTarget(args->space, args->pod) + "/binding", scheduler::BindingBody(*args, notes));
  if (!reply || !SaysBound(*reply)) {
    why = !reply                ? reply.error().message
          : reply->status < 400 ? "expected 201 or a Status of success, got " + KubeClient::Explain(*reply)
                                : KubeClient::Explain(*reply);
    // 409: somebody bound it, perhaps we, in an attempt whose answer was lost. No answer, trouble inside the
    // API server, or words that are not an API server's: it may have done it all the same, or yet do it. Any
    // other answer is a refusal.
    const bool conflict = reply && reply->status == 409;
    const bool ask_again = !reply || conflict || reply->status < 400 || reply->status >= 500;
    fate = ask_again ? FateOf(*args, *place, conflict, elsewhere) : Fate::kNotBound;
  }
  if (claims && fate == Fate::kNotBound) Unclaim(*args);
  const base::MutexLock lock(cache_mutex_);
  if (fate == Fate::kBound) {
    cache_.Confirm(args->uid, place->ticket);
    return Json(scheduler::ErrorReply(""));
  }
  if (fate == Fate::kNotBound) {
    if (cache_.GiveBack(args->uid, place->ticket)) ++given_back_;
    if (elsewhere) cache_.Adopt(*elsewhere);
  }
  return undone(why);
}

}  // namespace spillway::kubernetes
