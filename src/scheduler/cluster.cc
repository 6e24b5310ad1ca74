// SPDX-License-Identifier: Apache-2.0
#include "scheduler/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>

namespace spillway::scheduler {
int Node::IdleGpus() const {
  return static_cast<int>(std::count(jobs.begin(), jobs.begin() + gpus, uint16_t{0}));
}

int Node::FreeMilli() const {
  int sum = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) sum += free[gpu];
  return sum;
}

Cluster::Cluster(std::vector<Node> nodes, std::vector<GpuModel> models, Rules rules)
    : nodes_(std::move(nodes)), models_(std::move(models)), rules_(rules) {
  for (Node& node : nodes_) {
    assert(node.gpus >= 0 && node.gpus <= kMaxGpus);
    node.free_cpu = node.cpu_milli;
    node.free_memory = node.memory_mib;
    std::fill_n(node.free.begin(), node.gpus, static_cast<int16_t>(CapacityOf(node)));
    node.slices.fill(MissingSlices(node.model));
    node.jobs.fill(0);
    node.tenant.fill(kNoTenant);
    node.jobs_by_gpus.fill(0);
    first_gpu_.push_back(static_cast<size_t>(gpus_));
    gpus_ += node.gpus;
  }
  sharers_.resize(static_cast<size_t>(gpus_));
  jobs_on_.resize(nodes_.size());
}

int Cluster::ShareOn(const Job& job, const Node& node) const {
  if (rules_.isolation != Isolation::kFraction) return job.milli;
  if (!models_[node.model].mig) return CapacityOf(node);
  return ShapeOf(SliceOf(job, rules_.slice_rule)).compute * kWholeGpu / 7;
}

bool Cluster::FitsGpu(const Job& job, int n, int gpu) const {
  const Node& node = nodes_[n];
  switch (rules_.isolation) {
    case Isolation::kFraction:
      // A GPU that MIG cannot divide has one slice: all of it.
      if (!models_[node.model].mig) return node.free[gpu] >= job.milli && node.jobs[gpu] == 0 && !job.profile;
      return BestStart(SliceOf(job, rules_.slice_rule), node.slices[gpu]) >= 0;
    case Isolation::kGpu:
      if (node.tenant[gpu] != kNoTenant && node.tenant[gpu] != job.tenant) return false;
      break;
    case Isolation::kNone:
      break;
  }
  return node.free[gpu] >= job.milli;
}

bool Cluster::FitsNode(const Job& job, int n) const {
  const Node& node = nodes_[n];
  if (!FitsHost(job, node)) return false;
  if (!job.Fractional()) return node.IdleGpus() >= job.gpus;
  for (int gpu = 0; gpu < node.gpus; ++gpu)
    if (FitsGpu(job, n, gpu)) return true;
  return false;
}

bool Cluster::FitsSpot(const Job& job, const Spot& spot) const {
  const Node& node = nodes_[spot.node];
  if (!FitsHost(job, node)) return false;
  if (!job.Fractional() && spot.whole != 0) {
    for (int gpu = 0; gpu < kMaxGpus; ++gpu)
      if ((spot.whole >> gpu & 1) != 0 && (gpu >= node.gpus || node.jobs[gpu] != 0)) return false;
    return std::popcount(spot.whole) == job.gpus;
  }
  if (!job.Fractional()) return node.IdleGpus() >= job.gpus;
  if (!FitsGpu(job, spot.node, spot.gpu)) return false;
  if (rules_.isolation != Isolation::kFraction || spot.start < 0) return true;
  const Profile profile = SliceOf(job, rules_.slice_rule);
  return (node.slices[spot.gpu] & MaskOf(profile, spot.start)) == 0;
}

