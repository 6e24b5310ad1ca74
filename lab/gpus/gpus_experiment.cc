// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/gpus_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "lab/gpus/gpu_bed.h"
#include "lab/gpus/request_log.h"
#include "lab/gpus/slice_stays.h"
#include "report/percentile.h"

namespace spillway::lab {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kLookEvery = 20ms;
constexpr auto kSettleWithin = 20s;

struct PolicyOfRun {
  const char* name;
  const char* controller;
};
constexpr PolicyOfRun kRuns[] = {
    {"no-sharing", "  policy: first-fit\n  sharing: false\n  moves: false\n"},
    {"first-fit", "  policy: first-fit\n  moves: false\n"},
    {"spillway", "  policy: spillway\n  settle: 300ms\n  moves_per_hour: 100000\n"},
};

struct Change {
  double at_s = 0;  // compressed
  bool is_end = false;
  size_t job = 0;
};

std::vector<Change> ChangesOf(const GpuJobs& jobs) {
  std::vector<Change> changes;
  for (size_t i = 0; i < jobs.jobs.size(); ++i) {
    const GpuJob& job = jobs.jobs[i];
    changes.push_back({job.at_s / jobs.compress, false, i});
    changes.push_back({(job.at_s + job.for_s) / jobs.compress, true, i});
  }
  // Of one time: who goes makes room for who comes.
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.at_s != b.at_s ? a.at_s < b.at_s : a.is_end > b.is_end;
  });
  return changes;
}

std::string NameOf(size_t job) { return fmt::format("job{}", job); }

struct Run {
  json fleet;  // at the end
  SliceStays stays;
  int gpus_most = 0;
  std::vector<report::Point> on;  // hours as the file counts them, GPUs
  RequestsSeen requests;
};

std::vector<SliceNow> InstancesOf(const json& fleet) {
  std::vector<SliceNow> instances;
  for (const json& model : fleet.at("models"))
    for (const json& one : model.at("instances"))
      instances.push_back({one.at("id"), one.at("gpu"), model.at("name"), one.at("share")});
  return instances;
}

class PolicyRun {
 public:
  PolicyRun(const GpuJobs& jobs, GpuBed& bed, RequestLog& log) : jobs_(jobs), bed_(bed), log_(log) {}

  Result<Run> Go(const std::function<void(double)>& progress) {
    const std::vector<Change> changes = ChangesOf(jobs_);
    const auto began = Clock::now();
    size_t next = 0;
    for (;;) {
      const double now_s = std::chrono::duration<double>(Clock::now() - began).count();
      for (; next < changes.size() && changes[next].at_s <= now_s; ++next)
        if (const auto made = Make(changes[next]); !made) return tl::make_unexpected(made.error());
      const auto fleet = bed_.Fleet();
      if (!fleet) return tl::make_unexpected(fleet.error());
      Look(*fleet, now_s);
      progress(std::min(1.0, now_s / changes.back().at_s));
      if (next == changes.size() && fleet->at("models").empty()) return run_;
      if (now_s > changes.back().at_s + std::chrono::duration<double>(kSettleWithin).count())
        return Fail(ErrorCode::kSystem, "the last jobs did not end");
      if (!base::SleepUnlessInterrupted(kLookEvery)) return Fail(ErrorCode::kSystem, "interrupted");
    }
  }

 private:
  Result<void> Make(const Change& change) {
    const std::string name = NameOf(change.job);
    if (!change.is_end) {
      live_.insert(name);
      return bed_.Add(name, jobs_.jobs[change.job].share);
    }
    live_.erase(name);
    asked_.erase(name);
    log_.Ask(asked_, moving_);
    return bed_.Remove(name);
  }

  // A job is asked once it has been ready, whatever becomes of it then.
  void Look(const json& fleet, double now_s) {
    moving_.clear();
    for (const json& model : fleet.at("models")) {
      const std::string name = model.at("name");
      if (live_.contains(name) && model.at("ready").get<int>() > 0) asked_.insert(name);
      if (model.at("moving").get<bool>()) moving_.insert(name);
    }
    log_.Ask(asked_, moving_);
    const int on = fleet.at("gpus_on");
    run_.gpus_most = std::max(run_.gpus_most, on);
    const double hours = now_s * jobs_.compress / 3600;
    // Steps, not slopes.
    if (run_.on.empty() || run_.on.back().y != on) {
      if (!run_.on.empty()) run_.on.push_back({hours, run_.on.back().y});
      run_.on.push_back({hours, static_cast<double>(on)});
    }
    run_.stays.Look(InstancesOf(fleet), hours);
    run_.fleet = fleet;
  }

