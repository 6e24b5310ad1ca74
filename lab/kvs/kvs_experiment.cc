// SPDX-License-Identifier: Apache-2.0
#include "lab/kvs/kvs_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "lab/kvs/kv_client.h"
#include "lab/kvs/kv_server.h"
#include "lab/testbed/host_network.h"
#include "report/percentile.h"
#include "report/table.h"
#include "sim/worker_cores.h"

namespace spillway::lab {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kKeys = 100'000;
constexpr double kTimesMean = 10;
constexpr double kMaxLost = 0.01;
constexpr int kMaxRepeats = 3;
constexpr KvFrontEnd kFrontEnds[] = {KvFrontEnd::kRss, KvFrontEnd::kSteal, KvFrontEnd::kDispatch,
                                     KvFrontEnd::kRemote};

double MicrosecondsOf(OrderedStore& store, const KvRequest& request, uint32_t repeat) {
  const auto started = Clock::now();
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; i++) (void)KvServer::Serve(store, request, repeat);
  return std::chrono::duration<double, std::micro>(Clock::now() - started).count() / kTimes;
}

// How many keys a SCAN reads to take `times` as long as a GET does.
uint32_t ScanKeys(OrderedStore& store, uint32_t repeat, uint32_t times) {
  KvRequest get, scan;
  scan.op = KvOp::kScan;
  scan.value = 1000;
  const double get_us = MicrosecondsOf(store, get, repeat), scan_us = MicrosecondsOf(store, scan, 1);
  return std::max(1u, static_cast<uint32_t>(get_us * times / scan_us * 1000));
}

// A core short for the client and the process in the NIC's place: they go first.
bool WorkersYield(int workers) {
  return std::thread::hardware_concurrency() < static_cast<unsigned>(workers) + 2;
}

// The rate at which p99 passes the limit, between the last level within it and the first beyond; log-linear,
// as p99 grows. `levels`: ascending rates and their p99. All within: the last. None: 0.
double RateAtLimit(const std::vector<std::pair<double, double>>& levels, double limit) {
  for (size_t i = 0; i < levels.size(); i++) {
    const auto [rate, p99] = levels[i];
    if (p99 <= limit) continue;
    if (i == 0) return 0;
    const auto [before, p99_before] = levels[i - 1];
    return before + (rate - before) * std::log(limit / p99_before) / std::log(p99 / p99_before);
  }
  return levels.empty() ? 0 : levels.back().first;
}

struct Cell {
  int scan_pct, load_pct;
  KvFrontEnd front_end;
  double rate_rps = 0;
  std::vector<double> p50_us, p99_us, answered_pct, nic_cores, behind_us;
};

class Kvs {
 public:
  Kvs(const KvsOptions& options, const HostNetwork& network, const OnKvsProgress& on_progress,
      report::Document& document)
      : options_(options), network_(network), on_progress_(on_progress), document_(document), store_(kKeys) {}

  Result<void> Run() {
    scan_keys_ = ScanKeys(store_, options_.repeat, options_.scan_times);
    for (int scan_pct : options_.scan_pct) {
      if (const auto mix = RunMix(scan_pct); !mix) return mix;
    }
    return {};
  }

 private:
  struct Attempt {
    KvOutcome outcome;
    double nic_cores = 0;
  };

  Result<Attempt> Try(const Cell& cell) {
    KvServerSetup setup;
    setup.front_end = cell.front_end;
    setup.workers = options_.workers;
    setup.repeat = options_.repeat;
    setup.workers_yield = WorkersYield(options_.workers);
    setup.network = &network_;
    auto server = KvServer::Start(setup, store_);
    if (!server) return tl::make_unexpected(server.error());
    KvLoad load;
    load.address = (*server)->address();
    load.port = (*server)->port();
    load.rate_rps = cell.rate_rps;
    load.duration = options_.duration;
    load.scan_share = cell.scan_pct / 100.0;
    load.scan_keys = scan_keys_;
    load.keys = kKeys;
    // The same requests at the same times for every front end: what differs is theirs.
    load.seed = static_cast<uint64_t>(cell.p50_us.size()) + 1;
    const auto started = Clock::now();
    auto outcome = RunKvLoad(load, network_);
    (*server)->Stop();
    if (!outcome) return tl::make_unexpected(outcome.error());
    if (outcome->wrong > 0)
      return Fail(ErrorCode::kSystem,
                  fmt::format("{}: {} wrong answers", ToString(cell.front_end), outcome->wrong));
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    return Attempt{*outcome, (*server)->nic_cpu_s() / seconds};
  }

