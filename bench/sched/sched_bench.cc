// SPDX-License-Identifier: Apache-2.0
#include "bench/sched/sched_bench.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/random.h"
#include "report/percentile.h"
#include "scheduler/rehearsal.h"
#include "scheduler/replay/placement_experiment.h"

namespace spillway::bench {
namespace {

using scheduler::Job;
using scheduler::JobId;

// Nanoseconds of each decision: where to, and taking the place.
class Timer {
 public:
  template <class Work>
  void Time(Work work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    ns_.push_back(static_cast<double>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
            .count()));
  }
  void AddRow(report::Document& document, const char* phase, const scheduler::Cluster& cluster) {
    std::sort(ns_.begin(), ns_.end());
    const auto us = [this](double percent) { return report::Percentile(ns_, percent) / 1000; };
    document.AddRow({{"phase", phase},
                     {"nodes", cluster.nodes().size()},
                     {"gpus", cluster.gpus()},
                     {"decisions", ns_.size()},
                     {"p50_us", us(50)},
                     {"p90_us", us(90)},
                     {"p99_us", us(99)},
                     {"p999_us", us(99.9)},
                     {"max_us", us(100)}});
  }

 private:
  std::vector<double> ns_;
};

}  // namespace

report::Document RunSchedBench(const scheduler::NodeList& nodes, const scheduler::JobList& list,
                               const SchedBenchOptions& options,
                               const std::function<void(double, const std::string&)>& progress) {
  report::Document document("sched");
  document.SetRounds(options.rounds);
  Timer filling, steady;
  std::vector<Job> usual;
  for (const auto& one : list.jobs) usual.push_back(one.job);
  const scheduler::JobMix mix(usual, static_cast<int>(nodes.models.size()));
  const scheduler::FillValue fill = scheduler::BestFillValue(usual, mix, nodes.nodes, nodes.models.size());
  scheduler::Cluster last(nodes.nodes, nodes.models);
  for (int round = 1; round <= options.rounds; ++round) {
    progress(static_cast<double>(round - 1) / options.rounds, "");
    scheduler::Cluster cluster(nodes.nodes, nodes.models);
    scheduler::Placer placer(cluster, mix, {}, &fill);
    const auto order = scheduler::DrawJobs(list, int64_t{cluster.gpus()} * scheduler::kWholeGpu,
                                           static_cast<uint64_t>(round));
    std::vector<JobId> there, unused;
    JobId next = 0;
    const auto arrive = [&](const Job& job) {
      const JobId id = unused.empty() ? next : unused.back();
      const auto spot = placer.Decide(job);
      if (!spot) return;
      cluster.Place(id, job, *spot);
      there.push_back(id);
      if (unused.empty())
        ++next;
      else
        unused.pop_back();
    };
    for (const Job& job : order) filling.Time([&] { arrive(job); });
    base::SplitMix64 random(static_cast<uint64_t>(round));
    const auto draw = [&random](size_t below) { return static_cast<size_t>(random.Below(below)); };
    for (int i = 0; i < options.decisions && !there.empty(); ++i) {
      const size_t gone = draw(there.size());
      cluster.Remove(there[gone]);
      unused.push_back(there[gone]);
      there[gone] = there.back();
      there.pop_back();
      const Job& job = order[draw(order.size())];
      steady.Time([&] { arrive(job); });
    }
  }
  filling.AddRow(document, "filling to 130 % demand", last);
  steady.AddRow(document, "full, jobs come and go", last);
  return document;
}

}  // namespace spillway::bench
