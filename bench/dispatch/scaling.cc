// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/scaling.h"

#include <fmt/format.h>
#include <x86intrin.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/relax.h"
#include "bench/dispatch/measure.h"
#include "report/percentile.h"

namespace spillway::bench {
namespace {

using dispatch::Event;
using Clock = std::chrono::steady_clock;

constexpr int kServiceNs = 500;
constexpr size_t kServedBurst = 8;  // what a worker takes at once, others wait for
constexpr uint32_t kFlows = 1024;
constexpr std::chrono::seconds kPatience{10};

// One thread's; the sum is of what events carry, so that a lost and a doubled one do not make up for each
// other.
struct alignas(128) Count {
  std::atomic<uint64_t> events{0}, sum{0};
  void Add(uint64_t more, uint64_t more_sum) {
    events.store(events.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    sum.store(sum.load(std::memory_order_relaxed) + more_sum, std::memory_order_relaxed);
  }
};
struct Total {
  uint64_t events = 0, sum = 0;
  bool operator==(const Total&) const = default;
};
Total TotalOf(const std::vector<Count>& counts) {
  Total total;
  for (const Count& count : counts) {
    total.events += count.events.load(std::memory_order_relaxed);
    total.sum += count.sum.load(std::memory_order_relaxed);
  }
  return total;
}

// `no_more` is to be put; and `all` may go.
struct Ends {
  std::atomic<bool> no_more{false}, all{false};
  std::atomic<size_t> producers{0};  // that put nothing more
};

void Produce(Rig& rig, size_t burst, uint32_t seed, Ends& ends, Count& count) {
  Event events[kMaxBurst];
  rig.Prepare(events);
  uint32_t state = seed;
  while (!ends.no_more.load(std::memory_order_relaxed)) {
    for (size_t i = 0; i < burst; i++) {
      state = state * 1664525u + 1013904223u;
      events[i].flow = (state >> 22) % kFlows;
      events[i].user = state;
    }
    size_t done = 0;
    uint64_t sum = 0;
    while (done < burst && !ends.no_more.load(std::memory_order_relaxed)) {
      const size_t taken = rig.Put({events + done, burst - done});
      if (taken == 0) base::Relax();
      for (size_t i = done; i < done + taken; i++) sum += events[i].user;
      done += taken;
    }
    count.Add(done, sum);
  }
  ends.producers++;
  // event_dsw moves flows from worker to worker only while every port has a part in it.
  while (!ends.all.load(std::memory_order_relaxed)) {
    rig.Flush();
    base::Relax();
  }
}

void Work(Rig& rig, size_t burst, uint64_t service_cycles, const Ends& ends, Count& count) {
  Event events[kMaxBurst];
  while (!ends.all.load(std::memory_order_relaxed)) {
    const size_t got = rig.Get({events, burst});
    uint64_t sum = 0;
    for (size_t i = 0; i < got; i++) {
      sum += events[i].user;
      if (service_cycles == 0) continue;
      for (const uint64_t end = __rdtsc() + service_cycles; __rdtsc() < end;) base::Relax();
    }
    if (got > 0) count.Add(got, sum);
  }
  // What the engine still holds of the last burst is ended by one more look.
  (void)rig.Get({events, burst});
}

}  // namespace

std::vector<ScalingRow> ScalingRows(size_t cpus) {
  std::vector<ScalingRow> rows;
  if (cpus < 4) return rows;
  const auto counts = [](size_t most) {
    std::vector<size_t> list;
    for (size_t n = 1; n < most; n *= 2) list.push_back(n);
    list.push_back(most);
    return list;
  };
  for (const RigKind& kind : CrowdKinds()) {
    for (const size_t n : counts((cpus - 1) / 2)) rows.push_back({kind, n, n, 0, 32, {}, false});
    for (const size_t n : counts(cpus - 2)) rows.push_back({kind, 1, n, kServiceNs, kServedBurst, {}, false});
  }
  return rows;
}

Result<void> MeasureScaling(ScalingRow& row, std::chrono::milliseconds duration) {
  if (row.dead) return {};
  // One at a time: all at once do not fit into DPDK's memory.
  auto crowd = MakeCrowd(row.kind, row.producers, row.workers);
  if (!crowd) {
    row.dead = crowd.error().code == ErrorCode::kUnavailable;
    return row.dead ? Result<void>() : tl::make_unexpected(crowd.error());
  }
  const auto service_cycles = static_cast<uint64_t>(row.service_ns * CyclesPerMicrosecond() / 1e3);
  std::vector<Count> put(row.producers), got(row.workers);
  Ends ends;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < row.producers; i++)
    threads.emplace_back([&, i] {
      BindTo(static_cast<int>(i));
      Produce(*crowd->producers[i], row.burst, static_cast<uint32_t>(i + 1), ends, put[i]);
    });
  for (size_t i = 0; i < row.workers; i++)
    threads.emplace_back([&, i] {
      BindTo(static_cast<int>(row.producers + i));
      Work(*crowd->workers[i], row.burst, service_cycles, ends, got[i]);
    });
  std::this_thread::sleep_for(duration / 5);
  const uint64_t first = TotalOf(got).events;
  const auto begun = Clock::now();
  std::this_thread::sleep_for(duration);
  const uint64_t last = TotalOf(got).events;
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
  ends.no_more = true;
  while (ends.producers.load() < row.producers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Total sent = TotalOf(put);
  const auto end = Clock::now() + kPatience;
  while (TotalOf(got).events < sent.events && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ends.all = true;
  for (std::thread& thread : threads) thread.join();
  const Total received = TotalOf(got);
  if (!(sent == received))
    return Fail(ErrorCode::kSystem,
                fmt::format("{} {}, {} producers, {} workers: {} events arrived of {}", row.kind.engine,
                            row.kind.kind, row.producers, row.workers, received.events, sent.events));
  row.mevents_per_s.push_back(static_cast<double>(last - first) / us);
  return {};
}

nlohmann::ordered_json ToJson(const ScalingRow& row) {
  const report::Spread rate = report::SpreadOf(row.mevents_per_s);
  nlohmann::ordered_json json;
  json["part"] = "scaling";
  json["engine"] = row.kind.engine;
  json["kind"] = row.kind.kind;
  json["producers"] = row.producers;
  json["workers"] = row.workers;
  json["burst"] = row.burst;
  json["service_ns"] = row.service_ns;
  json["mevents_per_s"] = rate.median;
  json["mevents_per_s_min"] = rate.min;
  json["mevents_per_s_max"] = rate.max;
  if (row.service_ns > 0)
    json["of_ideal"] = rate.median * row.service_ns / 1e3 / static_cast<double>(row.workers);
  return json;
}

}  // namespace spillway::bench