  // A run in which the client itself was later than a request is long says nothing of the server: again.
  Result<void> Measure(Cell& cell, double mean_us) {
    Attempt best;
    best.outcome.behind_us = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= kMaxRepeats && best.outcome.behind_us > mean_us; i++) {
      const auto attempt = Try(cell);
      if (!attempt) return tl::make_unexpected(attempt.error());
      if (attempt->outcome.behind_us < best.outcome.behind_us) best = *attempt;
    }
    const KvOutcome& outcome = best.outcome;
    cell.p50_us.push_back(outcome.p50_us);
    cell.p99_us.push_back(outcome.p99_us);
    cell.answered_pct.push_back(100.0 * static_cast<double>(outcome.answered) /
                                static_cast<double>(outcome.sent));
    cell.nic_cores.push_back(best.nic_cores);
    cell.behind_us.push_back(outcome.behind_us);
    return {};
  }

  Result<void> RunMix(int scan_pct) {
    on_progress_(done_, fmt::format("scan {} %: capacity", scan_pct));
    // What the workers serve when there is always something to serve.
    KvRequest get, scan;
    scan.op = KvOp::kScan;
    scan.value = scan_keys_;
    const double share = scan_pct / 100.0;
    const double work_us =
        (1 - share) * MicrosecondsOf(store_, get, options_.repeat) + share * MicrosecondsOf(store_, scan, 1);
    const Cell full{scan_pct, 0, KvFrontEnd::kRss, options_.workers * 1e6 / work_us * 1.5, {}, {}, {},
                    {},       {}};
    std::vector<double> capacities;
    for (int i = 0; i < 3; i++) {
      const auto overloaded = Try(full);
      if (!overloaded) return tl::make_unexpected(overloaded.error());
      capacities.push_back(static_cast<double>(overloaded->outcome.answered_by_end) /
                           std::chrono::duration<double>(options_.duration).count());
    }
    const double served = report::Median(capacities);
    const double mean_us = options_.workers * 1e6 / served;

    std::vector<Cell> cells;
    for (int load_pct : options_.load_pct) {
      for (KvFrontEnd front_end : kFrontEnds)
        cells.push_back({scan_pct, load_pct, front_end, served * load_pct / 100, {}, {}, {}, {}, {}});
    }
    for (int round = 0; round < options_.rounds; round++) {
      for (Cell& cell : cells) {
        on_progress_(done_, fmt::format("scan {} %, round {}: {} at {} %", scan_pct, round + 1,
                                        ToString(cell.front_end), cell.load_pct));
        if (const auto ran = Measure(cell, mean_us); !ran) return tl::make_unexpected(ran.error());
        done_ += 1.0 / static_cast<double>(options_.scan_pct.size() * cells.size()) / options_.rounds;
      }
    }
    Report(cells, scan_pct, mean_us);
    return {};
  }

  void Report(const std::vector<Cell>& cells, int scan_pct, double mean_us) {
    const double limit_us = kTimesMean * mean_us;
    std::map<KvFrontEnd, std::vector<std::pair<double, double>>> levels;
    for (const Cell& cell : cells) {
      const double p99 = report::Median(cell.p99_us), answered = report::Median(cell.answered_pct);
      // What was not answered took longer than any limit.
      const bool answers = answered >= 100 * (1 - kMaxLost);
      levels[cell.front_end].emplace_back(cell.rate_rps, answers ? p99 : std::max(p99, 100 * limit_us));
      ordered_json row;
      row["part"] = "kvs";
      row["scan_pct"] = scan_pct;
      row["front_end"] = ToString(cell.front_end);
      row["network"] = network_.word();
      row["load_pct"] = cell.load_pct;
      row["rate_rps"] = cell.rate_rps;
      row["mean_service_us"] = mean_us;
      row["p50_us"] = report::Median(cell.p50_us);
      row["p99_us"] = p99;
      row["within_10_means"] = answers && p99 <= limit_us;
      row["answered_pct"] = answered;
      row["nic_cores"] = report::Median(cell.nic_cores);
      row["client_behind_us"] = report::Median(cell.behind_us);
      document_.AddRow(std::move(row));
    }
    std::map<KvFrontEnd, double> sustained;
    for (KvFrontEnd front_end : kFrontEnds) {
      sustained[front_end] = RateAtLimit(levels[front_end], limit_us);
      document_.SetRatio(fmt::format("kvs_sustained_rps_{}_scan_{}", ToString(front_end), scan_pct),
                         sustained[front_end]);
      if (front_end != KvFrontEnd::kRss && sustained[KvFrontEnd::kRss] > 0)
        document_.SetRatio(fmt::format("kvs_{}_over_rss_scan_{}", ToString(front_end), scan_pct),
                           sustained[front_end] / sustained[KvFrontEnd::kRss]);
    }
  }

  const KvsOptions& options_;
  const HostNetwork& network_;
  const OnKvsProgress& on_progress_;
  report::Document& document_;
  OrderedStore store_;
  uint32_t scan_keys_ = 1;
  double done_ = 0;
};