std::string Cluster::WhyNot(const Job& job, const Spot& spot) const {
  const Node& node = nodes_[spot.node];
  const GpuModel& model = models_[node.model];
  if (job.gpus > 0 && !job.Accepts(node.model)) return fmt::format("its GPUs are {}", model.name);
  if (node.free_cpu < job.cpu_milli)
    return fmt::format("it has {} cpu_milli left, asked for: {}", node.free_cpu, job.cpu_milli);
  if (node.free_memory < job.memory_mib)
    return fmt::format("it has {} memory_mib left, asked for: {}", node.free_memory, job.memory_mib);
  if (!job.Fractional()) {
    if (FitsSpot(job, spot)) return "";
    for (int gpu = 0; gpu < kMaxGpus; ++gpu) {
      if ((spot.whole >> gpu & 1) == 0) continue;
      if (gpu >= node.gpus) return fmt::format("it has {} GPUs, the first is 0", node.gpus);
      if (node.jobs[gpu] != 0) return fmt::format("GPU {} is taken", gpu);
    }
    return fmt::format("{} of its {} GPUs are idle, asked for: {}", node.IdleGpus(), node.gpus, job.gpus);
  }
  if (spot.gpu >= node.gpus) return fmt::format("it has {} GPUs, the first is 0", node.gpus);
  if (rules_.isolation == Isolation::kFraction) {
    if (!model.mig)
      return FitsGpu(job, spot.node, spot.gpu)
                 ? spot.start >= 0 ? fmt::format("MIG cannot divide its {}", model.name) : ""
                 : fmt::format("MIG cannot divide its {}, and another job is on GPU {}", model.name,
                               spot.gpu);
    const ProfileShape& shape = ShapeOf(SliceOf(job, rules_.slice_rule));
    if (spot.start >= 0 &&
        std::find(shape.starts.begin(), shape.starts.end(), spot.start) == shape.starts.end())
      return fmt::format("its slice, a {}, may begin at {}", shape.name, fmt::join(shape.starts, ", "));
    if (!FitsSpot(job, spot))
      return fmt::format("GPU {} has no room for its slice, a {}{}", spot.gpu, shape.name,
                         spot.start >= 0 ? fmt::format(", at {}", spot.start) : "");
    return "";
  }
  if (spot.start >= 0) return "`start` is allowed only with isolation: fraction";
  if (rules_.isolation == Isolation::kGpu && node.tenant[spot.gpu] != kNoTenant &&
      node.tenant[spot.gpu] != job.tenant)
    return fmt::format("GPU {} is another tenant's", spot.gpu);
  if (node.free[spot.gpu] < job.milli)
    return fmt::format("GPU {} has {} milli left, asked for: {}", spot.gpu, node.free[spot.gpu], job.milli);
  return "";
}

void Cluster::Place(JobId id, const Job& job, Spot spot) {
  if (id >= placed_.size()) placed_.resize(id + 1);
  PlacedJob& placed = placed_[id];
  assert(placed.spot.node < 0 && FitsSpot(job, spot));
  placed = {job, spot};
  Node& node = nodes_[spot.node];
  node.free_cpu -= job.cpu_milli;
  node.free_memory -= job.memory_mib;
  jobs_on_[spot.node].push_back(id);
  allocated_milli_ += job.TotalMilli();
  if (job.gpus > 0) ++node.jobs_by_gpus[job.Fractional() ? 0 : job.gpus];
  const auto take = [&](int gpu, int milli) {
    gpus_on_ += node.jobs[gpu] == 0 ? 1 : 0;
    ++node.jobs[gpu];
    node.tenant[gpu] = job.tenant;
    node.free[gpu] = static_cast<int16_t>(node.free[gpu] - milli);
  };
  if (job.Fractional()) {
    if (rules_.isolation == Isolation::kFraction && models_[node.model].mig) {
      placed.profile = SliceOf(job, rules_.slice_rule);
      if (spot.start < 0) placed.spot.start = BestStart(placed.profile, node.slices[spot.gpu]);
      node.slices[spot.gpu] |= MaskOf(placed.profile, placed.spot.start);
    }
    take(spot.gpu, ShareOn(job, node));
    sharers_[first_gpu_[spot.node] + spot.gpu].push_back(id);
  } else {
    for (int gpu = 0, wanted = job.gpus; wanted > 0; ++gpu) {
      if (node.jobs[gpu] != 0 || (spot.whole != 0 && (spot.whole >> gpu & 1) == 0)) continue;
      take(gpu, CapacityOf(node));
      node.slices[gpu] = 0xff;
      placed.whole_gpus |= 1u << gpu;
      --wanted;
    }
  }
  Touch(spot.node);
}

