// SPDX-License-Identifier: Apache-2.0
// spillway sched replay.
#include "sched_verbs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "base/print.h"
#include "base/signals.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/report_files.h"
#include "report/file.h"
#include "report/progress.h"
#include "scheduler/cli/lists.h"
#include "scheduler/replay/openb_lists.h"
#include "scheduler/replay/reports.h"

namespace spillway::command {
namespace {

struct ReplayOptions {
  Lists lists;
  std::string trace, experiment = "placement", policies = "all", folder;
  int seeds = 10;
  // placement
  std::string objective = "fragmentation", prices = "rehearsed";
  bool no_bound = false;
  // gpu-hours
  std::string shares = "all";
  scheduler::GpuHoursOptions hours;
  // arrivals
  std::string durations, demand = "all";
  int load_pct = 95, arrivals = 100'000, longest_h = 6, moves_per_100 = -1;
};

// For --experiment arrivals unless --seeds says otherwise: each is as long as ten of the others.
constexpr int kArrivalsSeeds = 5;

constexpr double kMostMoveSeconds = 24 * 3600;

// What fragments cost is worked out for each two shapes of job: half a minute for so many.
constexpr size_t kMaxShapes = 20'000;

std::vector<scheduler::Policy> PoliciesOf(const ReplayOptions& o) {
  if (o.policies != "all") return {*scheduler::PolicyByName(o.policies)};
  return {std::begin(scheduler::kPolicies), std::end(scheduler::kPolicies)};
}

// A bar for as long as the runs take, during which Ctrl-C stops them.
class Watch {
 public:
  explicit Watch(const std::string& what) : progress_("sched " + what, report::kQuietStart) {}
  [[nodiscard]] std::function<void(size_t, size_t)> tell() {
    return [this](size_t done, size_t all) {
      progress_.Update(static_cast<double>(done) / static_cast<double>(all), "");
    };
  }
  report::Progress& progress() { return progress_; }