void RunModel(const KvsOptions& options, report::Document& document, const OnKvsProgress& on_progress) {
  using sim::CoreFrontEnd;
  constexpr CoreFrontEnd kAll[] = {CoreFrontEnd::kRss, CoreFrontEnd::kSteal, CoreFrontEnd::kDispatch,
                                   CoreFrontEnd::kIdeal};
  const std::vector<double> variances = {0, 0.25, 0.5, 1, 2, 4, 8, 16};
  auto sustained = [&](CoreFrontEnd front_end, uint32_t cores, const sim::CoreService& service) {
    sim::CoreSetup setup;
    setup.front_end = front_end;
    setup.cores = cores;
    setup.service = service;
    setup.costs = {options.dispatch_us, options.steal_us};
    setup.requests = options.quick ? 20'000 : 200'000;
    return sim::SustainedLoad(setup, kTimesMean);
  };
  constexpr double kCases = 3 * (5 * 8 + 3);  // the loops below
  double done = 0;
  auto report_case = [&](uint32_t cores, const sim::CoreService& service, const std::string& mix) {
    on_progress(done++ / kCases, fmt::format("model: {} cores", cores));
    std::map<CoreFrontEnd, double> loads;
    for (CoreFrontEnd front_end : kAll) {
      loads[front_end] = sustained(front_end, cores, service);
      ordered_json row;
      row["part"] = "model";
      row["cores"] = cores;
      row["mix"] = mix;
      row["service_us"] = service.mean_us;
      row["front_end"] = ToString(front_end);
      row["sustained_load"] = loads[front_end];
      row["over_rss"] = loads[CoreFrontEnd::kRss] > 0 ? loads[front_end] / loads[CoreFrontEnd::kRss] : 0;
      document.AddRow(std::move(row));
    }
    return loads;
  };
  for (uint32_t cores : {8u, 16u, 64u}) {
    for (double service_us : {0.05, 0.1, 0.2, 1.0, 10.0}) {
      // From the largest variance down: the first at which dispatch is not ahead any more.
      double crossover = 0;
      bool ahead_somewhere = false;
      for (double scv : variances) {
        sim::CoreService service;
        service.mean_us = service_us;
        service.scv = scv;
        const auto loads = report_case(cores, service, fmt::format("scv {}", scv));
        const bool ahead = loads.at(CoreFrontEnd::kDispatch) > loads.at(CoreFrontEnd::kRss);
        ahead_somewhere |= ahead;
        if (!ahead && loads.at(CoreFrontEnd::kRss) > 0) crossover = scv;
      }
      document.SetRatio(fmt::format("model_crossover_scv_{}_cores_{}_us", cores, service_us),
                        ahead_somewhere ? crossover : -1);
    }
    for (double scan_pct : {1.0, 5.0, 10.0}) {
      sim::CoreService service;
      service.scan_share = scan_pct / 100;
      service.scan_ratio = options.scan_times;
      report_case(cores, service, fmt::format("{} % SCAN", scan_pct));
    }
  }
}

}  // namespace

Result<report::Document> RunKvs(const KvsOptions& asked, const OnKvsProgress& on_progress) {
  KvsOptions options = asked;
  if (options.quick) {
    options.rounds = 1;
    options.duration = std::min(options.duration, std::chrono::milliseconds(300));
    options.scan_pct = {options.scan_pct.back()};
    options.load_pct = {30, 50, 70, 90};
  }
  report::Document document("kvs");
  document.SetRounds(options.rounds);
  // What the measurements take of the whole, about: the model is as long whatever is measured.
  double measured = !options.measure ? 0.0 : options.quick ? 0.4 : 0.9;
  if (!options.model) measured = 1;
  const auto part = [&](double begin, double share) {
    return [&on_progress, begin, share](double fraction, const std::string& message) {
      on_progress(begin + fraction * share, message);
    };
  };
  if (options.measure) {
    auto network = options.namespaces ? HostNetwork::Namespaces() : HostNetwork::Loopback();
    if (!network) return tl::make_unexpected(network.error());
    const OnKvsProgress progress = part(0, measured);
    if (const auto ran = Kvs(options, *network, progress, document).Run(); !ran)
      return tl::make_unexpected(ran.error());
  }
  if (options.model) RunModel(options, document, part(measured, 1 - measured));
  return document;
}

std::string KvsText(const report::Document& document) {
  ordered_json measured = ordered_json::array(), model = ordered_json::array();
  for (const ordered_json& row : document.rows()) {
    ordered_json short_row = row;
    short_row.erase("part");
    (row["part"] == "kvs" ? measured : model).push_back(std::move(short_row));
  }
  std::string text;
  if (!measured.empty()) text += report::Table::FromRows(measured).Text() + "\n";
  if (!model.empty()) text += report::Table::FromRows(model).Text() + "\n";
  for (const auto& [name, value] : document.Json()["ratios"].items())
    text += fmt::format("{:<45} {:.3g}\n", name, value.get<double>());
  return text;
}

}  // namespace spillway::lab
