// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/dispatch_bench.h"

#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/dispatch/energy.h"
#include "bench/dispatch/measure.h"
#include "bench/dispatch/scaling.h"
#include "report/percentile.h"

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;

constexpr double kLightRate = 1e5;  // one event every 10 us

struct Row {
  std::string part, engine, kind, varied;
  size_t burst = 32;
  bool in_order = true;
  bool two_stage = false;
  std::optional<DomainRigOptions> domain;  // a guideline's; else by engine and kind

  std::vector<double> mevents_per_s, cpu_s, producer_cpu_s, enqueue_cycles, p50_us, p99_us, p999_us,
      running_p99_us, running_p999_us, interrupted_pct, light_p50_us, light_p99_us, light_running_p99_us,
      achieved, joules;
  bool dead = false;  // the machine lacks the engine
};

std::vector<Row> EngineRows() {
  std::vector<Row> rows;
  for (const RigKind& kind : RigKinds()) {
    for (size_t burst : {1, 32}) {
      Row row;
      row.part = "engines";
      row.engine = kind.engine;
      row.kind = kind.kind;
      row.burst = burst;
      row.in_order = kind.kind != "distributor" && kind.kind != "unordered";
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<Row> GuidelineRows() {
  std::vector<Row> rows;
  auto add = [&](const std::string& varied, size_t burst,
                 const std::function<void(DomainRigOptions&)>& change) {
    Row row;
    row.part = "guideline";
    row.engine = "native";
    row.burst = burst;
    row.varied = varied;
    row.domain.emplace();
    change(*row.domain);
    row.kind = std::string(ToString(row.domain->queue.kind));
    row.in_order = row.domain->priorities == 1 && row.domain->queue.shards == 1;
    rows.push_back(std::move(row));
  };
  for (size_t burst : {2, 4, 8, 16, 64}) add(fmt::format("burst {}", burst), burst, [](DomainRigOptions&) {});
  add("wait sleep", 32, [](DomainRigOptions& options) { options.wait = dispatch::Wait::kSleep; });
  add("wait umwait", 32, [](DomainRigOptions& options) { options.wait = dispatch::Wait::kUmwait; });
  add("8 priorities", 32, [](DomainRigOptions& options) { options.priorities = dispatch::kPriorities; });
  add("4 shards", 32, [](DomainRigOptions& options) { options.queue.shards = 4; });
  add("deadline", 32, [](DomainRigOptions& options) { options.deadline = true; });
  return rows;
}

Result<void> MeasureRow(Row& row, const DispatchBenchOptions& options) {
  if (row.dead) return {};
  // One at a time: all at once do not fit into DPDK's memory.
  const auto made = row.domain ? MakeDomainRig(row.engine, *row.domain) : MakeRig({row.engine, row.kind});
  if (!made) {
    row.dead = made.error().code == ErrorCode::kUnavailable;
    return row.dead ? Result<void>() : tl::make_unexpected(made.error());
  }
  Rig& rig = **made;
  auto wrong = [&](const Error& error) {
    return Fail(error.code,
                fmt::format("{} {}, burst {}: {}", row.engine, row.kind, row.burst, error.message));
  };
  const PackageEnergy package;
  const auto joules_before = package.Joules();
  const auto throughput = MeasureThroughput(rig, row.burst, row.in_order, options.duration);
  const auto joules_after = package.Joules();
  if (!throughput) return wrong(throughput.error());
  // The counter wraps; such a round has no figure.
  if (joules_before && joules_after && *joules_after > *joules_before)
    row.joules.push_back(
        (*joules_after - *joules_before) /
        (throughput->mevents_per_s * std::chrono::duration<double>(options.duration).count()));
  row.mevents_per_s.push_back(throughput->mevents_per_s);
  row.cpu_s.push_back(throughput->cpu_s_per_mevent);
  row.producer_cpu_s.push_back(throughput->producer_cpu_s_per_mevent);
  const auto half = MeasureLatency(rig, row.burst, row.mevents_per_s.front() * 1e6 / 2, options.duration);
  if (!half) return wrong(half.error());
  row.enqueue_cycles.push_back(half->enqueue_cycles);
  row.p50_us.push_back(half->p50_us);
  row.p99_us.push_back(half->p99_us);
  row.p999_us.push_back(half->p999_us);
  row.running_p99_us.push_back(half->running_p99_us);
  row.running_p999_us.push_back(half->running_p999_us);
  row.interrupted_pct.push_back(half->interrupted_pct);
  row.achieved.push_back(half->achieved);
  if (row.burst == 1 || row.part == "guideline") {
    const auto light = MeasureLatency(rig, 1, kLightRate, options.duration);
    if (!light) return wrong(light.error());
    row.light_p50_us.push_back(light->p50_us);
    row.light_p99_us.push_back(light->p99_us);
    row.light_running_p99_us.push_back(light->running_p99_us);
  }
  return {};
}

ordered_json ToJson(const Row& row) {
  const report::Spread rate = report::SpreadOf(row.mevents_per_s);
  ordered_json json;
  json["part"] = row.part;
  json["engine"] = row.engine;
  json["kind"] = row.kind;
  json["burst"] = row.burst;
  if (!row.varied.empty()) json["varied"] = row.varied;
  json["mevents_per_s"] = rate.median;
  json["mevents_per_s_min"] = rate.min;
  json["mevents_per_s_max"] = rate.max;
  json["ns_per_event"] = 1e3 / rate.median;
  json["enqueue_cycles"] = report::Median(row.enqueue_cycles);
  json["cpu_s_per_mevent"] = report::Median(row.cpu_s);
  json["producer_cpu_s_per_mevent"] = report::Median(row.producer_cpu_s);
  json["p50_us"] = report::Median(row.p50_us);
  json["p99_us"] = report::Median(row.p99_us);
  json["p999_us"] = report::Median(row.p999_us);
  json["running_p99_us"] = report::Median(row.running_p99_us);
  json["running_p999_us"] = report::Median(row.running_p999_us);
  json["interrupted_pct"] = report::Median(row.interrupted_pct);
  json["achieved"] = report::Median(row.achieved);
  if (!row.light_p50_us.empty()) {
    json["light_p50_us"] = report::Median(row.light_p50_us);
    json["light_p99_us"] = report::Median(row.light_p99_us);
    json["light_running_p99_us"] = report::Median(row.light_running_p99_us);
  }
  if (!row.joules.empty()) json["package_joules_per_mevent"] = report::Median(row.joules);
  return json;
}

size_t UsableCpus() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  return static_cast<size_t>(CPU_COUNT(&allowed));
}

// What enqueueing costs on the host and on a NIC: by the atomic rows, burst 32.
void AddEnergy(const std::vector<Row>& rows, const PowerBaseline& power, report::Document& document) {
  constexpr double kMevents = 100;  // DLB's rate, for which the paper needs five host cores
  std::optional<double> local, remote;
  for (const Row& row : rows) {
    if (row.dead || row.part != "engines" || row.engine != "native" || row.burst != 32) continue;
    if (row.kind == "atomic") local = report::Median(row.producer_cpu_s);
    if (row.kind == "remote-shm") remote = report::Median(row.producer_cpu_s);
  }
  if (!local || !remote) return;
  const EnqueueEnergy energy = EnergyOfEnqueueing(power, *local, *remote, kMevents);
  ordered_json json;
  json["part"] = "energy";
  json["mevents_per_s"] = kMevents;
  json["baseline_w"] = power.host_watts;
  json["host_cores"] = energy.host_cores;
  json["host_w"] = energy.host_watts;
  json["nic_share_pct"] = 100 * energy.nic_share;
  json["nic_w"] = energy.nic_watts;
  json["saving_pct"] = energy.saving_pct;
  json["saving_if_nic_idle_pct"] = energy.saving_idle_pct;
  json["cores_freed_for_10_pct"] = energy.share_for_10_pct * power.host_cores;
  document.AddRow(std::move(json));
}

struct Aim {
  const char *kind, *peer_engine, *peer_kind;
  const char* name;
};

constexpr Aim kAims[] = {
    {"atomic", "event_dsw", "atomic", "native_atomic_over_event_dsw_atomic"},
    {"atomic", "rte_ring", "spsc", "native_atomic_over_rte_ring_spsc"},
    {"ordered", "event_sw", "ordered", "native_ordered_over_event_sw_ordered"},
    {"two-stage", "event_dsw", "two-stage", "native_two_stage_over_event_dsw_two_stage"},
    {"directed", "rte_ring", "spsc", "native_directed_over_rte_ring_spsc"},
    {"remote-shm", "native", "atomic", "native_remote_shm_over_native_atomic"},
    {"unordered", "rte_ring", "mpmc", "native_unordered_over_rte_ring_mpmc"},
};

}  // namespace

Result<report::Document> RunDispatchBench(const DispatchBenchOptions& asked,
                                          const OnDispatchProgress& on_progress) {
  DispatchBenchOptions options = asked;
  if (options.quick) {
    options.rounds = std::min(options.rounds, 2);
    options.duration = std::max(options.duration / 10, std::chrono::milliseconds(5));
  }
  std::vector<Row> rows = EngineRows();
  for (Row& row : GuidelineRows()) rows.push_back(std::move(row));
  std::vector<ScalingRow> scaling = ScalingRows(UsableCpus());
  if (!options.only.empty()) {
    const auto unwanted = [&](const std::string& name) {
      return std::none_of(options.only.begin(), options.only.end(),
                          [&](const std::string& start) { return name.starts_with(start); });
    };
    std::erase_if(rows, [&](const Row& row) {
      return unwanted(row.varied.empty() ? row.engine + " " + row.kind : row.varied);
    });
    std::erase_if(scaling, [&](const ScalingRow& row) {
      return unwanted("scaling " + row.kind.engine + " " + row.kind.kind);
    });
    if (rows.empty() && scaling.empty())
      return Fail(ErrorCode::kBadInput, "--only: no row's name begins with that");
  }
  (void)CyclesPerMicrosecond();  // takes a moment the first time
  double done = 0;
  const double steps = static_cast<double>(rows.size() + scaling.size()) * options.rounds;
  for (int round = 0; round < options.rounds; round++) {
    for (Row& row : rows) {
      on_progress(done++ / steps, fmt::format("round {}: {} {}", round + 1, row.engine, row.kind));
      if (const auto measured = MeasureRow(row, options); !measured)
        return tl::make_unexpected(measured.error());
    }
    for (ScalingRow& row : scaling) {
      on_progress(done++ / steps, fmt::format("round {}: {} {}, {} workers", round + 1, row.kind.engine,
                                              row.kind.kind, row.workers));
      if (const auto measured = MeasureScaling(row, options.duration); !measured)
        return tl::make_unexpected(measured.error());
    }
  }
  report::Document document("dispatch");
  document.SetRounds(options.rounds);
  std::map<std::string, double> medians;
  for (const Row& row : rows) {
    if (row.dead) continue;
    document.AddRow(ToJson(row));
    if (row.part == "engines" && row.burst == 32)
      medians[row.engine + " " + row.kind] = report::Median(row.mevents_per_s);
  }
  AddEnergy(rows, options.power, document);
  for (const ScalingRow& row : scaling)
    if (!row.dead) document.AddRow(ToJson(row));
  for (const Aim& aim : kAims) {
    const auto ours = medians.find(std::string("native ") + aim.kind);
    const auto peer = medians.find(std::string(aim.peer_engine) + " " + aim.peer_kind);
    if (ours != medians.end() && peer != medians.end())
      document.SetRatio(aim.name, ours->second / peer->second);
  }
  return document;
}

}  // namespace spillway::bench