 private:
  report::Progress progress_;
  base::InterruptGuard guard_;
};

// Prints what was measured and writes it to --out; the exit code. Nothing is written where nothing was
// measured: the report of an earlier run stays.
int Deliver(const ReplayOptions& o, bool as_json, const report::Document& document, const std::string& text,
            const report::HtmlPage& page, size_t done, size_t total) {
  if (done == 0) return Interrupted();
  base::Print("{}", as_json ? document.Dump() : text);
  if (auto written = WriteReport(o.folder, page, document, !as_json); !written)
    return ComplainAfterData(written.error());
  if (done == total) return kExitOk;
  return Interrupted("these are the " + Counted(done, "run") + " that were done");
}

Result<scheduler::PublishedByPolicy> PublishedFor(const ReplayOptions& o, const Loaded& loaded) {
  const auto folder = scheduler::FindDataFolder(o.lists.data);
  if (!folder) return scheduler::PublishedByPolicy{};  // nothing is known then
  const auto table = scheduler::LoadPublishedFigures(*folder);
  if (!table) return tl::make_unexpected(table.error());
  return scheduler::PublishedOf(*table, loaded.nodes, loaded.jobs, *scheduler::ObjectiveByName(o.objective));
}

int ReplayPlacement(const ReplayOptions& o, const Loaded& loaded, bool as_json) {
  const auto published = PublishedFor(o, loaded);
  if (!published) return Complain(published.error());
  scheduler::PlacementOptions options;
  options.seeds = o.seeds;
  options.objective = *scheduler::ObjectiveByName(o.objective);
  options.bound = !o.no_bound;
  options.policies = PoliciesOf(o);
  if (o.prices != "rehearsed" && o.prices != "all") options.prices = {scheduler::PriceRuleByName(o.prices)};
  if (o.prices == "all")
    for (const scheduler::PriceRule rule : scheduler::kPriceRules) options.prices.emplace_back(rule);
  std::vector<scheduler::PlacementRun> runs;
  {
    Watch watch("placement " + loaded.name);
    runs = scheduler::RunPlacement(loaded.nodes, loaded.jobs, options, watch.tell(),
                                   [] { return base::Interrupted(); });
    runs.size() < CountRuns(options) ? watch.progress().Stop("interrupted") : watch.progress().Finish("done");
  }
  if (options.bound && !runs.empty() && !runs.front().bound)
    base::PrintError(
        "spillway: {}: no bounds: expected at most {} shapes of job (jobs that ask for the same), got more\n",
        loaded.path, scheduler::kMaxBoundShapes);
  const report::Document document = scheduler::PlacementDocument(loaded.name, runs, *published);
  return Deliver(o, as_json, document, scheduler::PlacementText(document),
                 scheduler::PlacementPage(loaded.name, runs, document), runs.size(), CountRuns(options));
}

int ReplayGpuHours(const ReplayOptions& o, const Loaded& loaded, bool as_json) {
  using scheduler::ShareRule;
  std::vector<ShareRule> rules = {ShareRule::kExact, ShareRule::kCompute, ShareRule::kMemory};
  if (o.shares != "all") rules = {*scheduler::ShareRuleByName(o.shares)};
  scheduler::GpuHoursOptions options = o.hours;
  options.nodes = loaded.nodes.nodes;
  options.models = loaded.nodes.models;
  std::vector<scheduler::GpuHoursRun> runs;
  const size_t total = rules.size() * std::size(scheduler::kSharePolicies);
  {
    Watch watch("gpu-hours " + loaded.name);
    for (const ShareRule rule : rules)
      for (const scheduler::SharePolicy policy : scheduler::kSharePolicies) {
        if (base::Interrupted()) break;
        options.rule = rule;
        watch.tell()(runs.size(), total);
        runs.push_back(scheduler::RunGpuHours(loaded.jobs, policy, options));
      }
    runs.size() < total ? watch.progress().Stop("interrupted") : watch.progress().Finish("done");
  }
  const report::Document document = scheduler::GpuHoursDocument(loaded.name, runs, options);
  return Deliver(o, as_json, document, scheduler::GpuHoursText(document),
                 scheduler::GpuHoursPage(loaded.name, runs, document), runs.size(), total);
}

// Gives the list durations of --durations, if that is given.
Result<void> TakeDurations(const ReplayOptions& o, Loaded& loaded) {
  if (o.durations.empty()) return {};
  const auto path = scheduler::ListFile(o.durations, o.lists.data);
  if (!path) return tl::make_unexpected(path.error());
  const auto other = scheduler::LoadJobList(*path, loaded.nodes.models);
  if (!other) return tl::make_unexpected(other.error());
  if (!other->timed) return Fail(ErrorCode::kBadInput, WhyUntimed(*path, *other) + ", as --durations needs");
  scheduler::BorrowDurations(loaded.jobs, *other);
  return {};
}

int ReplayArrivals(const ReplayOptions& o, Loaded loaded, bool as_json) {
  if (const auto taken = TakeDurations(o, loaded); !taken) return Complain(taken.error());
  scheduler::ArrivalsOptions options;
  options.seeds = o.seeds;
  options.load_pct = o.load_pct;
  options.arrivals = o.arrivals;
  options.longest_s = int64_t{o.longest_h} * 3600;
  if (o.demand != "all") options.demands = {*scheduler::DemandByName(o.demand)};
  if (o.moves_per_100 >= 0) options.moves_per_100 = {o.moves_per_100};
  options.policies = PoliciesOf(o);
  if (!loaded.jobs.timed)
    return Complain({ErrorCode::kBadInput, WhyUntimed(loaded.path, loaded.jobs) +
                                               ", as --experiment arrivals needs; --durations takes them "
                                               "from another list"});
  const double at_once = scheduler::JobsAtOnce(loaded.nodes, loaded.jobs, options);
  if (at_once <= 0)
    return Complain(
        {ErrorCode::kBadInput,
         fmt::format("{}: expected one job at least that asks for a GPU and lasts", loaded.path)});
  if (at_once > scheduler::kMaxJobsAtOnce)
    return Complain(
        {ErrorCode::kBadInput, fmt::format("{}: expected at most {} jobs at a time at --load {}, got "
                                           "{:.3g}: too few of them ask for GPUs, for too short a time",
                                           loaded.path, scheduler::kMaxJobsAtOnce, o.load_pct, at_once)});
  const size_t total = CountRuns(options);
  std::vector<scheduler::ArrivalsRun> runs;
  {
    Watch watch("arrivals " + loaded.name);
    runs = scheduler::RunArrivals(loaded.nodes, loaded.jobs, options, watch.tell(),
                                  [] { return base::Interrupted(); });
    runs.size() < total ? watch.progress().Stop("interrupted") : watch.progress().Finish("done");
  }
  const report::Document document = scheduler::ArrivalsDocument(loaded.name, runs, options);
  return Deliver(o, as_json, document, scheduler::ArrivalsText(document),
                 scheduler::ArrivalsPage(loaded.name, runs, document), runs.size(), total);
}

// What --experiment gpu-hours cannot count.
Result<void> CheckTimes(const ReplayOptions& o, const Loaded& loaded) {
  if (!loaded.jobs.timed)
    return Fail(ErrorCode::kBadInput,
                WhyUntimed(loaded.path, loaded.jobs) + ", as --experiment gpu-hours needs");
  if (!scheduler::AnyLasts(loaded.jobs, o.hours))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: creation_time: expected jobs that arrive after {} s (--busy-from) "
                            "and do not end at once",
                            loaded.path, o.hours.busy_from));
  return {};
}

