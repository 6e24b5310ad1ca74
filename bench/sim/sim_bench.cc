// SPDX-License-Identifier: Apache-2.0
#include "bench/sim/sim_bench.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/percentile.h"
#include "sim/random.h"
#include "sim/run.h"
#include "sim/workload.h"

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

double CpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

double ResidentMib() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

// 256 servers of a host CPU, two SmartNICs and a GPU, fast enough that a run is all decisions.
sim::App Pool() {
  auto unit = [](const char* name, spw_unit_kind kind, double capacity, uint32_t workers,
                 sim::Duration service) {
    sim::UnitProfile profile;
    profile.name = name;
    profile.kind = kind;
    profile.capacity = capacity;
    profile.workers = workers;
    profile.service = service;
    profile.fixed = 3ms - service;
    return profile;
  };
  sim::App app;
  app.name = "1024 units";
  app.groups = {{256,
                 {unit("cpu", SPW_KIND_CPU, 5, 1, 436us), unit("nic1", SPW_KIND_SMARTNIC, 1, 1, 2182us),
                  unit("nic2", SPW_KIND_SMARTNIC, 1, 1, 2182us), unit("gpu", SPW_KIND_GPU, 4, 2, 1091us)}}};
  return app;
}

struct Kind {
  const char* server_policy;
  sim::PolicyChoice policy;
  sim::Reports reports;
  std::vector<double> mreq_per_s;
  double grown_mib = 0;
};

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  sim::Reports periodic, answered;
  periodic.name = "every 20 ms";
  periodic.period = 20ms;
  answered.name = "at every answer";
  periodic.delay = answered.delay = 1100us;
  for (const sim::Reports& reports : {periodic, answered}) {
    for (auto [name, server] : {std::pair{"maglev", SPW_SERVER_MAGLEV}, {"p2c", SPW_SERVER_P2C}}) {
      Kind kind{name, {}, reports, {}};
      kind.policy.server_policy = server;
      kinds.push_back(std::move(kind));
    }
  }
  return kinds;
}

double Measure(const Kind& kind, const sim::App& app, uint64_t requests) {
  static const sim::Arrivals poisson;
  sim::RunSetup setup;
  setup.app = &app;
  setup.arrivals = &poisson;
  setup.reports = &kind.reports;
  setup.policy = &kind.policy;
  setup.rate_rps = 0.8 * 256 * (1 / 436e-6 + 2 / 2182e-6 + 2 / 1091e-6);
  setup.wire = 50us;
  setup.requests = requests;
  setup.silent_after = 3s;
  const double before = CpuSeconds();
  const sim::RunResult result = sim::Run(setup);
  const double seconds = CpuSeconds() - before;
  // A benchmark that simulated nonsense has no figure.
  if (result.loss > 0.001 || result.p50_ms < 3) return 0;
  return static_cast<double>(requests) / seconds / 1e6;
}

// The same draws, and nothing done with them.
double FloorNs(uint64_t requests) {
  sim::Random arrivals(1), hashes(2), service(3);
  sim::ServiceTimes times(sim::Spread::kLognormal, 0.2);
  const double before = CpuSeconds();
  double sum = 0;
  uint64_t bits = 0;
  for (uint64_t i = 0; i < requests; i++) {
    sum += arrivals.Exponential() + times.Draw(service);
    bits ^= hashes.Bits();
  }
  volatile double keep = sum + static_cast<double>(bits & 1);
  (void)keep;
  return (CpuSeconds() - before) / static_cast<double>(requests) * 1e9;
}

}  // namespace

report::Document RunSimBench(const SimBenchOptions& options,
                             const std::function<void(double, const std::string&)>& on_progress) {
  const sim::App app = Pool();
  std::vector<Kind> kinds = Kinds();
  std::vector<double> floors;
  const double steps = static_cast<double>(kinds.size()) * (options.rounds + 10);
  double done = 0;
  for (int round = 0; round < options.rounds; round++) {
    for (Kind& kind : kinds) {
      floors.push_back(FloorNs(options.requests / 4));
      kind.mreq_per_s.push_back(Measure(kind, app, options.requests));
      on_progress(++done / steps, fmt::format("round {}", round + 1));
    }
  }
  for (Kind& kind : kinds) {
    const double before = ResidentMib();
    Measure(kind, app, options.requests * 10);
    kind.grown_mib = ResidentMib() - before;
    on_progress((done += 10) / steps, "memory");
  }

  report::Document document("sim");
  document.SetRounds(options.rounds);
  double slowest = 1e9;
  for (const Kind& kind : kinds) {
    const double median = report::Median(kind.mreq_per_s);
    ordered_json row;
    row["server_policy"] = kind.server_policy;
    row["unit_policy"] = "headroom";
    row["reports"] = kind.reports.name;
    row["units"] = 1024;
    row["requests"] = options.requests;
    row["mreq_per_s"] = median;
    row["mreq_per_s_best"] = *std::max_element(kind.mreq_per_s.begin(), kind.mreq_per_s.end());
    row["ns_per_request"] = 1e3 / median;
    row["floor_ns"] = report::Median(floors);
    row["grown_mib"] = kind.grown_mib;
    document.AddRow(std::move(row));
    slowest = std::min(slowest, median);
  }
  document.SetRatio("slowest_mreq_per_s", slowest);
  return document;
}

report::Table MakeSimTable(const report::Document& document) {
  return report::Table::FromRows(document.rows());
}

}  // namespace spillway::bench
