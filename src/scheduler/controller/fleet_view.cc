// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/fleet_view.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "scheduler/consolidation.h"

namespace spillway::scheduler {
namespace {

// What a move's cost is measured by where the model has no SLO of its own.
constexpr Millis kUsualSloMs = 1000;

constexpr Profile kByMemory[] = {Profile::k1g, Profile::k1gMem, Profile::k2g,
                                 Profile::k3g, Profile::k4g,    Profile::k7g};

int RoundedUp(int64_t part, int64_t whole) { return static_cast<int>((part + whole - 1) / whole); }

// The smallest that has enough of both.
Profile ProfileWith(int milli, int eighths) {
  for (const Profile profile : kByMemory) {
    const ProfileShape& shape = ShapeOf(profile);
    if (shape.compute >= RoundedUp(milli * 7, kWholeGpu) && shape.memory >= eighths) return profile;
  }
  return Profile::k7g;
}

// To the cluster GPUs of one kind are of one model.
struct Kind {
  std::string model;
  bool can_divide;
  int memory_mib;
  std::set<std::string> programs;
  bool operator==(const Kind&) const = default;
};

// One that promises no more, where there are as many kinds as there can be: the GPU is used all the same.
// Rather of the same model, with as many of its programs and as much of its memory as there is.
std::vector<Kind>::iterator ClosestOf(std::vector<Kind>& kinds, const Kind& kind) {
  const auto nearness = [&](const Kind& one) {
    return std::tuple(one.model == kind.model, one.programs.size(), one.memory_mib);
  };
  auto closest = kinds.end();
  for (auto at = kinds.begin(); at != kinds.end(); ++at) {
    const bool has_the_memory =
        at->memory_mib == kind.memory_mib ||
        (at->memory_mib > 0 && (kind.memory_mib == 0 || at->memory_mib < kind.memory_mib));
    if (at->can_divide == kind.can_divide && has_the_memory &&
        std::includes(kind.programs.begin(), kind.programs.end(), at->programs.begin(), at->programs.end()) &&
        (closest == kinds.end() || nearness(*at) > nearness(*closest)))
      closest = at;
  }
  return closest;
}

struct Usable {
  const Gpu* gpu;
  Node node;
};

// Those first that have been as they are for longest: what a new one brings takes no other's place.
std::vector<std::string> EldestFirst(const Fleet& fleet) {
  std::vector<std::string> names;
  for (const auto& [name, host] : fleet.hosts) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return fleet.hosts.at(a).since < fleet.hosts.at(b).since;
  });
  return names;
}

Spot SpotAt(const Job& job, int node, int start) {
  Spot spot{node, 0, start};
  if (!job.Fractional()) spot.whole = 1;
  return spot;
}

}  // namespace

std::string GpuKey(const std::string& host, const std::string& gpu) { return host + "/" + gpu; }

