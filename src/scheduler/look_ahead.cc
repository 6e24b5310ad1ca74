// SPDX-License-Identifier: Apache-2.0
#include "scheduler/look_ahead.h"

#include "scheduler/rehearsal.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace spillway::scheduler {
namespace {

// Mostly whole GPUs, as in the published traces; halves and quarters, a few nodes' worth, some CPU alone.
std::vector<Job> WithUsualSizes(std::vector<Job> jobs, const std::vector<Node>& nodes) {
  double cpu = 0, gpus = 0;
  int most_gpus = 0;
  for (const Node& node : nodes) {
    if (node.cpu_milli < kUnlimited) cpu += node.cpu_milli;
    gpus += node.gpus;
    most_gpus = std::max(most_gpus, node.gpus);
  }
  // As much CPU as leaves a third of the cluster's to others.
  const double cpu_per_gpu = gpus > 0 ? cpu / gpus * 2 / 3 : 0;
  const auto add = [&](int times, int count, int milli) {
    Job job;
    job.gpus = count;
    job.milli = count == 1 ? milli : count == 0 ? 0 : kWholeGpu;
    job.cpu_milli = static_cast<int>(cpu_per_gpu * std::max(job.TotalMilli(), 500) / kWholeGpu);
    if (count <= most_gpus) jobs.insert(jobs.end(), static_cast<size_t>(times), job);
  };
  add(8, 1, kWholeGpu);
  add(3, 1, 500);
  add(2, 1, 250);
  add(1, 2, kWholeGpu);
  add(1, 4, kWholeGpu);
  add(1, 8, kWholeGpu);
  add(2, 0, 0);
  return jobs;
}

// Of the jobs of each kind that are there, the share that waits.
std::vector<double> WaitingShares(const std::vector<JobKind>& kinds, const std::vector<Job>& running,
                                  const std::vector<Job>& waiting) {
  using Key = std::tuple<int, int, int, ModelSet>;
  const auto key = [](const auto& one) {
    return Key{one.cpu_milli, one.gpus, one.gpus > 0 ? one.milli : 0, one.gpus > 0 ? one.models : 0};
  };
  std::map<Key, std::pair<double, double>> counts;  // waiting, all
  for (const Job& job : running) ++counts[key(job)].second;
  for (const Job& job : waiting) ++counts[key(job)].first, ++counts[key(job)].second;
  std::vector<double> shares;
  for (const JobKind& kind : kinds) {
    const auto [waits, all] = counts[key(kind)];
    shares.push_back(all > 0 ? waits / all : 0);
  }
  return shares;
}

}  // namespace

std::vector<Job> ExpectedJobs(const std::vector<Job>& running, const std::vector<Job>& waiting,
                              const std::vector<Node>& nodes) {
  std::vector<Job> all = running;
  all.insert(all.end(), waiting.begin(), waiting.end());
  return WithUsualSizes(std::move(all), nodes);
}

LookAhead::LookAhead(const std::vector<Job>& running, const std::vector<Job>& waiting,
                     const std::vector<Node>& nodes, size_t models, const std::stop_token& stop)
    : LookAhead(ExpectedJobs(running, waiting, nodes), running, waiting, nodes, models, stop) {}

LookAhead::LookAhead(const std::vector<Job>& expected, const std::vector<Job>& running,
                     const std::vector<Job>& waiting, const std::vector<Node>& nodes, size_t models,
                     const std::stop_token& stop)
    : mix_(expected, static_cast<int>(models)),
      fill_(BestFillValue(expected, mix_, nodes, models, WaitingShares(mix_.nearly_all(), running, waiting),
                          0, [&stop] { return stop.stop_requested(); })) {}

}  // namespace spillway::scheduler
