// SPDX-License-Identifier: Apache-2.0
// What is expected to come: the part of AllocationCache that knows which pods wait, and what scores were
// learnt from.
#include <algorithm>

#include "scheduler/extender/allocation_cache.h"

namespace spillway::scheduler {

std::vector<Job> AllocationCache::Running() const {
  std::vector<Job> usual;
  usual.reserve(bookings_.size() + 1);
  for (const auto& [uid, booking] : bookings_) {
    usual.push_back(booking.id ? cluster_->JobOf(*booking.id) : booking.job);
    usual.back().cpu_milli = booking.job.cpu_milli;
  }
  for (Job& job : usual) job.models &= (ModelSet{1} << cluster_->models().size()) - 1;
  return usual;
}

// What usually comes: what runs, and this one.
JobMix AllocationCache::MixWith(const PodAsk& ask) const {
  std::vector<Job> usual = Running();
  usual.push_back(ask.job);
  return {usual, static_cast<int>(cluster_->models().size())};
}

std::optional<AllocationCache::Demand> AllocationCache::DemandIfOld() const {
  if (rules_.isolation != Isolation::kNone || cluster_->nodes().empty() || changes_ < learn_at_)
    return std::nullopt;
  Demand demand;
  demand.running = Running();
  for (const auto& [uid, one] : waiting_) demand.waiting.push_back(one.job);
  demand.nodes = cluster_->nodes();
  demand.models = cluster_->models().size();
  demand.layout = layout_;
  return demand;
}

void AllocationCache::Use(std::shared_ptr<const LookAhead> look_ahead, const Demand& demand) {
  if (demand.layout != layout_) return;
  look_ahead_ = std::move(look_ahead);
  look_ahead_layout_ = layout_;
  learn_at_ = changes_ + LookAhead::GoodFor(demand.running.size());
  ++learnt_;
}

void AllocationCache::Waits(const PodAsk& ask) {
  if (ask.giver == Giver::kNobody || ask.uid.empty()) return;
  Job job = ask.job;
  for (size_t i = 0; i < cluster_->models().size(); ++i)
    if (std::find(ask.models.begin(), ask.models.end(), cluster_->models()[i].name) != ask.models.end())
      job.models |= ModelSet{1} << i;
  const auto [at, fresh] = waiting_.try_emplace(ask.uid, Waiting{job, ask.space, 0});
  at->second.since = ++mark_;
  if (!fresh) return;
  Changed();
  std::map<std::string, size_t> of_space;
  for (const auto& [uid, one] : waiting_) ++of_space[one.space];
  const auto most = std::ranges::max_element(of_space, {}, [](const auto& space) { return space.second; });
  if (waiting_.size() <= kMaxWaiting && most->second <= kMaxWaitingOfSpace) return;
  auto oldest = waiting_.end();
  for (auto one = waiting_.begin(); one != waiting_.end(); ++one)
    if (one->second.space == most->first &&
        (oldest == waiting_.end() || one->second.since < oldest->second.since))
      oldest = one;
  waiting_.erase(oldest);
}

void AllocationCache::KeepWaiting(const std::set<std::string>& pending, uint64_t started) {
  const size_t gone = std::erase_if(
      waiting_, [&](const auto& one) { return one.second.since <= started && !pending.contains(one.first); });
  for (size_t i = 0; i < gone; ++i) Changed();
}

}  // namespace spillway::scheduler
