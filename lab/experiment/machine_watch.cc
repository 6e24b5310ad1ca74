// SPDX-License-Identifier: Apache-2.0
#include "machine_watch.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace spillway::lab {
namespace {

constexpr int64_t kPeriodNs = 1'000'000;

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

CpuTicks ReadCpuTicks(const std::vector<int>& cpus) {
  std::ifstream in("/proc/stat");
  return ParseCpuTicks(std::string(std::istreambuf_iterator<char>(in), {}), cpus);
}

std::vector<int> UsableCpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(static_cast<size_t>(cpu), &allowed)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

CpuTicks ParseCpuTicks(std::string_view proc_stat, const std::vector<int>& cpus) {
  constexpr int kSteal = 7, kFields = 8;  // guest time, which follows, is part of user time
  std::istringstream in{std::string(proc_stat)};
  std::string line;
  CpuTicks ticks;
  while (std::getline(in, line) && line.starts_with("cpu")) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (std::none_of(cpus.begin(), cpus.end(), [&](int cpu) { return name == "cpu" + std::to_string(cpu); }))
      continue;
    uint64_t value = 0;
    for (int field = 0; field < kFields; field++) {
      if (!(fields >> value)) return {};
      ticks.total += value;
      if (field == kSteal) ticks.stolen += value;
    }
  }
  return ticks;
}

std::vector<int> CpusToWatch(const std::vector<int>& client, const std::vector<int>& units) {
  if (client.empty() || units.empty()) return {};
  std::vector<int> both = client;
  both.insert(both.end(), units.begin(), units.end());
  std::sort(both.begin(), both.end());
  both.erase(std::unique(both.begin(), both.end()), both.end());
  return both;
}

struct MachineWatch::Threads {
  std::atomic<bool> stop{false}, realtime{true};
  std::atomic<uint64_t> late{0};
  std::atomic<int64_t> worst_ns{0};
  std::vector<std::thread> all;

  void Watch(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    sched_setaffinity(0, sizeof(set), &set);
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    sched_param priority{};
    priority.sched_priority = 1;
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) != 0) realtime = false;
    int64_t deadline = NowNs() + kPeriodNs;
    while (!stop) {
      const timespec until{deadline / 1'000'000'000, deadline % 1'000'000'000};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
      const int64_t now = NowNs(), behind = now - deadline;
      if (static_cast<double>(behind) > Disturbance::kLateWakeMs * 1e6) late++;
      int64_t worst = worst_ns;
      while (behind > worst && !worst_ns.compare_exchange_weak(worst, behind)) {
      }
      // Deadlines that were slept through are one late wake-up, not many.
      deadline += kPeriodNs;
      if (deadline <= now) deadline = now + kPeriodNs;
    }
  }
};

MachineWatch::MachineWatch(std::vector<int> cpus)
    : cpus_(cpus.empty() ? UsableCpus() : std::move(cpus)), threads_(std::make_unique<Threads>()) {
  for (const int cpu : cpus_)
    threads_->all.emplace_back([threads = threads_.get(), cpu] { threads->Watch(cpu); });
  Begin();
}

MachineWatch::~MachineWatch() {
  threads_->stop = true;
  for (std::thread& thread : threads_->all) thread.join();
}

void MachineWatch::Begin() {
  threads_->late = 0;
  threads_->worst_ns = 0;
  began_ = ReadCpuTicks(cpus_);
}

Disturbance MachineWatch::End() {
  const CpuTicks now = ReadCpuTicks(cpus_);
  Disturbance seen;
  seen.late_wakes = threads_->late;
  seen.worst_ms = static_cast<double>(threads_->worst_ns) / 1e6;
  if (now.total > began_.total)
    seen.stolen_pct =
        100 * static_cast<double>(now.stolen - began_.stolen) / static_cast<double>(now.total - began_.total);
  return seen;
}

bool MachineWatch::realtime() const { return threads_->realtime; }

}  // namespace spillway::lab
