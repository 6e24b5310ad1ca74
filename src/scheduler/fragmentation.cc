// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fragmentation.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace spillway::scheduler {
namespace {

constexpr double kNearlyAll = 0.999;

// Host memory is rarely what is short; FGD leaves it out, and so do we: fewer kinds, better known.
std::vector<JobKind> UsualKinds(const std::vector<Job>& jobs, double coverage) {
  std::map<std::tuple<int, int, int, ModelSet>, int> counts;
  for (const Job& job : jobs)
    ++counts[{job.cpu_milli, job.gpus, job.gpus > 0 ? job.milli : 0, job.gpus > 0 ? job.models : 0}];
  std::vector<JobKind> kinds;
  for (const auto& [key, count] : counts) {
    const auto& [cpu, gpus, milli, models] = key;
    kinds.push_back({cpu, gpus, milli, models, static_cast<double>(count)});
  }
  if (kinds.empty()) kinds.push_back({0, 1, kWholeGpu, 0, 1});
  // Of kinds that are equally frequent the larger first, as the published runs choose them. What stands at
  // the edge of the coverage matters: the large kinds are what fragments hurt.
  std::sort(kinds.begin(), kinds.end(), [](const JobKind& a, const JobKind& b) {
    return std::tie(a.share, a.cpu_milli, a.milli, a.gpus, a.models) >
           std::tie(b.share, b.cpu_milli, b.milli, b.gpus, b.models);
  });
  double covered = 0;
  size_t kept = 0;
  const double all = std::max<double>(static_cast<double>(jobs.size()), 1);
  while (kept < kinds.size() && covered < coverage * all) covered += kinds[kept++].share;
  kinds.resize(kept);
  for (JobKind& kind : kinds) kind.share /= covered;
  return kinds;
}

}  // namespace

JobMix::JobMix(const std::vector<Job>& jobs, int models) {
  kinds_ = UsualKinds(jobs, kCoverage);
  nearly_all_ = UsualKinds(jobs, kNearlyAll);
  const std::vector<JobKind>& kinds = kinds_;
  double with_gpus = 0, choosy = 0;
  for (const Job& job : jobs) {
    with_gpus += job.gpus > 0 ? 1 : 0;
    choosy += job.gpus > 0 && job.models != 0 ? 1 : 0;
  }
  if (with_gpus > 0) choosy_ = choosy / with_gpus;
  std::vector<int> levels = {kWholeGpu};
  for (const JobKind& kind : kinds) {
    cpu_steps_.push_back(kind.cpu_milli);
    if (kind.gpus == 1) levels.push_back(kind.milli);
  }
  for (auto* list : {&cpu_steps_, &levels}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  for (int free = 0; free <= kWholeGpu; ++free)
    level_of_[free] =
        static_cast<uint16_t>(std::upper_bound(levels.begin(), levels.end(), free) - levels.begin());

  for (int model = 0; model < models; ++model)
    for (size_t step = 0; step <= cpu_steps_.size(); ++step) {
      Row row;
      row.tail.resize(levels.size() + 1);
      const int free_cpu = step == 0 ? -1 : cpu_steps_[step - 1];
      for (const JobKind& kind : kinds) {
        const bool welcome = kind.models == 0 || (kind.models >> model & 1) != 0;
        if (kind.gpus == 0 || kind.cpu_milli > free_cpu || !welcome) {
          row.useless += kind.share;
        } else if (kind.gpus > 1) {
          row.by_gpus[std::min(kind.gpus, kMaxGpus)] += kind.share;
          row.any_multi = true;
        } else {
          for (size_t level = 0; level < levels.size() && levels[level] <= kind.milli; ++level)
            row.tail[level] += kind.share;
        }
      }
      rows_.push_back(std::move(row));
    }
}

const JobMix::Row& JobMix::RowFor(int model, int free_cpu) const {
  const auto step = std::upper_bound(cpu_steps_.begin(), cpu_steps_.end(), free_cpu) - cpu_steps_.begin();
  return rows_[static_cast<size_t>(model) * (cpu_steps_.size() + 1) + static_cast<size_t>(step)];
}

double JobMix::Fragmentation(int model, int free_cpu, const int16_t* free, int gpus) const {
  const Row& row = RowFor(model, free_cpu);
  int total = 0, idle = 0;
  double lost = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    total += free[gpu];
    idle += free[gpu] == kWholeGpu ? 1 : 0;
    lost += row.tail[level_of_[free[gpu]]] * free[gpu];
  }
  lost += row.useless * total;
  if (!row.any_multi) return lost;
  for (int n = 2; n <= kMaxGpus; ++n)
    if (row.by_gpus[n] > 0) lost += row.by_gpus[n] * (idle < n ? total : total - idle * kWholeGpu);
  return lost;
}

}  // namespace spillway::scheduler
