// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/measure.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <x86intrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>
#include <vector>

#include "base/relax.h"
#include "dispatch/slot_ring.h"

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;
using dispatch::Event;
using dispatch::kCacheLine;
using Clock = std::chrono::steady_clock;

double SecondsOf(const rusage& used) {
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return SecondsOf(used);
}

// How long a consumer looks for events before it calls them lost: of its own CPU time, as a process that was
// stopped, or kept from its cores, has lost nothing.
constexpr double kPatienceS = 10;

double ThreadCpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return SecondsOf(used);
}

// Counts of durations in cycles, to 1/32 of their size.
class Histogram {
 public:
  void Add(uint64_t value) { counts_[BucketOf(value)]++; }
  double Percentile(double percent) const {
    uint64_t total = 0;
    for (uint64_t count : counts_) total += count;
    if (total == 0) return 0;
    auto rank = static_cast<uint64_t>(static_cast<double>(total) * percent / 100);
    rank = std::min(rank, total - 1);
    size_t bucket = 0;
    for (uint64_t seen = counts_[0]; seen <= rank; seen += counts_[++bucket]) {
    }
    return Middle(bucket);
  }

 private:
  static constexpr int kSteps = 32;
  static size_t BucketOf(uint64_t value) {
    if (value < kSteps) return value;
    const int shift = std::bit_width(value) - 6;
    return static_cast<size_t>(shift + 1) * kSteps + ((value >> shift) & (kSteps - 1));
  }
  static double Middle(size_t bucket) {
    if (bucket < kSteps) return static_cast<double>(bucket);
    const size_t shift = bucket / kSteps - 1;
    return static_cast<double>((kSteps + bucket % kSteps) << shift) + static_cast<double>(1ULL << shift) / 2;
  }
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(61 * kSteps);
};

// Times at which a thread of ours stood still: another process, an interrupt, the hypervisor. Seen from one
// thing that cannot take so long to the next: a turn of a loop, or one call of an engine, none of which
// blocks. What waited meanwhile takes as long again to be worked off, at half the load; until then events are
// `Disturbed`. By how they are seen, a slow call of an engine is forgiven too: each engine's alike.
// Cache lines apart, on purpose. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class Interruptions {
 public:
  explicit Interruptions(double cycles_per_us)
      : shortest_(static_cast<uint64_t>(kShortestUs * cycles_per_us)) {}
  void Ran(uint64_t from, uint64_t to) {
    if (to - from > shortest_) over_.store(to + (to - from), std::memory_order_relaxed);
  }
  bool Disturbed(uint64_t due) const { return due < over_.load(std::memory_order_relaxed); }

 private:
  static constexpr double kShortestUs = 10;
  const uint64_t shortest_;
  alignas(kCacheLine) std::atomic<uint64_t> over_{0};  // one thread writes
};

uint32_t NextFlow(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 22;  // 1,024 of them
}

