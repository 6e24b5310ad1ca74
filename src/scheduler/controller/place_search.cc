// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/place_search.h"

#include <vector>

namespace spillway::scheduler {
namespace {

JobMix MixOf(const Fleet& fleet, FleetView& view) {
  std::vector<Job> jobs;
  for (const auto& [name, model] : fleet.models) jobs.insert(jobs.end(), model.replicas, view.JobOf(model));
  return JobMix(jobs, static_cast<int>(view.cluster().models().size()));
}

}  // namespace

PlaceSearch::PlaceSearch(const Fleet& fleet, const FleetRules& rules, Policy policy, const std::string& avoid)
    : view_(fleet, rules, avoid),
      mix_(MixOf(fleet, view_)),
      placer_(view_.cluster(), mix_, {policy, Objective::kFewestGpus}) {}

std::optional<PlaceSearch::Found> PlaceSearch::Find(const ServedModel& model) {
  std::optional<Found> found;
  for (const Job& job : view_.JobsOf(model)) {
    const auto spot = placer_.Decide(job);
    if (!spot) continue;
    const bool is_on = !view_.cluster().JobsOn(spot->node).empty();
    if (!found || is_on) found = {job, *spot};
    if (is_on) break;
  }
  return found;
}

std::optional<PlaceSearch::Found> PlaceSearch::FindOn(const ServedModel& model, int node) {
  for (const Job& job : view_.JobsOf(model))
    if (const auto rating = placer_.RateOn(job, node)) return Found{job, rating->spot};
  return std::nullopt;
}

PlaceSearch& PlaceSearches::Avoiding(const std::string& gpu_key) {
  if (gpu_key.empty()) {
    if (!anywhere_) anywhere_.emplace(fleet_, rules_, policy_);
    return *anywhere_;
  }
  if (!elsewhere_ || avoided_ != gpu_key) elsewhere_.emplace(fleet_, rules_, policy_, gpu_key);
  avoided_ = gpu_key;
  return *elsewhere_;
}

void PlaceSearches::Started(const Instance& one) {
  for (std::optional<PlaceSearch>* search : {&anywhere_, &elsewhere_})
    if (*search && !(*search)->view().Add(fleet_, one)) search->reset();
}

void PlaceSearches::Clear() {
  anywhere_.reset();
  elsewhere_.reset();
}

}  // namespace spillway::scheduler