void Cluster::Remove(JobId id) {
  assert(Placed(id));
  PlacedJob& placed = placed_[id];
  const Job& job = placed.job;
  const Spot spot = placed.spot;
  Node& node = nodes_[spot.node];
  node.free_cpu += job.cpu_milli;
  node.free_memory += job.memory_mib;
  std::erase(jobs_on_[spot.node], id);
  allocated_milli_ -= job.TotalMilli();
  if (job.gpus > 0) --node.jobs_by_gpus[job.Fractional() ? 0 : job.gpus];
  const auto give = [&](int gpu, int milli) {
    node.free[gpu] = static_cast<int16_t>(node.free[gpu] + milli);
    if (--node.jobs[gpu] != 0) return;
    node.tenant[gpu] = kNoTenant;
    --gpus_on_;
  };
  if (job.Fractional()) {
    if (spot.start >= 0) node.slices[spot.gpu] &= static_cast<SliceMask>(~MaskOf(placed.profile, spot.start));
    give(spot.gpu, ShareOn(job, node));
    std::erase(sharers_[first_gpu_[spot.node] + spot.gpu], id);
  } else {
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      if ((placed.whole_gpus >> gpu & 1) == 0) continue;
      give(gpu, CapacityOf(node));
      node.slices[gpu] = MissingSlices(node.model);
    }
  }
  placed.spot = {};
  Touch(spot.node);
}

std::string Cluster::Check() const {
  std::vector<Node> fresh = Cluster(nodes_, models_, rules_).nodes_;
  for (JobId id = 0; id < placed_.size(); ++id) {
    if (!Placed(id)) continue;
    const auto& [job, spot, whole, profile] = placed_[id];
    Node& node = fresh[spot.node];
    node.free_cpu -= job.cpu_milli;
    node.free_memory -= job.memory_mib;
    if (node.free_cpu < 0 || node.free_memory < 0) return fmt::format("{}: CPU or memory twice", node.name);
    if (job.gpus > 0 && !job.Accepts(node.model)) return fmt::format("{}: a model not asked for", node.name);
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      const bool part = job.Fractional() && gpu == spot.gpu;
      if (!part && (whole >> gpu & 1) == 0) continue;
      const SliceMask missing = MissingSlices(node.model);
      const SliceMask all = static_cast<SliceMask>(~missing);
      const SliceMask mask = spot.start >= 0 ? MaskOf(profile, spot.start) : all;
      if (rules_.isolation == Isolation::kFraction || !part) {
        if ((node.slices[gpu] & mask) != 0) return fmt::format("{}: slices of GPU {} twice", node.name, gpu);
        const auto& starts = ShapeOf(profile).starts;
        if (spot.start >= 0 && std::find(starts.begin(), starts.end(), spot.start) == starts.end())
          return fmt::format("{}: {} at {}", node.name, ShapeOf(profile).name, spot.start);
        node.slices[gpu] |= mask;
      } else if (node.slices[gpu] != missing) {
        return fmt::format("{}: GPU {} whole and shared", node.name, gpu);
      }
      node.free[gpu] = static_cast<int16_t>(node.free[gpu] - (part ? job.milli : CapacityOf(node)));
      if (node.free[gpu] < 0) return fmt::format("{}: more than all of GPU {}", node.name, gpu);
      if (rules_.isolation == Isolation::kGpu && node.jobs[gpu] != 0 && node.tenant[gpu] != job.tenant)
        return fmt::format("{}: two tenants on GPU {}", node.name, gpu);
      node.tenant[gpu] = job.tenant;
      ++node.jobs[gpu];
    }
  }
  int on = 0;
  for (size_t n = 0; n < fresh.size(); ++n) {
    on += fresh[n].gpus - fresh[n].IdleGpus();
    if (fresh[n].free_cpu != nodes_[n].free_cpu || fresh[n].jobs != nodes_[n].jobs)
      return fmt::format("{}: internal error: allocation totals are inconsistent", fresh[n].name);
  }
  return on == gpus_on_ ? "" : "internal error: the count of GPUs that are on is wrong";
}

}  // namespace spillway::scheduler