Result<void> CheckShapes(const Loaded& loaded) {
  std::vector<scheduler::Job> jobs;
  for (const scheduler::TraceJob& one : loaded.jobs.jobs) jobs.push_back(one.job);
  const size_t shapes = scheduler::ShapesIn(jobs);
  if (shapes <= kMaxShapes) return {};
  return Fail(ErrorCode::kBadInput,
              fmt::format("{}: expected at most {} shapes of job (jobs that ask for the same), got {}",
                          loaded.path, kMaxShapes, shapes));
}

int RunReplay(ReplayOptions o, bool as_json) {
  if (!o.trace.empty()) o.lists.list = o.trace;
  if (auto there = CheckParent("--out", o.folder); !there) return Complain(there.error());
  if (auto made = o.folder.empty() ? Result<void>() : report::MakeFolder(o.folder); !made)
    return Complain({made.error().code, "--out " + made.error().message});
  auto loaded = o.experiment == "gpu-hours" ? LoadForHours(o.lists) : Load(o.lists, true);
  if (!loaded) return Complain(loaded.error());
  if (const auto shapes = CheckShapes(*loaded); !shapes && o.experiment != "gpu-hours")
    return Complain(shapes.error());
  if (o.experiment == "arrivals") return ReplayArrivals(o, std::move(*loaded), as_json);
  if (o.experiment == "placement") return ReplayPlacement(o, *loaded, as_json);
  if (const auto times = CheckTimes(o, *loaded); !times) return Complain(times.error());
  return ReplayGpuHours(o, *loaded, as_json);
}

void AddPlacementOptions(CLI::App& verb, ReplayOptions& o) {
  verb.add_option("--objective", o.objective, "placement: what comes before the policy's score")
      ->check(CLI::IsMember({"fragmentation", "fewest-gpus", "earliest"}))
      ->capture_default_str();
  verb.add_option("--prices", o.prices,
                  "placement: by what rule policy spillway makes prices; all: a row for each, too")
      ->check(CLI::IsMember({"rehearsed", "in-proportion", "fair", "fairer-to-gpus", "all"}))
      ->capture_default_str();
  verb.add_flag("--no-bound", o.no_bound, "placement: look for no upper bounds, which take seconds or more");
}

void AddGpuHoursOptions(CLI::App& verb, ReplayOptions& o) {
  verb.add_option("--shares", o.shares, "gpu-hours: exact milli, or MIG slices by compute or memory")
      ->check(CLI::IsMember({"all", "exact", "compute", "memory"}))
      ->capture_default_str();
  CLI::Option* busy = verb.add_option("--busy", o.hours.busy, "gpu-hours: arrival rate multiplier")
                          ->check(InRange(1, 1'000'000))
                          ->capture_default_str();
  verb.add_option("--busy-from", o.hours.busy_from,
                  "gpu-hours: second of the list's time at which --busy starts; earlier jobs arrive at once")
      ->needs(busy)
      ->check(InRange(int64_t{0}, scheduler::kMaxSeconds))
      ->capture_default_str();
  verb.add_option("--migrations", o.hours.moves.budget,
                  "gpu-hours: most migrations in all; default: no limit")
      ->check(InRange(int64_t{0}, int64_t{1} << 40));
  verb.add_option("--move-price", o.hours.moves.move_price,
                  "gpu-hours: cost of a migration relative to one GPU switched off")
      ->check(InRange(0.01, 100.0))
      ->capture_default_str();
  o.hours.moves.move_seconds = scheduler::kMoveSeconds;
  AddSeconds(verb, "--move-time", o.hours.moves.move_seconds, kMostMoveSeconds,
             "gpu-hours: how long a job that moves has both places; 0s: it moves at once");
}

