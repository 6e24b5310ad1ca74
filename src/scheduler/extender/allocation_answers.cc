// SPDX-License-Identifier: Apache-2.0
// Whether a pod may go to a node, and which of several it had better go to: the part of AllocationCache that
// answers.
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/extender/allocation_cache.h"

namespace spillway::scheduler {
namespace {

constexpr size_t kMaxModelsShown = 200;  // bytes, of what a pod asked for

const char* const kOtherGiver[] = {"", "the device plugin, which knows nothing of shares of GPUs,",
                                   "Spillway, of which the device plugin knows nothing,"};

std::string Shown(const std::vector<std::string>& models) {
  std::string text;
  for (size_t i = 0; i < models.size() && text.size() < kMaxModelsShown; ++i)
    text += (i == 0 ? "" : "|") + models[i];
  return text.substr(0, kMaxModelsShown);
}

}  // namespace

// What the pod is on that node, whose CPU and memory are not our business.
std::optional<Job> AllocationCache::JobOn(const PodAsk& ask, const Node& node, FilterVerdict& verdict) const {
  Job job = ask.job;
  const GpuModel& model = cluster_->models()[static_cast<size_t>(node.model)];
  job.memory_mib = 0;
  job.cpu_milli = std::min(job.cpu_milli, node.free_cpu);
  const auto tenant = tenants_.find(TenantOf(ask));
  job.tenant = tenant == tenants_.end() ? static_cast<int>(tenants_.size()) : tenant->second;
  const auto never = [&](std::string why) {
    verdict = {std::move(why), true};
    return std::nullopt;
  };
  if (!ask.models.empty()) {
    if (std::find(ask.models.begin(), ask.models.end(), model.name) == ask.models.end())
      return never(fmt::format("its GPUs are {}, asked for: {}", model.name, Shown(ask.models)));
    for (size_t i = 0; i < cluster_->models().size(); ++i)
      if (std::find(ask.models.begin(), ask.models.end(), cluster_->models()[i].name) != ask.models.end())
        job.models |= ModelSet{1} << i;
  }
  if (!ask.mig.empty()) {
    if (rules_.isolation != Isolation::kFraction)
      return never("MIG slices are placed under isolation fraction only, see the cluster file");
    job.profile = ProfileOn(model, ask.mig);
    if (!job.profile) return never(fmt::format("its {} has no slice {}", model.name, ask.mig));
    job.milli = ShapeOf(*job.profile).compute * kWholeGpu / 7;
  }
  if (job.gpus > node.gpus) return never(fmt::format("it has {} GPUs, asked for: {}", node.gpus, job.gpus));
  return job;
}

FilterVerdict AllocationCache::Judge(const PodAsk& ask, const std::string& name) const {
  if (ask.giver == Giver::kNobody) return {};
  const auto n = NodeAt(name);
  if (!n) {
    const auto known = nodes_.find(name);
    if (known != nodes_.end() && !known->second.problem.empty()) return {known->second.problem, true};
    if (const auto surplus = surplus_.find(name); surplus != surplus_.end()) return {surplus->second, true};
    if (known == nodes_.end() && nodes_.size() >= kMaxNodes)
      return {fmt::format("Spillway keeps at most {} nodes, and this is one more", kMaxNodes), true};
    return {"Spillway knows of no GPUs on this node", true};
  }
  const Node& node = cluster_->nodes()[static_cast<size_t>(*n)];
  FilterVerdict verdict;
  const auto job = JobOn(ask, node, verdict);
  if (!job) return verdict;
  if (const auto own = bookings_.find(ask.uid);
      own != bookings_.end() && own->second.state == State::kDoubtful) {
    if (own->second.node != name)
      return {fmt::format("{} may already be bound to {}: waiting for the API server", own->second.pod,
                          own->second.node),
              false};
    if (own->second.id) return {};  // what it has is not in its way
  }
  const auto giver = static_cast<size_t>(ask.giver);
  if (givers_[static_cast<size_t>(*n)][3 - giver] > 0)
    return {fmt::format("its GPUs are currently allocated by {} and this pod requests them the other way",
                        kOtherGiver[giver]),
            false};
  if (ask.giver == Giver::kSpillway)
    if (const auto at = nodes_.find(name); at != nodes_.end() && !at->second.closed.empty())
      return {at->second.closed, false};
  // The device plugin knows what it has given, to whomever; we do not.
  if (ask.giver == Giver::kSpillway && unknown_[static_cast<size_t>(*n)] > 0)
    return {"a pod there holds a GPU that Spillway cannot identify", false};
  if (cluster_->FitsNode(*job, *n)) return {};
  if (!job->Fractional())
    return {fmt::format("{} of its {} GPUs are idle, asked for: {}", node.IdleGpus(), node.gpus, job->gpus),
            false};
  Job anyone = *job;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    anyone.tenant = node.tenant[static_cast<size_t>(gpu)];
    if (cluster_->FitsGpu(anyone, *n, gpu)) return {"it has room on GPUs of another tenant only", false};
  }
  if (rules_.isolation == Isolation::kFraction)
    return {fmt::format("no GPU has room for a slice {}", ShapeOf(SliceOf(*job, rules_.slice_rule)).name),
            false};
  const int most = *std::max_element(node.free.begin(), node.free.begin() + node.gpus);
  return {fmt::format("the most that a GPU has left is {} milli, asked for: {}", most, job->milli), false};
}

std::vector<int> AllocationCache::Score(const PodAsk& ask, const std::vector<std::string>& names) const {
  std::vector<int> scores(names.size(), 0);
  if (ask.giver == Giver::kNobody) return scores;
  if (InDoubt(ask.uid)) {
    for (size_t i = 0; i < names.size(); ++i)
      if (Judge(ask, names[i]).why.empty()) scores[i] = kMaxPriority;
    return scores;
  }
  std::optional<JobMix> mix;
  if (!LooksAhead()) mix.emplace(MixWith(ask));
  Placer placer(*cluster_, mix ? *mix : look_ahead_->mix(), {}, mix ? nullptr : &look_ahead_->fill());
  struct Rated {
    size_t index;
    int node;
    double score;
  };
  std::vector<Rated> rated;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto n = NodeAt(names[i]);
    if (!n || !Judge(ask, names[i]).why.empty()) continue;
    FilterVerdict verdict;
    const auto job = JobOn(ask, cluster_->nodes()[static_cast<size_t>(*n)], verdict);
    if (const auto rating = placer.RateOn(*job, *n)) rated.push_back({i, *n, rating->score});
  }
  if (rated.empty()) return scores;
  const auto by_score = [](const Rated& a, const Rated& b) {
    return a.score != b.score ? a.score < b.score : a.node > b.node;
  };
  const Rated best = *std::max_element(rated.begin(), rated.end(), by_score);
  const double worst = std::min_element(rated.begin(), rated.end(), by_score)->score;
  const double span = std::max(best.score - worst, 1e-9);
  for (const Rated& one : rated)
    scores[one.index] = one.index == best.index
                            ? kMaxPriority
                            : static_cast<int>((kMaxPriority - 1) * (one.score - worst) / span);
  for (const Rated& one : rated)
    if (one.index != best.index && one.score == best.score) scores[one.index] = kMaxPriority - 1;
  return scores;
}

}  // namespace spillway::scheduler