// As much as goes through. What one thread writes for each event is on no line that the other reads then: the
// engine is measured, not the measuring.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class ThroughputRun {
 public:
  ThroughputRun(Rig& rig, size_t burst, bool in_order, std::chrono::milliseconds duration)
      : rig_(rig), burst_(burst), in_order_(in_order), duration_(duration) {}

  void Produce() {
    BindTo(0);
    alignas(kCacheLine) Event events[kMaxBurst];
    rig_.Prepare(events);
    uint32_t flows = 1;
    uint64_t next = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
      for (size_t i = 0; i < burst_; i++) {
        events[i].flow = NextFlow(flows);
        events[i].user = next + i;
      }
      size_t done = 0;
      while (done < burst_ && !stop_.load(std::memory_order_relaxed)) {
        const size_t taken = rig_.Put({events + done, burst_ - done});
        if (taken == 0) base::Relax();
        done += taken;
      }
      next += done;
    }
    rig_.Flush();
    producer_cpu_s_ = ThreadCpuSeconds();
    produced_.store(next, std::memory_order_release);
  }

  void Consume() {
    BindTo(1);
    alignas(kCacheLine) Event events[kMaxBurst];
    const auto warm = Clock::now() + duration_ / 5, end = warm + duration_;
    uint64_t total = 0, first = 0;
    Clock::time_point measured_from{};
    auto next_look = 4096u;
    bool measured = false, overtook = false;
    uint64_t measured_total = 0;
    double patient_from = 0;
    while (total < produced_.load(std::memory_order_acquire)) {
      const size_t got = rig_.Get({events, burst_});
      for (size_t i = 0; i < got; i++) {
        overtook |= in_order_ && events[i].user != total + i;
      }
      total += got;
      if (--next_look != 0) continue;
      next_look = 1024;
      const auto now = Clock::now();
      if (measured_from == Clock::time_point{} && now >= warm) {
        measured_from = now;
        first = total;
      } else if (!measured && now >= end) {
        measured = true;
        mevents_per_s_ = static_cast<double>(total - first) /
                         std::chrono::duration<double, std::micro>(now - measured_from).count();
        stop_.store(true, std::memory_order_relaxed);
      }
      if (!measured || total != measured_total) {
        measured_total = total;
        patient_from = ThreadCpuSeconds();
      } else if (ThreadCpuSeconds() > patient_from + kPatienceS) {
        lost_ = true;
        break;
      }
    }
    stop_ = true;
    total_ = total;
    overtook_ = overtook;
    // What the engine still holds of the last burst is ended by one more look.
    (void)rig_.Get({events, burst_});
  }

  // Once both have ended; `cpu_s` is what they and the engine's own threads took.
  Result<Throughput> Outcome(double cpu_s) const {
    if (lost_)
      return Fail(ErrorCode::kSystem,
                  fmt::format("no event came for {} s of CPU time after the first {}: some were lost",
                              kPatienceS, total_));
    if (overtook_) return Fail(ErrorCode::kSystem, "events overtook each other");
    Throughput result;
    result.mevents_per_s = mevents_per_s_;
    result.producer_cpu_s_per_mevent = producer_cpu_s_ / static_cast<double>(total_) * 1e6;
    result.cpu_s_per_mevent = cpu_s / static_cast<double>(total_) * 1e6;
    return result;
  }

 private:
  Rig& rig_;
  const size_t burst_;
  const bool in_order_;
  const std::chrono::milliseconds duration_;
  // Each is written once, or when all is over.
  alignas(kCacheLine) std::atomic<bool> stop_{false};
  std::atomic<uint64_t> produced_{~0ULL};  // until it has ended
  double producer_cpu_s_ = 0;
  uint64_t total_ = 0;
  double mevents_per_s_ = 0;
  bool overtook_ = false, lost_ = false;
};

