// SPDX-License-Identifier: Apache-2.0
#include "planner/probe/probe.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <numeric>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "planner/probe/loopback.h"
#include "report/percentile.h"

namespace spillway::planner {
namespace {

using Clock = std::chrono::steady_clock;

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof set, &set);  // 0: this thread. Without it figures are noisier, not wrong
}

// One kernel on all CPUs: each thread keeps its data from point to point.
class KernelRun {
 public:
  KernelRun(const KernelKind& kind, const ProbeSetup& setup)
      : kind_(kind), setup_(setup), kernels_(setup.cpus.size()) {}

  // Generates every thread's data, on its own CPU, so that they lie in its memory. Errors: kSystem.
  Result<void> Prepare() {
    OnCpus(setup_.cpus.size(), [&](size_t t) {
      if (kind_.name != "loopback") {
        kernels_[t] = MakeKernel(kind_.name, setup_.scale, t + 1);
        return;
      }
      auto made = MakeLoopback();
      if (made)
        kernels_[t] = std::move(*made);
      else
        Note(made.error());
    });
    return Noted();
  }

  // Per-core rates of one round with the first `busy` CPUs.
  Result<double> Round(size_t busy) {
    std::vector<double> rates(busy);
    std::barrier together(static_cast<std::ptrdiff_t>(busy));
    OnCpus(busy, [&](size_t t) {
      kernels_[t]->Pass();  // caches and pages are warm
      together.arrive_and_wait();
      const Clock::time_point begin = Clock::now();
      Clock::duration past{};
      double work = 0;
      do {
        work += kernels_[t]->Pass();
        past = Clock::now() - begin;
      } while (past < setup_.duration);
      rates[t] = work / std::chrono::duration<double>(past).count();
      if (!kernels_[t]->Verify())
        Note({ErrorCode::kSystem, "probe: kernel " + kind_.name + " gave a wrong answer"});
    });
    if (const auto good = Noted(); !good) return tl::make_unexpected(good.error());
    return std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(busy);
  }

 private:
  template <class Work>
  void OnCpus(size_t count, Work work) {
    std::vector<std::thread> threads;
    for (size_t t = 0; t < count; t++)
      threads.emplace_back([&, t] {
        PinTo(setup_.cpus[t]);
        work(t);
      });
    for (std::thread& thread : threads) thread.join();
  }
  void Note(Error error) {
    const base::MutexLock lock(mutex_);
    failure_ = std::move(error);
  }
  Result<void> Noted() {
    const base::MutexLock lock(mutex_);
    return failure_ ? tl::make_unexpected(*failure_) : Result<void>();
  }

  const KernelKind& kind_;
  const ProbeSetup& setup_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  base::Mutex mutex_;
  std::optional<Error> failure_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace

std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

std::vector<int> BusyCounts(int cpus, bool few) {
  std::vector<int> counts = {1};
  if (few) {
    counts.push_back(cpus / 2);
  } else {
    for (int busy = 2; busy < cpus; busy *= 2) counts.push_back(busy);
  }
  counts.push_back(cpus);
  std::erase(counts, 0);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

double ScaleThatFits(double wanted, int cpus, double memory_gib) {
  const double budget = memory_gib * 1024 * 1024 * 1024 / 4;
  const double needed = static_cast<double>(BytesPerKernel(wanted)) * cpus;
  return needed <= budget || memory_gib <= 0 ? wanted : wanted * budget / needed;
}

Result<std::vector<ProbePoint>> Probe(const ProbeSetup& setup,
                                      const std::function<void(double, const std::string&)>& progress,
                                      const std::function<bool()>& stop) {
  std::vector<ProbePoint> points;
  const auto total = static_cast<double>(KernelKinds().size() * setup.busy.size() * setup.rounds);
  double done = 0;
  for (const KernelKind& kind : KernelKinds()) {
    KernelRun run(kind, setup);
    if (progress) progress(done / total, kind.name);
    if (auto prepared = run.Prepare(); !prepared) return tl::make_unexpected(prepared.error());
    std::vector<std::vector<double>> rounds(setup.busy.size());
    // Rounds outermost: what disturbs the machine for a while touches all counts alike.
    for (int r = 0; r < setup.rounds; r++) {
      for (size_t b = 0; b < setup.busy.size(); b++) {
        if (stop && stop()) return Fail(ErrorCode::kUnavailable, "interrupted");
        const auto rate = run.Round(static_cast<size_t>(setup.busy[b]));
        if (!rate) return tl::make_unexpected(rate.error());
        rounds[b].push_back(*rate);
        done++;
        if (progress) progress(done / total, kind.name);
      }
    }
    for (size_t b = 0; b < setup.busy.size(); b++) {
      const report::Spread spread = report::SpreadOf(rounds[b]);
      points.push_back({kind.name, setup.busy[b], spread.median, spread.min, spread.max});
    }
  }
  return points;
}

}  // namespace spillway::planner