void AddArrivalsOptions(CLI::App& verb, ReplayOptions& o) {
  verb.add_option("--load", o.load_pct, "arrivals: GPU time that the jobs ask for, % of the cluster's")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb.add_option("--arrivals", o.arrivals,
                  "arrivals: jobs that come per run; the first fifth is not measured")
      ->check(InRange(100, 10'000'000))
      ->capture_default_str();
  verb.add_option("--longest", o.longest_h, "arrivals: hours to which longer durations are cut; 0: none is")
      ->check(InRange(0, 1'000'000))
      ->capture_default_str();
  verb.add_option("--moves", o.moves_per_100,
                  "arrivals: running jobs that may be moved per 100 that came; default: 0 and 5, a row each")
      ->check(InRange(0, 1000));
  verb.add_option("--demand", o.demand,
                  "arrivals: spillway and fgd learn what comes from the jobs that are there, or are given "
                  "the list; all: a row each")
      ->check(CLI::IsMember({"all", "learnt", "list"}))
      ->capture_default_str();
  verb.add_option("--durations", o.durations, "arrivals: take durations from this list instead")
      ->check(NonEmpty());
}

// What would do nothing is a mistake.
void CheckExperiment(CLI::App& verb, const ReplayOptions& o) {
  std::vector<std::string> nodes_are_for = {"placement", "arrivals"};
  if (!o.lists.cluster.empty()) nodes_are_for.emplace_back("gpu-hours");
  const std::map<std::string, std::vector<std::string>> of = {{"--seeds", {"placement", "arrivals"}},
                                                              {"--policy", {"placement", "arrivals"}},
                                                              {"--nodes", nodes_are_for},
                                                              {"--objective", {"placement"}},
                                                              {"--prices", {"placement"}},
                                                              {"--no-bound", {"placement"}},
                                                              {"--shares", {"gpu-hours"}},
                                                              {"--busy", {"gpu-hours"}},
                                                              {"--busy-from", {"gpu-hours"}},
                                                              {"--migrations", {"gpu-hours"}},
                                                              {"--move-price", {"gpu-hours"}},
                                                              {"--move-time", {"gpu-hours"}},
                                                              {"--cluster", {"gpu-hours"}},
                                                              {"--load", {"arrivals"}},
                                                              {"--arrivals", {"arrivals"}},
                                                              {"--longest", {"arrivals"}},
                                                              {"--moves", {"arrivals"}},
                                                              {"--demand", {"arrivals"}},
                                                              {"--durations", {"arrivals"}}};
  for (const auto& [option, experiments] : of)
    if (verb.get_option(option)->count() > 0 &&
        std::find(experiments.begin(), experiments.end(), o.experiment) == experiments.end())
      throw CLI::ValidationError(option,
                                 fmt::format("is for --experiment {}", fmt::join(experiments, " or ")));
  const auto without = [&](const char* option, std::initializer_list<const char*> policies) {
    if (o.policies != "all" && verb.get_option(option)->count() > 0 &&
        std::find(policies.begin(), policies.end(), o.policies) == policies.end())
      throw CLI::ValidationError(option, fmt::format("is for --policy {}", fmt::join(policies, " or ")));
  };
  without("--prices", {"spillway"});
  without("--demand", {"spillway", "fgd"});
}

}  // namespace

void AddReplay(CLI::App& sched, Context& context) {
  auto o = std::make_shared<ReplayOptions>();
  CLI::App* verb =
      sched.add_subcommand("replay", "Replay a list of jobs: how well is it placed, how many GPUs are on");
  CLI::Option* trace = verb->add_option("TRACE", o->trace, "The same as --list")->check(NonEmpty());
  AddLists(*verb, o->lists);
  AddCluster(*verb, o->lists);
  trace->excludes(verb->get_option("--list"));
  verb->add_option("--experiment", o->experiment,
                   "placement: jobs stay; arrivals: jobs come, wait and leave; gpu-hours: GPUs switched on")
      ->check(CLI::IsMember({"placement", "arrivals", "gpu-hours"}))
      ->capture_default_str();
  verb->add_option("--seeds", o->seeds,
                   "placement, arrivals: orders of the jobs; default: 10 for placement, 5 for arrivals")
      ->check(InRange(1, 1000));
  verb->add_option("--policy", o->policies, "placement, arrivals: one policy instead of all")
      ->check(CLI::IsMember(PolicyNames({"all"})));
  AddPlacementOptions(*verb, *o);
  AddGpuHoursOptions(*verb, *o);
  AddArrivalsOptions(*verb, *o);
  verb->add_option("--out", o->folder, "Folder for report.html and report.json")
      ->type_name("DIR")
      ->check(NonEmpty());
  verb->callback([o, verb, &context] {
    CheckExperiment(*verb, *o);
    if (o->experiment == "arrivals" && verb->get_option("--seeds")->count() == 0) o->seeds = kArrivalsSeeds;
    context.action = [o, &context] { return RunReplay(*o, context.json); };
  });
}

}  // namespace spillway::command