  const GpuJobs& jobs_;
  GpuBed& bed_;
  RequestLog& log_;
  std::set<std::string> live_, asked_, moving_;
  Run run_;
};

nlohmann::ordered_json RowOf(const char* policy, const GpuJobs& jobs, const HostNetwork& network,
                             const Run& run) {
  const auto p99 = [](const std::vector<double>& samples) { return report::PercentileOf(samples, 99); };
  return {{"policy", policy},
          {"jobs", jobs.jobs.size()},
          {"network", network.word()},
          {"gpu_hours", run.fleet.at("gpu_hours").get<double>() * jobs.compress},
          {"moves", run.fleet.at("moves").at("done").get<int>()},
          {"moves_failed", run.fleet.at("moves").at("failed").get<int>()},
          {"gpus_most", run.gpus_most},
          {"requests", run.requests.asked},
          {"requests_lost", run.requests.lost},
          {"first_loss", run.requests.first_loss},
          {"requests_during_move", run.requests.while_moving_ms.size()},
          {"p99_ms_before_move", p99(run.requests.quiet_ms)},
          {"p99_ms_during_move", p99(run.requests.while_moving_ms)}};
}

report::Timeline TimelineOf(const char* policy, const GpuJobs& jobs, const Run& run) {
  report::Timeline timeline;
  timeline.title = fmt::format("Slices over time: {}", policy);
  timeline.note = "A lane per GPU, a bar per instance, as high as its share; a colour per job.";
  timeline.x = {.title = "Time", .unit = "h"};
  std::map<std::string, size_t> lanes;
  for (int host = 1; host <= jobs.hosts; ++host)
    for (int gpu = 0; gpu < jobs.gpus; ++gpu) {
      timeline.lanes.push_back(fmt::format("host{}/gpu{}", host, gpu));
      lanes[timeline.lanes.back()] = timeline.lanes.size() - 1;
    }
  std::map<std::string, size_t> colours;
  for (const SliceStay& stay : run.stays.all())
    timeline.bars.push_back({lanes.at(stay.gpu), stay.from, stay.to, stay.low,
                             std::min(1.0, stay.low + stay.share),
                             colours.try_emplace(stay.model, colours.size()).first->second,
                             fmt::format("{}, {:.0f} % of {}, {:.1f} to {:.1f} h", stay.model,
                                         100 * stay.share, stay.gpu, stay.from, stay.to)});
  return timeline;
}

}  // namespace

Result<GpusResult> RunGpus(const GpuJobs& jobs, const std::string& programs, const std::string& folder,
                           const HostNetwork& network,
                           const std::function<void(double, const std::string&)>& progress) {
  GpusResult result{
      report::Document("lab gpus"),
      report::HtmlPage("GPUs by policy",
                       fmt::format("{}, on {} hosts of {} emulated GPUs{}, time "
                                   "{:g} times as quick.",
                                   jobs.source, jobs.hosts, jobs.gpus,
                                   network.separate() ? " in network namespaces" : "", jobs.compress))};
  report::Chart chart;
  chart.title = "GPUs with a slice on them";
  chart.x = {.title = "Time", .unit = "h"};
  chart.y.title = "GPUs";
  chart.y.min = 0;
  std::vector<report::Timeline> timelines;
  double done = 0;
  for (const PolicyOfRun& policy : kRuns) {
    auto bed = GpuBed::Up(folder, programs, jobs, policy.controller, network);
    if (!bed) return tl::make_unexpected(bed.error());
    auto client = (*bed)->Connect();
    if (!client) return tl::make_unexpected(client.error());
    RequestLog log(std::move(*client));
    PolicyRun one(jobs, **bed, log);
    auto run = one.Go([&](double part) { progress((done + part) / std::size(kRuns), policy.name); });
    if (!run) return Fail(run.error().code, fmt::format("{}: {}", policy.name, run.error().message));
    run->requests = log.Finish();
    result.document.AddRow(RowOf(policy.name, jobs, network, *run));
    timelines.push_back(TimelineOf(policy.name, jobs, *run));
    chart.series.push_back({policy.name, run->on});
    ++done;
  }
  const auto& rows = result.document.rows();
  for (size_t i = 1; i < rows.size(); ++i)
    result.document.SetRatio(fmt::format("gpu_hours {}/no-sharing", rows[i].at("policy").get<std::string>()),
                             rows[i].at("gpu_hours").get<double>() / rows[0].at("gpu_hours").get<double>());
  result.page.AddChart(chart);
  for (const report::Timeline& timeline : timelines) result.page.AddTimeline(timeline);
  result.page.AddTable("By policy", report::Table::FromRows(rows));
  result.page.Embed(result.document, "report.json");
  return result;
}

}  // namespace spillway::lab