// Bursts at even times, each event with the time when it should have gone: waiting to get in is part of its
// latency.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class LatencyRun {
 public:
  LatencyRun(Rig& rig, size_t burst, double events_per_s, std::chrono::milliseconds duration)
      : rig_(rig),
        burst_(burst),
        events_per_s_(events_per_s),
        gap_(static_cast<uint64_t>(static_cast<double>(burst) / events_per_s * 1e6 * cycles_per_us_)),
        length_(static_cast<uint64_t>(std::chrono::duration<double, std::micro>(duration).count() *
                                      cycles_per_us_)) {}

  void Produce() {
    BindTo(0);
    alignas(kCacheLine) Event events[kMaxBurst];
    rig_.Prepare(events);
    uint32_t flows = 1;
    uint64_t sent = 0;
    const uint64_t start = __rdtsc();
    uint64_t due = start, now = start;
    while (due < start + length_ && now < start + 10 * length_ && !lost_.load(std::memory_order_relaxed)) {
      do {
        const uint64_t last = now;
        if (now < due) base::Relax();
        now = __rdtsc();
        at_producer_.Ran(last, now);
      } while (now < due);
      for (size_t i = 0; i < burst_; i++) {
        events[i].flow = NextFlow(flows);
        events[i].user = due;
      }
      now = Put(events);
      sent += burst_;
      due += gap_;
    }
    elapsed_ = __rdtsc() - start;
    sent_.store(sent, std::memory_order_release);
  }

  void Consume() {
    BindTo(1);
    alignas(kCacheLine) Event events[kMaxBurst];
    uint64_t total = 0;
    double patient_from = ThreadCpuSeconds();
    uint32_t idle = 0;
    uint64_t now = __rdtsc();
    while (total < sent_.load(std::memory_order_acquire)) {
      const size_t got = rig_.Get({events, burst_});
      const uint64_t last = now;
      now = __rdtsc();
      at_consumer_.Ran(last, now);
      if (got == 0) {
        if (++idle % 65536 == 0 && ThreadCpuSeconds() > patient_from + kPatienceS) {
          lost_ = true;
          break;
        }
        continue;
      }
      if (idle >= 65536) patient_from = ThreadCpuSeconds();
      idle = 0;
      for (size_t i = 0; i < got; i++) Note(events[i].user, now);
      total += got;
    }
    (void)rig_.Get({events, burst_});
  }

  // Once both have ended.
  Result<Latency> Outcome() const {
    if (lost_) return Fail(ErrorCode::kSystem, "events were lost");
    const auto sent = static_cast<double>(sent_.load());
    Latency result;
    result.p50_us = all_.Percentile(50) / cycles_per_us_;
    result.p99_us = all_.Percentile(99) / cycles_per_us_;
    result.p999_us = all_.Percentile(99.9) / cycles_per_us_;
    result.running_p99_us = running_.Percentile(99) / cycles_per_us_;
    result.running_p999_us = running_.Percentile(99.9) / cycles_per_us_;
    result.interrupted_pct = 100 * static_cast<double>(disturbed_) / sent;
    result.enqueue_cycles = static_cast<double>(put_cycles_) / sent;
    result.achieved = sent / (static_cast<double>(elapsed_) / cycles_per_us_ / 1e6) / events_per_s_;
    return result;
  }

 private:
  // The time when the last try began.
  uint64_t Put(Event* events) {
    const uint64_t before = __rdtsc();
    uint64_t now = before;
    for (size_t done = 0; done < burst_ && !lost_.load(std::memory_order_relaxed);) {
      done += rig_.Put({events + done, burst_ - done});
      if (done == burst_) break;
      // Back-pressure is the engine's, and counts.
      base::Relax();
      const uint64_t last = now;
      now = __rdtsc();
      at_producer_.Ran(last, now);
    }
    rig_.Flush();
    put_cycles_ += __rdtsc() - before;
    return now;
  }
  void Note(uint64_t due, uint64_t now) {
    const uint64_t took = now > due ? now - due : 0;
    all_.Add(took);
    if (at_producer_.Disturbed(due) || at_consumer_.Disturbed(due))
      disturbed_++;
    else
      running_.Add(took);
  }

  Rig& rig_;
  const size_t burst_;
  const double events_per_s_, cycles_per_us_ = CyclesPerMicrosecond();
  const uint64_t gap_, length_;  // cycles
  // The producer's; the consumer reads the first of them, and when it stood still.
  alignas(kCacheLine) std::atomic<uint64_t> sent_{~0ULL};  // until it has ended
  alignas(kCacheLine) uint64_t put_cycles_ = 0;
  uint64_t elapsed_ = 1;
  Interruptions at_producer_{cycles_per_us_};
  // The consumer's.
  std::atomic<bool> lost_{false};
  Interruptions at_consumer_{cycles_per_us_};
  Histogram all_, running_;
  uint64_t disturbed_ = 0;
};

}  // namespace

void BindTo(int wanted) {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  if (CPU_COUNT(&allowed) < 2) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ < wanted) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
}

double CyclesPerMicrosecond() {
  static const double cycles = [] {
    const auto started = Clock::now();
    const uint64_t from = __rdtsc();
    while (Clock::now() - started < 20ms) {
    }
    const uint64_t to = __rdtsc();
    return static_cast<double>(to - from) /
           std::chrono::duration<double, std::micro>(Clock::now() - started).count();
  }();
  return cycles;
}

Result<Throughput> MeasureThroughput(Rig& rig, size_t burst, bool in_order,
                                     std::chrono::milliseconds duration) {
  const double cpu_before = CpuSeconds();
  ThroughputRun run(rig, burst, in_order, duration);
  std::thread producer([&] { run.Produce(); });
  std::thread consumer([&] { run.Consume(); });
  producer.join();
  consumer.join();
  return run.Outcome(CpuSeconds() - cpu_before);
}

Result<Latency> MeasureLatency(Rig& rig, size_t burst, double events_per_s,
                               std::chrono::milliseconds duration) {
  LatencyRun run(rig, burst, events_per_s, duration);
  std::thread producer([&] { run.Produce(); });
  std::thread consumer([&] { run.Consume(); });
  producer.join();
  consumer.join();
  return run.Outcome();
}

}  // namespace spillway::bench
