// SPDX-License-Identifier: Apache-2.0
// The scheduler's cluster as the allocation cache fills it: made anew from nodes and bookings, and one
// booking put in or taken out.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "scheduler/extender/allocation_cache.h"

namespace spillway::scheduler {
namespace {

// "0,3" as bits; nullopt: no such list.
std::optional<uint32_t> GpuBits(const std::string& text) {
  uint32_t bits = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int gpu = -1;
    const auto [rest, error] = std::from_chars(at, end, gpu);
    if (error != std::errc() || gpu < 0 || gpu >= kMaxGpus || (rest != end && *rest != ','))
      return std::nullopt;
    bits |= 1u << gpu;
    at = rest == end ? end : rest + 1;
  }
  return bits == 0 ? std::nullopt : std::optional(bits);
}

}  // namespace

// The cluster afresh from nodes_ and bookings_: those whose place is known first.
void AllocationCache::Rebuild() {
  std::vector<GpuModel> models = file_models_;
  std::vector<Node> nodes;
  node_at_.clear();
  surplus_.clear();
  for (const auto& [name, node] : nodes_) {
    if (node.gpus == 0) continue;
    auto model = std::find_if(models.begin(), models.end(),
                              [&, &wanted = node.model](const GpuModel& one) { return one.name == wanted; });
    if (model == models.end()) {
      if (models.size() == kMaxModels) {
        surplus_[name] =
            fmt::format("Spillway keeps at most {} models of GPU, and its GPUs are of another", kMaxModels);
        continue;
      }
      models.push_back(ModelByName(node.model));
      model = models.end() - 1;
    }
    Node one;
    one.name = name;
    one.gpus = node.gpus;
    one.model = static_cast<int>(model - models.begin());
    // The scheduler of Kubernetes sees to CPU and memory; CPU is here for what it does to fragmentation.
    const auto other = other_cpu_.find(name);
    const int64_t taken = other == other_cpu_.end() ? 0 : other->second;
    one.cpu_milli = static_cast<int>(std::max<int64_t>(0, node.cpu_milli - taken));
    node_at_[name] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(one));
  }
  givers_.assign(nodes.size(), {});
  unknown_.assign(nodes.size(), 0);
  // Prices hold for these nodes and models; a list that comes back the same every few seconds changes
  // nothing.
  const auto alike = [](const Node& a, const Node& b) {
    return a.name == b.name && a.gpus == b.gpus && a.model == b.model;
  };
  if (cluster_ == nullptr ||
      !std::equal(nodes.begin(), nodes.end(), cluster_->nodes().begin(), cluster_->nodes().end(), alike)) {
    ++layout_;
    learn_at_ = 0;
  }
  cluster_ = std::make_unique<Cluster>(std::move(nodes), std::move(models), rules_);
  next_id_ = 0;
  free_ids_.clear();
  for (auto& [uid, booking] : bookings_) {
    booking.id.reset();
    Count(booking.node, booking.ask.giver, 1);
  }
  for (const UnreadablePod& pod : unreadable_)
    for (const Giver giver : pod.givers) {
      Count(pod.node, giver, 1);
      CountUnknown(pod.node, giver, 1);
    }
  for (const bool exact : {true, false})
    for (auto& [uid, booking] : bookings_)
      if (!booking.id && booking.want.gpu.empty() != exact) Put(booking);
  for (const auto& [uid, booking] : bookings_)
    if (!booking.id) CountUnknown(booking.node, booking.ask.giver, 1);
}

std::optional<Spot> AllocationCache::ExactSpot(const Job& job, int n, const Place& want) const {
  const auto bits = GpuBits(want.gpu);
  const Node& node = cluster_->nodes()[static_cast<size_t>(n)];
  if (!bits || *bits >> node.gpus != 0) return std::nullopt;
  Spot spot{n, 0, -1};
  if (!job.Fractional()) {
    spot.whole = *bits;
    return cluster_->FitsSpot(job, spot) ? std::optional(spot) : std::nullopt;
  }
  if ((*bits & (*bits - 1)) != 0) return std::nullopt;
  while ((*bits >> spot.gpu & 1) == 0) ++spot.gpu;
  if (const size_t at = want.slice.find('@');
      at != std::string::npos && rules_.isolation == Isolation::kFraction) {
    const ProfileShape& shape = ShapeOf(SliceOf(job, rules_.slice_rule));
    for (const int start : shape.starts)
      if (want.slice == fmt::format("{}@{}", shape.name, start)) spot.start = start;
    if (spot.start < 0) return std::nullopt;
  }
  return cluster_->FitsSpot(job, spot) ? std::optional(spot) : std::nullopt;
}

// Into the cluster at the place it wants; where none is known, anywhere on its node. False: it is not free,
// or not there. What it holds then counts as idle, but for the givers.
bool AllocationCache::Put(Booking& booking) {
  const auto n = NodeAt(booking.node);
  if (!n) return false;
  TenantNumber(booking.state == State::kFixed ? booking.tenant : TenantOf(booking.ask));
  FilterVerdict verdict;
  std::optional<Job> job;
  if (booking.state == State::kFixed) {
    job = booking.job;
    job->cpu_milli = std::min(job->cpu_milli, cluster_->nodes()[static_cast<size_t>(*n)].free_cpu);
    job->memory_mib = 0;
  } else {
    // It is there, whatever models its annotation names by now.
    PodAsk there = booking.ask;
    there.models.clear();
    job = JobOn(there, cluster_->nodes()[static_cast<size_t>(*n)], verdict);
  }
  if (!job) return false;
  std::optional<Spot> spot;
  if (!booking.want.gpu.empty()) {
    spot = ExactSpot(*job, *n, booking.want);
  } else if (!job->Fractional()) {
    if (cluster_->FitsNode(*job, *n)) spot = Spot{*n, 0, -1};
  } else {
    for (int gpu = 0; gpu < cluster_->nodes()[static_cast<size_t>(*n)].gpus && !spot; ++gpu)
      if (cluster_->FitsSpot(*job, {*n, gpu, -1})) spot = Spot{*n, gpu, -1};
  }
  if (!spot) return false;
  booking.id = free_ids_.empty() ? next_id_++ : free_ids_.back();
  if (!free_ids_.empty()) free_ids_.pop_back();
  cluster_->Place(*booking.id, *job, *spot);
  return true;
}

void AllocationCache::Count(const std::string& node, Giver giver, int by) {
  if (const auto n = NodeAt(node)) givers_[static_cast<size_t>(*n)][static_cast<size_t>(giver)] += by;
}

// A job of which it is not known which GPU it has.
void AllocationCache::CountUnknown(const std::string& node, Giver giver, int by) {
  if (giver != Giver::kSpillway) return;
  if (const auto n = NodeAt(node)) unknown_[static_cast<size_t>(*n)] += by;
}

void AllocationCache::Take(Booking& booking) {
  Count(booking.node, booking.ask.giver, -1);
  if (!booking.id) return CountUnknown(booking.node, booking.ask.giver, -1);
  cluster_->Remove(*booking.id);
  free_ids_.push_back(*booking.id);
  booking.id.reset();
}

}  // namespace spillway::scheduler