FleetView::FleetView(const Fleet& fleet, const FleetRules& rules, const std::string& avoid)
    : rules_(rules), cluster_({}, {}) {
  std::set<std::string> names, programs;
  for (const auto& [name, model] : fleet.models) {
    names.insert(model.tenant);
    programs.insert(model.host_program);
  }
  for (const auto& [id, one] : fleet.instances) {
    names.insert(one.model.tenant);
    programs.insert(one.model.host_program);
    if (one.replaces != 0) replaced_.insert(one.replaces);
  }
  for (const std::string& name : names) tenants_.emplace(name, static_cast<int>(tenants_.size()));
  const std::vector<std::string> eldest_first = EldestFirst(fleet);
  std::set<std::string> blocked{avoid};
  std::string another;
  do {
    blocked.insert(another);
    std::vector<Node> nodes;
    std::vector<GpuModel> models;
    gpus_.clear();
    node_of_.clear();
    memory_of_model_.clear();
    programs_of_model_.clear();
    gpu_models_.clear();
    std::vector<Kind> kinds;
    std::map<std::string_view, std::vector<Usable>> usable;  // by host
    for (const std::string& name : eldest_first) {
      const GpuHost& host = fleet.hosts.at(name);
      std::set<std::string> listed;
      std::set_intersection(host.programs.begin(), host.programs.end(), programs.begin(), programs.end(),
                            std::inserter(listed, listed.end()));
      for (const Gpu& gpu : host.gpus) {
        const std::string key = GpuKey(name, gpu.id);
        const auto trouble = fleet.gpu_troubles.find(key);
        if (!host.is_up || !gpu.lost.empty() || blocked.count(key) != 0 ||
            (trouble != fleet.gpu_troubles.end() && trouble->second.not_before > fleet.now))
          continue;
        const Kind kind{gpu.model, gpu.can_divide, gpu.memory_mib, listed};
        auto at = std::find(kinds.begin(), kinds.end(), kind);
        if (at == kinds.end() && kinds.size() == kMaxModels) {
          at = ClosestOf(kinds, kind);
          if (at == kinds.end()) continue;  // more kinds than a job can choose among
        }
        if (at == kinds.end()) {
          at = kinds.insert(kinds.end(), kind);
          models.push_back(ModelByName(gpu.model));
          models.back().mig = gpu.can_divide;
          memory_of_model_.push_back(gpu.memory_mib);
          programs_of_model_.push_back(listed);
          gpu_models_.push_back(gpu.model);
        }
        Node node;
        node.name = key;
        node.model = static_cast<int>(at - kinds.begin());
        usable[name].push_back({&gpu, std::move(node)});
      }
    }
    for (auto& [host, its] : usable)
      for (Usable& one : its) {
        node_of_[one.node.name] = static_cast<int>(nodes.size());
        gpus_.emplace_back(host, one.gpu->id);
        nodes.push_back(std::move(one.node));
      }
    cluster_ = Cluster(std::move(nodes), std::move(models), {rules_.isolation, SliceRule::kCompute});
    another.clear();
  } while (!PlaceAll(fleet, another));
}

bool FleetView::PlaceAll(const Fleet& fleet, std::string& blocked) {
  instances_.clear();
  may_move_.clear();
  for (const auto& [id, one] : fleet.instances)
    if (!Add(fleet, one)) {
      blocked = GpuKey(one.place.host, one.place.gpu);
      return false;
    }
  return true;
}

bool FleetView::Add(const Fleet& fleet, const Instance& one) {
  const int node = NodeOf(GpuKey(one.place.host, one.place.gpu));
  if (node < 0) return true;
  bool may_move = false;
  const Job job = JobAt(fleet, one, node, may_move);
  const Spot spot = SpotAt(job, node, one.place.start);
  if (!cluster_.WhyNot(job, spot).empty()) return false;
  cluster_.Place(next_job(), job, spot);
  instances_.push_back(one.id);
  may_move_.push_back(may_move);
  return true;
}

Job FleetView::JobAt(const Fleet& fleet, const Instance& one, int node, bool& may_move) const {
  const std::optional<Job> as_placed = JobFor(one.model, one.place, node);
  Job job = as_placed ? *as_placed : JobOf(one.model);
  may_move = IsServing(one) && one.replaces == 0 && replaced_.count(one.id) == 0;
  const auto trouble = fleet.model_troubles.find(one.model.name);
  if (trouble != fleet.model_troubles.end() && trouble->second.not_before > fleet.now) may_move = false;
  // What it asks for may have changed since it was placed, as GPUs of another kind came.
  if (!as_placed) {
    may_move = false;
    job.milli = one.place.milli;
    job.models = 0;
    job.profile = one.place.profile;
  }
  const auto downtime = fleet.downtime_ms.find(one.model.name);
  const double slo = static_cast<double>(one.model.slo_ms > 0 ? one.model.slo_ms : kUsualSloMs);
  job.move_cost = 1 + (downtime == fleet.downtime_ms.end() ? 0 : static_cast<double>(downtime->second) / slo);
  if (!may_move) job.move_cost = kImmovable;
  return job;
}

// As it has that place; nothing: it would not have it now.
std::optional<Job> FleetView::JobFor(const ServedModel& model, const SlicePlace& place, int node) const {
  for (const Job& job : JobsOf(model))
    if (job.Accepts(cluster_.nodes()[node].model) && PlaceOf(job, SpotAt(job, node, place.start)) == place)
      return job;
  return std::nullopt;
}

