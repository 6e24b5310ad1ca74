// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extender/allocation_cache.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::scheduler {
namespace {

std::string WholeText(uint32_t gpus) {
  std::string text;
  for (int gpu = 0; gpu < kMaxGpus; ++gpu)
    if ((gpus >> gpu & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ",", gpu);
  return text;
}

constexpr size_t kMaxGone = 10'000;  // pods that are remembered to have gone

}  // namespace

const char* ToString(AllocationCache::State state) {
  switch (state) {
    case AllocationCache::State::kFixed:
      return "fixed";
    case AllocationCache::State::kReserved:
      return "reserved";
    case AllocationCache::State::kConfirmed:
      return "confirmed";
    case AllocationCache::State::kDoubtful:
      break;
  }
  return "doubtful";
}

AllocationCache::AllocationCache(const ClusterFile& file)
    : rules_(file.cluster.rules()), file_models_(file.cluster.models()), tenants_(file.tenants) {
  for (const Node& node : file.cluster.nodes()) {
    file_nodes_.push_back(
        {node.name, file_models_[static_cast<size_t>(node.model)].name, node.gpus, node.cpu_milli, ""});
    nodes_[node.name] = file_nodes_.back();
  }
  std::map<int, std::string> tenant_names;
  for (const auto& [name, number] : file.tenants) tenant_names[number] = name;
  for (JobId id = 0; id < file.jobs.size(); ++id) {
    Booking booking;
    booking.job = file.jobs[id];
    booking.pod = file.job_names[id].empty() ? fmt::format("cluster file, job {}", id + 1)
                                             : fmt::format("cluster file, {}", file.job_names[id]);
    const Spot& spot = file.cluster.SpotOf(id);
    const Node& node = file.cluster.nodes()[static_cast<size_t>(spot.node)];
    booking.node = node.name;
    booking.tenant = tenant_names[booking.job.tenant];
    booking.ask.giver = booking.job.gpus > 0 ? Giver::kSpillway : Giver::kNobody;
    booking.ask.job = booking.job;
    booking.want.gpu =
        booking.job.Fractional() ? std::to_string(spot.gpu) : WholeText(file.cluster.WholeGpusOf(id));
    if (spot.start >= 0)
      booking.want.slice =
          fmt::format("{}@{}", ShapeOf(SliceOf(booking.job, rules_.slice_rule)).name, spot.start);
    bookings_[fmt::format("file:{}", id + 1)] = std::move(booking);
  }
  Rebuild();
}

void AllocationCache::Sync(const std::vector<KubeNode>& nodes, const std::vector<BoundPod>& pods,
                           uint64_t started, const std::vector<UnreadablePod>& unreadable,
                           std::map<std::string, int64_t> other_cpu) {
  nodes_.clear();
  for (const KubeNode& node : nodes)
    if (nodes_.size() < kMaxNodes) nodes_[node.name] = node;
  unreadable_ = unreadable;
  for (const KubeNode& node : file_nodes_) {
    const auto at = nodes_.find(node.name);
    const int cpu =
        at != nodes_.end() && node.cpu_milli == kUnlimited ? at->second.cpu_milli : node.cpu_milli;
    nodes_[node.name] = node;
    nodes_[node.name].cpu_milli = cpu;
  }
  other_cpu_ = std::move(other_cpu);
  std::map<std::string, Booking> listed;
  for (const BoundPod& pod : pods) {
    if (pod.finished || pod.node.empty() || gone_.contains(pod.ask.uid)) continue;
    if (pod.ask.giver == Giver::kNobody) {
      other_cpu_[pod.node] += pod.ask.job.cpu_milli;
      continue;
    }
    Booking booking = BookingOf(pod);
    // What we gave it, or knew before, is what it has, whatever somebody has made of the annotation since.
    if (const auto own = bookings_.find(pod.ask.uid);
        own != bookings_.end() && own->second.node == pod.node && !own->second.is_supposed)
      if (Place had = PlaceOf(own->second); !had.gpu.empty()) booking.want = std::move(had);
    listed[pod.ask.uid] = std::move(booking);
  }
  for (auto& [uid, booking] : bookings_) {
    const bool keep =
        booking.state == State::kFixed || booking.state == State::kReserved || booking.since > started;
    if (!keep || listed.contains(uid)) continue;
    if (booking.id) booking.want = PlaceOf(booking);
    listed[uid] = std::move(booking);
  }
  for (const auto& [uid, booking] : listed) {
    waiting_.erase(uid);
    if (!bookings_.contains(uid)) Changed();
  }
  bookings_ = std::move(listed);
  Rebuild();
}

AllocationCache::Booking AllocationCache::BookingOf(const BoundPod& pod) const {
  Booking booking;
  booking.pod = pod.ask.space + "/" + pod.ask.name;
  booking.node = pod.node;
  booking.ask = pod.ask;
  booking.job = pod.ask.job;
  booking.want = {pod.gpu, pod.slice};
  booking.state = State::kConfirmed;
  return booking;
}

void AllocationCache::Learn(const std::vector<KubeNode>& nodes) {
  bool news = false;
  for (const KubeNode& node : nodes) {
    const auto at = nodes_.find(node.name);
    if (at == nodes_.end() ? nodes_.size() >= kMaxNodes : at->second == node) continue;
    if (std::any_of(file_nodes_.begin(), file_nodes_.end(),
                    [&](const auto& own) { return own.name == node.name; }))
      continue;
    nodes_[node.name] = node;
    news = true;
  }
  if (!news) return;
  for (auto& [uid, booking] : bookings_)
    if (booking.id) booking.want = PlaceOf(booking);
  Rebuild();
}

std::optional<int> AllocationCache::NodeAt(const std::string& name) const {
  const auto at = node_at_.find(name);
  return at == node_at_.end() ? std::nullopt : std::optional(at->second);
}

int AllocationCache::TenantNumber(const std::string& name) {
  return tenants_.emplace(name, static_cast<int>(tenants_.size())).first->second;
}

const std::string& AllocationCache::TenantOf(const PodAsk& ask) const {
  const auto named = tenant_of_space_.find(ask.space);
  return named == tenant_of_space_.end() ? ask.space : named->second;
}

AllocationCache::Place AllocationCache::PlaceOf(const Booking& booking) const {
  if (!booking.id) return booking.want;
  const Job& job = cluster_->JobOf(*booking.id);
  const Spot& spot = cluster_->SpotOf(*booking.id);
  Place place;
  place.gpu = job.Fractional() ? std::to_string(spot.gpu) : WholeText(cluster_->WholeGpusOf(*booking.id));
  if (spot.start >= 0)
    place.slice = fmt::format("{}@{}", ShapeOf(SliceOf(job, rules_.slice_rule)).name, spot.start);
  else if (job.profile)
    place.slice = fmt::format("{}@0", ShapeOf(*job.profile).name);
  return place;
}

Result<AllocationCache::Reservation> AllocationCache::Reserve(const PodAsk& ask, const std::string& name) {
  if (ask.giver == Giver::kNobody) return Reservation{};
  if (const auto at = bookings_.find(ask.uid); at != bookings_.end()) {
    Booking& own = at->second;
    // How the other call ends is not known yet: whatever this one did would undo the other's.
    if (own.state == State::kReserved)
      return Fail(ErrorCode::kConflict, fmt::format("{} is being bound to {}", own.pod, own.node));
    if (own.state != State::kDoubtful) {
      if (own.node == name && own.id) return Reservation{PlaceOf(own)};
      return Fail(ErrorCode::kConflict, fmt::format("{} is on {} already", own.pod, own.node));
    }
    // Elsewhere it is refused below: an earlier bind may yet be done, and what it was to have would be
    // another's by then.
    if (own.node == name) {
      if (!own.id) return Fail(ErrorCode::kConflict, fmt::format("{}: its GPU there is gone", own.pod));
      own.state = State::kReserved;
      own.since = ++mark_;
      return Reservation{PlaceOf(own), own.since};
    }
  }
  TenantNumber(TenantOf(ask));
  if (const FilterVerdict verdict = Judge(ask, name); !verdict.why.empty())
    return Fail(ErrorCode::kConflict, fmt::format("{}: {}", name, verdict.why));
  const int n = *NodeAt(name);
  FilterVerdict unused;
  const Job job = *JobOn(ask, cluster_->nodes()[static_cast<size_t>(n)], unused);
  std::optional<JobMix> mix;
  if (!LooksAhead()) mix.emplace(MixWith(ask));
  const auto rating =
      Placer(*cluster_, mix ? *mix : look_ahead_->mix(), {}, mix ? nullptr : &look_ahead_->fill())
          .RateOn(job, n);
  if (!rating) return Fail(ErrorCode::kConflict, fmt::format("{}: it does not fit", name));
  Booking booking;
  booking.pod = ask.space + "/" + ask.name;
  booking.node = name;
  booking.ask = ask;
  booking.job = ask.job;
  booking.state = State::kReserved;
  booking.since = ++mark_;
  booking.id = free_ids_.empty() ? next_id_++ : free_ids_.back();
  if (!free_ids_.empty()) free_ids_.pop_back();
  cluster_->Place(*booking.id, job, rating->spot);
  waiting_.erase(ask.uid);
  Changed();
  Count(name, ask.giver, 1);
  booking.want = PlaceOf(booking);
  const Booking& kept = bookings_[ask.uid] = std::move(booking);
  return Reservation{kept.want, kept.since};
}

AllocationCache::Booking* AllocationCache::Held(const std::string& uid, uint64_t ticket) {
  const auto at = bookings_.find(uid);
  const bool held =
      at != bookings_.end() && at->second.state == State::kReserved && at->second.since == ticket;
  return held ? &at->second : nullptr;
}

void AllocationCache::Confirm(const std::string& uid, uint64_t ticket) {
  Booking* const booking = Held(uid, ticket);
  if (booking == nullptr) return;
  booking->state = State::kConfirmed;
  booking->since = ++mark_;
}

void AllocationCache::Doubt(const std::string& uid, uint64_t ticket) {
  Booking* const booking = Held(uid, ticket);
  if (booking == nullptr) return;
  booking->state = State::kDoubtful;
  booking->since = ++mark_;
}

bool AllocationCache::GiveBack(const std::string& uid, uint64_t ticket) {
  Booking* const booking = Held(uid, ticket);
  if (booking == nullptr) return false;
  Take(*booking);
  bookings_.erase(uid);
  return true;
}

void AllocationCache::Adopt(const BoundPod& pod) { AddOnce(pod, State::kConfirmed); }
void AllocationCache::Suppose(const BoundPod& pod) { AddOnce(pod, State::kDoubtful); }

void AllocationCache::AddOnce(const BoundPod& pod, State state) {
  if (pod.finished || pod.node.empty() || pod.ask.giver == Giver::kNobody) return;
  const auto [at, fresh] = bookings_.try_emplace(pod.ask.uid);
  if (!fresh) {
    // A bound pod is where it is bound, whatever was supposed of it or in doubt.
    const Booking& own = at->second;
    if (state != State::kConfirmed || own.state != State::kDoubtful ||
        (own.node == pod.node && (!own.is_supposed || pod.gpu.empty())))
      return;
    Take(at->second);
  }
  at->second = BookingOf(pod);
  at->second.is_supposed = state == State::kDoubtful;
  at->second.state = state;
  at->second.since = ++mark_;
  waiting_.erase(pod.ask.uid);
  Changed();
  Count(pod.node, pod.ask.giver, 1);
  if (!Put(at->second)) CountUnknown(pod.node, pod.ask.giver, 1);
}

void AllocationCache::See(const BoundPod& pod) {
  if (pod.ask.giver == Giver::kNobody) return;
  if (pod.finished) return Forget(pod.ask.uid);
  if (pod.node.empty() || gone_.contains(pod.ask.uid)) return;
  const auto at = bookings_.find(pod.ask.uid);
  if (at == bookings_.end()) return Adopt(pod);
  Booking& own = at->second;
  // A bind that is under way decides itself.
  if (own.state != State::kDoubtful) return;
  if (own.node != pod.node || own.is_supposed) return Adopt(pod);
  own.state = State::kConfirmed;
  own.since = ++mark_;
}

void AllocationCache::Forget(const std::string& uid) {
  if (uid.empty()) return;
  waiting_.erase(uid);
  if (gone_.insert(uid).second) gone_order_.push_back(uid);
  while (gone_order_.size() > kMaxGone) {
    gone_.erase(gone_order_.front());
    gone_order_.pop_front();
  }
  const auto at = bookings_.find(uid);
  if (at == bookings_.end() || at->second.state == State::kReserved || at->second.state == State::kFixed)
    return;
  Take(at->second);
  bookings_.erase(at);
  Changed();
}

bool AllocationCache::Knows(const std::string& uid, const std::string& node) const {
  const auto at = bookings_.find(uid);
  return at != bookings_.end() && at->second.node == node;
}

bool AllocationCache::InDoubt(const std::string& uid) const {
  const auto at = bookings_.find(uid);
  return at != bookings_.end() && at->second.state == State::kDoubtful;
}

std::vector<AllocationCache::View> AllocationCache::Bookings() const {
  std::vector<View> views;
  for (const auto& [uid, booking] : bookings_)
    views.push_back({uid, booking.pod, booking.node, PlaceOf(booking),
                     booking.id ? cluster_->JobOf(*booking.id).TotalMilli() : booking.job.TotalMilli(),
                     booking.state, booking.id.has_value()});
  return views;
}

}  // namespace spillway::scheduler