std::vector<Job> FleetView::JobsOf(const ServedModel& model) const {
  Job job;
  job.tenant = tenants_.at(model.tenant);
  job.milli = rules_.is_sharing ? model.milli : kWholeGpu;
  if (model.memory_mib == 0 && model.host_program.empty()) return {job};
  ModelSet accepted = 0, always = 0;  // always: whatever share it asks for
  std::set<int, std::greater<>> sizes, sizes_of_all;
  for (size_t i = 0; i < memory_of_model_.size(); ++i) {
    const int has = memory_of_model_[i];
    if (has != 0 && has < model.memory_mib) continue;
    // What is not divided is an instance's alone, and says nothing of the slices of others.
    const bool is_divided = rules_.isolation != Isolation::kFraction || cluster_.models()[i].mig;
    if (has != 0 && is_divided) sizes_of_all.insert(has);
    if (!model.host_program.empty() && programs_of_model_[i].count(model.host_program) == 0) continue;
    accepted |= ModelSet{1} << i;
    if (has == 0 || !is_divided)
      always |= ModelSet{1} << i;
    else
      sizes.insert(has);
  }
  if (accepted == 0) {
    accepted = always = kAbsentModel;
    if (!sizes_of_all.empty())  // what it would have where a host listed its program: quotas count it
      job = WithMemory(job, model.memory_mib, *sizes_of_all.begin());
  }
  std::vector<Job> jobs;
  for (const int size : sizes) {
    Job asks = WithMemory(job, model.memory_mib, size);
    asks.models = always;
    for (size_t i = 0; i < memory_of_model_.size(); ++i)
      if ((accepted >> i & 1) != 0 && memory_of_model_[i] >= size) asks.models |= ModelSet{1} << i;
    if (!jobs.empty() && jobs.back().milli == asks.milli && jobs.back().profile == asks.profile)
      jobs.back() = asks;
    else
      jobs.push_back(asks);
  }
  if (!jobs.empty()) return jobs;
  job.models = accepted;
  return {job};
}

// With the share or profile that has so much of a GPU's memory.
Job FleetView::WithMemory(Job job, int memory_mib, int of_mib) const {
  if (!job.Fractional()) return job;
  if (rules_.isolation != Isolation::kFraction) {
    job.milli = std::max(job.milli, RoundedUp(int64_t{memory_mib} * kWholeGpu, of_mib));
    return job;
  }
  const int eighths = RoundedUp(int64_t{memory_mib} * kSlices, of_mib);
  if (ShapeOf(ProfileFor(job.milli, SliceRule::kCompute)).memory < eighths)
    job.profile = ProfileWith(job.milli, eighths);
  return job;
}

SlicePlace FleetView::PlaceOf(const Job& job, const Spot& spot) const {
  SlicePlace place{gpus_[spot.node].first, gpus_[spot.node].second, job.milli};
  if (rules_.isolation != Isolation::kFraction || !job.Fractional()) return place;
  if (!cluster_.models()[cluster_.nodes()[spot.node].model].mig) {
    place.milli = kWholeGpu;  // it is not divided: nobody else gets a part of it
    return place;
  }
  place.profile = SliceOf(job, SliceRule::kCompute);
  place.start =
      spot.start >= 0 ? spot.start : BestStart(*place.profile, cluster_.nodes()[spot.node].slices[0]);
  return place;
}

std::string FleetView::WhyNot(const ServedModel& model, const SlicePlace& place) const {
  const std::string key = GpuKey(place.host, place.gpu);
  const int node = NodeOf(key);
  if (node < 0) return "GPU " + key + " does not exist or cannot be used now";
  const std::optional<Job> job = JobFor(model, place, node);
  if (!job) return "it asks for another share there by now";
  return cluster_.WhyNot(*job, SpotAt(*job, node, place.start));
}

int FleetView::NodeOf(const std::string& gpu_key) const {
  const auto at = node_of_.find(gpu_key);
  return at == node_of_.end() ? -1 : at->second;
}

bool FleetView::MayMove(JobId job) const { return job < may_move_.size() && may_move_[job]; }

}  // namespace spillway::scheduler
