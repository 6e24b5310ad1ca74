// SPDX-License-Identifier: Apache-2.0
#include "sched_verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/interrupt.h"
#include "base/print.h"
#include "base/printable.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/report_files.h"
#include "report/file.h"
#include "report/progress.h"
#include "scheduler/arrivals_report.h"
#include "scheduler/cbc.h"
#include "scheduler/cli/lists.h"
#include "scheduler/cluster_reader.h"
#include "scheduler/data_folder.h"
#include "scheduler/look_ahead.h"
#include "scheduler/milp.h"
#include "scheduler/sched_report.h"

namespace spillway::command {
namespace {

constexpr int kSolverSeconds = 120;

int InterruptedAfter(size_t done, const char* what) {
  return Interrupted(fmt::format("these are the {} {} that were done", done, what));
}

std::vector<std::string> PolicyNames(std::vector<std::string> names = {}) {
  for (const scheduler::Policy policy : scheduler::kPolicies) names.emplace_back(ToString(policy));
  return names;
}

// ---- replay

struct ReplayOptions {
  Lists lists;
  std::string trace, experiment = "placement", policies = "all", shares = "all", objective = "fragmentation",
                     folder;
  int seeds = 10, busy = 1;
  scheduler::MovePolicy moves;
  // arrivals
  std::string durations, demand = "learnt";
  int load_pct = 95, arrivals = 100'000, longest_h = 6, moves_per_100 = -1;
};

// For --experiment arrivals unless --seeds says otherwise: each is as long as ten of the others.
constexpr int kArrivalsSeeds = 5;

// Of openb's nodes and the list alone: other nodes make other figures.
Result<scheduler::PublishedByPolicy> PublishedFor(const ReplayOptions& o, const Loaded& loaded) {
  scheduler::PublishedByPolicy published;
  const auto folder = scheduler::FindDataFolder(o.lists.data);
  if (!folder || !o.lists.nodes.empty()) return published;  // nothing is known then
  const auto table = scheduler::LoadPublishedFigures(*folder);
  if (!table) return tl::make_unexpected(table.error());
  for (const auto& [key, figures] : *table)
    if (key.first == loaded.jobs.name) published[key.second] = figures;
  return published;
}

int ReplayPlacement(const ReplayOptions& o, const Loaded& loaded, bool as_json) {
  auto known = PublishedFor(o, loaded);
  if (!known) return Complain(known.error());
  const scheduler::PublishedByPolicy& published = *known;
  scheduler::PlacementOptions options;
  options.seeds = o.seeds;
  options.objective = *scheduler::ObjectiveByName(o.objective);
  options.bound = true;
  options.policies.assign(std::begin(scheduler::kPolicies), std::end(scheduler::kPolicies));
  if (o.policies != "all") options.policies = {*scheduler::PolicyByName(o.policies)};
  const size_t total = options.policies.size() * static_cast<size_t>(o.seeds);
  report::Progress progress("sched placement " + loaded.name, report::kQuietStart);
  base::InterruptGuard guard;
  const auto runs = scheduler::RunPlacement(
      loaded.nodes, loaded.jobs, options,
      [&](size_t done, size_t all) {
        progress.Update(static_cast<double>(done) / static_cast<double>(all), "");
      },
      [] { return base::Interrupted(); });
  runs.size() < total ? progress.Stop("interrupted") : progress.Finish("done");
  const report::Document document = scheduler::PlacementDocument(loaded.name, runs, o.seeds, published);
  base::Print("{}", as_json ? document.Dump() : scheduler::PlacementText(document));
  if (auto written =
          WriteReport(o.folder, scheduler::PlacementPage(loaded.name, runs, document), document, !as_json);
      !written)
    return ComplainAfterData(written.error());
  return runs.size() < total ? InterruptedAfter(runs.size(), "runs") : kExitOk;
}

int ReplayGpuHours(const ReplayOptions& o, const Loaded& loaded, bool as_json) {
  if (!loaded.jobs.timed)
    return Complain({ErrorCode::kBadInput,
                     fmt::format("--list {}: expected columns creation_time and deletion_time, which "
                                 "--experiment gpu-hours needs",
                                 base::Printable(o.lists.list))});
  using scheduler::ShareRule;
  std::vector<ShareRule> rules = {ShareRule::kExact, ShareRule::kCompute, ShareRule::kMemory};
  if (o.shares != "all") rules = {*scheduler::ShareRuleByName(o.shares)};
  scheduler::GpuHoursOptions options;
  options.busy = o.busy;
  options.moves = o.moves;
  report::Progress progress("sched gpu-hours " + loaded.name, report::kQuietStart);
  base::InterruptGuard guard;
  std::vector<scheduler::GpuHoursRun> runs;
  const size_t total = rules.size() * std::size(scheduler::kSharePolicies);
  for (const ShareRule rule : rules)
    for (const scheduler::SharePolicy policy : scheduler::kSharePolicies) {
      if (base::Interrupted()) break;
      options.rule = rule;
      progress.Update(static_cast<double>(runs.size()) / static_cast<double>(total), ToString(policy));
      runs.push_back(scheduler::RunGpuHours(loaded.jobs, policy, options));
    }
  runs.size() < total ? progress.Stop("interrupted") : progress.Finish("done");
  const report::Document document = scheduler::GpuHoursDocument(loaded.name, runs, o.busy);
  base::Print("{}", as_json ? document.Dump() : scheduler::GpuHoursText(document));
  if (auto written =
          WriteReport(o.folder, scheduler::GpuHoursPage(loaded.name, runs, document), document, !as_json);
      !written)
    return ComplainAfterData(written.error());
  return runs.size() < total ? InterruptedAfter(runs.size(), "runs") : kExitOk;
}

int ReplayArrivals(const ReplayOptions& o, Loaded loaded, bool as_json) {
  if (!o.durations.empty()) {
    const auto path = scheduler::ListFile(o.durations, o.lists.data);
    if (!path) return Complain(path.error());
    const auto other = scheduler::LoadJobList(*path, loaded.nodes.models);
    if (!other) return Complain(other.error());
    if (!other->timed)
      return Complain({ErrorCode::kBadInput,
                       fmt::format("--durations {}: expected columns creation_time and deletion_time",
                                   base::Printable(o.durations))});
    scheduler::BorrowDurations(loaded.jobs, *other);
  }
  if (!loaded.jobs.timed)
    return Complain({ErrorCode::kBadInput,
                     fmt::format("--list {}: expected columns creation_time and deletion_time, which "
                                 "--experiment arrivals needs; --durations takes them from another list",
                                 base::Printable(o.lists.list))});
  scheduler::ArrivalsOptions options;
  options.seeds = o.seeds;
  options.load_pct = o.load_pct;
  options.arrivals = o.arrivals;
  options.longest_s = int64_t{o.longest_h} * 3600;
  options.learn = o.demand == "learnt";
  if (o.moves_per_100 >= 0) options.moves_per_100 = {o.moves_per_100};
  options.policies.assign(std::begin(scheduler::kPolicies), std::end(scheduler::kPolicies));
  if (o.policies != "all") options.policies = {*scheduler::PolicyByName(o.policies)};
  const size_t total = options.policies.size() * options.moves_per_100.size() * static_cast<size_t>(o.seeds);
  report::Progress progress("sched arrivals " + loaded.name, report::kQuietStart);
  base::InterruptGuard guard;
  const auto runs = scheduler::RunArrivals(
      loaded.nodes, loaded.jobs, options,
      [&](size_t done, size_t all) {
        progress.Update(static_cast<double>(done) / static_cast<double>(all), "");
      },
      [] { return base::Interrupted(); });
  runs.size() < total ? progress.Stop("interrupted") : progress.Finish("done");
  const report::Document document = scheduler::ArrivalsDocument(loaded.name, runs, options);
  base::Print("{}", as_json ? document.Dump() : scheduler::ArrivalsText(document));
  if (auto written =
          WriteReport(o.folder, scheduler::ArrivalsPage(loaded.name, runs, document), document, !as_json);
      !written)
    return ComplainAfterData(written.error());
  return runs.size() < total ? InterruptedAfter(runs.size(), "runs") : kExitOk;
}

int RunReplay(ReplayOptions o, bool as_json) {
  if (!o.trace.empty()) o.lists.list = o.trace;
  if (auto there = CheckParent("--out", o.folder); !there) return Complain(there.error());
  if (auto made = o.folder.empty() ? Result<void>() : report::MakeFolder(o.folder); !made)
    return Complain({made.error().code, "--out " + made.error().message});
  const bool placement = o.experiment == "placement";
  auto loaded = Load(o.lists, o.experiment != "gpu-hours");
  if (!loaded) return Complain(loaded.error());
  if (o.experiment == "arrivals") return ReplayArrivals(o, std::move(*loaded), as_json);
  return placement ? ReplayPlacement(o, *loaded, as_json) : ReplayGpuHours(o, *loaded, as_json);
}

void AddReplay(CLI::App& sched, Context& context) {
  auto o = std::make_shared<ReplayOptions>();
  CLI::App* verb =
      sched.add_subcommand("replay", "Replay a list of jobs: how well is it placed, how many GPUs are on");
  CLI::Option* trace = verb->add_option("TRACE", o->trace, "The same as --list")->check(NonEmpty());
  AddLists(*verb, o->lists);
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
  verb->add_option("--objective", o->objective, "placement: what comes before the policy's score")
      ->check(CLI::IsMember({"fragmentation", "fewest-gpus", "earliest"}))
      ->capture_default_str();
  verb->add_option("--shares", o->shares, "gpu-hours: exact milli, or MIG slices by compute or memory")
      ->check(CLI::IsMember({"all", "exact", "compute", "memory"}))
      ->capture_default_str();
  verb->add_option("--busy", o->busy, "gpu-hours: arrivals so many times as close together")
      ->check(InRange(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--migrations", o->moves.budget, "gpu-hours: most migrations in all; default: no limit")
      ->check(InRange(int64_t{0}, int64_t{1} << 40));
  verb->add_option("--move-price", o->moves.move_price,
                   "gpu-hours: of a migration; a GPU switched off is worth 1")
      ->check(InRange(0.01, 100.0))
      ->capture_default_str();
  verb->add_option("--load", o->load_pct, "arrivals: GPU time that the jobs ask for, % of the cluster's")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb->add_option("--arrivals", o->arrivals,
                   "arrivals: jobs that come per run; the first fifth is not measured")
      ->check(InRange(100, 10'000'000))
      ->capture_default_str();
  verb->add_option("--longest", o->longest_h, "arrivals: hours to which longer durations are cut; 0: none is")
      ->check(InRange(0, 1'000'000))
      ->capture_default_str();
  verb->add_option("--moves", o->moves_per_100,
                   "arrivals: running jobs that may be moved per 100 that came; default: 0 and 5, a row each")
      ->check(InRange(0, 1000));
  verb->add_option(
          "--demand", o->demand,
          "arrivals: policy spillway learns what comes from the jobs that are there, or is given the list")
      ->check(CLI::IsMember({"learnt", "list"}))
      ->capture_default_str();
  verb->add_option("--durations", o->durations, "arrivals: take durations from this list instead")
      ->check(NonEmpty());
  verb->add_option("--out", o->folder, "Folder for report.html and report.json")
      ->type_name("DIR")
      ->check(NonEmpty());
  verb->callback([o, verb, &context] {
    // What would do nothing is a mistake.
    const std::map<std::string, std::vector<std::string>> of = {{"--seeds", {"placement", "arrivals"}},
                                                                {"--policy", {"placement", "arrivals"}},
                                                                {"--nodes", {"placement", "arrivals"}},
                                                                {"--objective", {"placement"}},
                                                                {"--shares", {"gpu-hours"}},
                                                                {"--busy", {"gpu-hours"}},
                                                                {"--migrations", {"gpu-hours"}},
                                                                {"--move-price", {"gpu-hours"}},
                                                                {"--load", {"arrivals"}},
                                                                {"--arrivals", {"arrivals"}},
                                                                {"--longest", {"arrivals"}},
                                                                {"--moves", {"arrivals"}},
                                                                {"--demand", {"arrivals"}},
                                                                {"--durations", {"arrivals"}}};
    for (const auto& [option, experiments] : of)
      if (verb->get_option(option)->count() > 0 &&
          std::find(experiments.begin(), experiments.end(), o->experiment) == experiments.end())
        throw CLI::ValidationError(option,
                                   fmt::format("is for --experiment {}", fmt::join(experiments, " or ")));
    if (o->experiment == "arrivals" && verb->get_option("--seeds")->count() == 0) o->seeds = kArrivalsSeeds;
    context.action = [o, &context] { return RunReplay(*o, context.json); };
  });
}

// ---- place

struct PlaceOptions {
  std::string file, models, policy = "spillway", objective = "fragmentation", tenant_of;
  scheduler::Job job;
  bool explain = false;
};

int RunPlace(PlaceOptions o, bool as_json) {
  const auto file = scheduler::LoadClusterFile(o.file);
  if (!file) return Complain(file.error());
  const auto models = scheduler::ParseModels(o.models, file->cluster.models());
  if (!models) return Complain(models.error());
  o.job.models = *models;
  if (o.job.gpus > 1 && o.job.milli != scheduler::kWholeGpu)
    return Complain({ErrorCode::kBadInput,
                     fmt::format("--milli {}: expected 1000 for a job of {} GPUs", o.job.milli, o.job.gpus)});
  const auto tenant = file->TenantOf(o.tenant_of);
  o.job.tenant = tenant;
  std::vector<scheduler::Job> usual = file->jobs;
  usual.push_back(o.job);
  const scheduler::PlacerOptions how{*scheduler::PolicyByName(o.policy),
                                     *scheduler::ObjectiveByName(o.objective)};
  const size_t model_count = file->cluster.models().size();
  const scheduler::JobMix mix(usual, static_cast<int>(model_count));
  std::optional<scheduler::LookAhead> look_ahead;
  if (how.policy == scheduler::Policy::kSpillway &&
      file->cluster.rules().isolation == scheduler::Isolation::kNone)
    look_ahead.emplace(usual, std::vector<scheduler::Job>{}, file->cluster.nodes(), model_count);
  scheduler::Placer placer(file->cluster, look_ahead ? look_ahead->mix() : mix, how,
                           look_ahead ? &look_ahead->fill() : nullptr);
  const scheduler::Explanation why = placer.Explain(o.job);
  base::Print("{}", as_json ? scheduler::ExplanationDocument(file->cluster, o.job, why).Dump()
                            : scheduler::ExplanationText(file->cluster, o.job, why, o.explain));
  return why.chosen ? kExitOk : kExitFailed;
}

void AddPlace(CLI::App& sched, Context& context) {
  auto o = std::make_shared<PlaceOptions>();
  CLI::App* verb =
      sched.add_subcommand("place", "Where one job should go, and why; exit code 1 if it fits nowhere");
  verb->add_option("CLUSTER", o->file, "Cluster file (YAML), see docs/scheduler.md")->required();
  verb->add_option("--gpus", o->job.gpus, "0, 1, or more whole GPUs")
      ->check(InRange(0, scheduler::kMostGpus))
      ->capture_default_str();
  verb->add_option("--milli", o->job.milli, "Thousandths of one GPU")
      ->check(InRange(1, scheduler::kWholeGpu))
      ->capture_default_str();
  verb->add_option("--cpu-milli", o->job.cpu_milli, "Thousandths of a core")->check(InRange(0, 100'000'000));
  verb->add_option("--memory-mib", o->job.memory_mib, "Of the host")->check(InRange(0, 100'000'000));
  verb->add_option("--model", o->models, "GPU models that will do, separated by |; default: any");
  verb->add_option("--tenant", o->tenant_of, "Whose job it is; matters under isolation gpu");
  verb->add_option("--policy", o->policy, "How nodes are compared")
      ->check(CLI::IsMember(PolicyNames()))
      ->capture_default_str();
  verb->add_option("--objective", o->objective, "What comes first")
      ->check(CLI::IsMember({"fragmentation", "fewest-gpus", "earliest"}))
      ->capture_default_str();
  verb->add_flag("--explain", o->explain, "What was weighed");
  verb->callback([o, &context] { context.action = [o, &context] { return RunPlace(*o, context.json); }; });
}

// ---- optimal

struct OptimalOptions {
  bool check = false;
  std::string isolation = "all", lp_file;
  scheduler::CheckOptions check_options;
};

int RunOptimal(OptimalOptions o, bool as_json) {
  scheduler::CheckOptions& options = o.check_options;
  if (o.isolation != "all") options.levels = {*scheduler::IsolationByName(o.isolation)};
  if (!o.check) options.snapshots = 1;
  if (options.threads == 0) options.threads = std::max(1u, std::thread::hardware_concurrency());
  if (auto there = CheckParent("--lp", o.lp_file); !there) return Complain(there.error());
  if (!o.lp_file.empty()) {
    const auto snapshot =
        scheduler::DrawSnapshot(options.first_seed, options.levels.front(), options.most_jobs);
    const auto written = report::WriteFile(o.lp_file, scheduler::WriteMilp(snapshot));
    if (!written) return Complain(written.error());
  }
  const size_t total = options.levels.size() * static_cast<size_t>(options.snapshots);
  report::Progress progress("sched optimal", report::kQuietStart);
  base::InterruptGuard guard;
  const auto checked = scheduler::CheckOptimal(
      options, [](const std::string& lp) { return scheduler::SolveWithCbc(lp, kSolverSeconds); },
      [&](size_t done, size_t all) {
        progress.Update(static_cast<double>(done) / static_cast<double>(all), "");
      },
      [] { return base::Interrupted(); });
  if (!checked) {
    progress.Stop("failed");
    return Complain(checked.error());
  }
  checked->size() < total ? progress.Stop("interrupted") : progress.Finish("done");
  const report::Document document = scheduler::CheckDocument(*checked);
  base::Print("{}", as_json ? document.Dump() : scheduler::CheckText(*checked));
  if (checked->size() < total) return InterruptedAfter(checked->size(), "snapshots");
  // The promise: 95 % the same, and no rule broken.
  for (const auto& row : document.rows())
    if (o.check && row["kind"] == "level" && (row["same_pct"] < 95.0 || row["faults"] != 0))
      return kExitFailed;
  return kExitOk;
}

void AddOptimal(CLI::App& sched, Context& context) {
  auto o = std::make_shared<OptimalOptions>();
  CLI::App* verb =
      sched.add_subcommand("optimal", "The online heuristic beside the optimum (by cbc) on small cases");
  CLI::Option* check = verb->add_flag("--check", o->check,
                                      "Many snapshots; exit code 1 if under 95 % of a level are the same");
  verb->add_option("--snapshots", o->check_options.snapshots, "Of each isolation level, with --check")
      ->needs(check)
      ->check(InRange(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--jobs", o->check_options.most_jobs, "Most jobs in a snapshot")
      ->check(InRange(2, 15))
      ->capture_default_str();
  verb->add_option("--isolation", o->isolation, "One level instead of all")
      ->check(CLI::IsMember({"all", "none", "fraction", "gpu"}));
  verb->add_option("--seed", o->check_options.first_seed, "The first snapshot")
      ->check(InRange(uint64_t{0}, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  o->check_options.threads = 0;
  verb->add_option("--threads", o->check_options.threads, "Solvers at a time; default: one per CPU")
      ->check(InRange(1, 1024));
  verb->add_option("--lp", o->lp_file, "Also write the first snapshot's program there, in LP format")
      ->type_name("FILE")
      ->check(NonEmpty());
  verb->callback([o, &context] { context.action = [o, &context] { return RunOptimal(*o, context.json); }; });
}

// ---- mig

struct MigOptions {
  std::vector<std::string> taken;
  std::string model = "A100-40";
  bool double_memory = false;
};

Result<scheduler::SliceMask> ParseTaken(const std::vector<std::string>& words) {
  scheduler::SliceMask taken = 0;
  for (const std::string& word : words) {
    const size_t at = word.find('@');
    const auto profile = scheduler::ProfileByName(word.substr(0, at));
    bool placed = false;
    if (profile && at != std::string::npos)
      for (const int start : scheduler::ShapeOf(*profile).starts)
        if (word.substr(at + 1) == std::to_string(start) &&
            (taken & scheduler::MaskOf(*profile, start)) == 0) {
          taken |= scheduler::MaskOf(*profile, start);
          placed = true;
        }
    if (!placed)
      return Fail(
          ErrorCode::kBadInput,
          fmt::format("--taken {}: expected PROFILE@SLICE where that profile may begin and nothing lies yet, "
                      "such as 3g@4",
                      base::Printable(word)));
  }
  return taken;
}

int RunMig(const MigOptions& o, bool as_json) {
  const auto taken = ParseTaken(o.taken);
  if (!taken) return Complain(taken.error());
  const scheduler::GpuModel model = scheduler::ModelByName(o.model);
  if (!model.mig)
    return Complain({ErrorCode::kBadInput,
                     fmt::format("--model {}: expected one that MIG divides: A100-40, A100-80, H100-80, H200",
                                 base::Printable(o.model))});
  base::Print("{}", as_json ? scheduler::GeometryDocument(*taken, o.double_memory).Dump()
                            : scheduler::GeometryText(*taken, o.double_memory, model));
  return kExitOk;
}

void AddMig(CLI::App& sched, Context& context) {
  auto o = std::make_shared<MigOptions>();
  CLI::App* verb =
      sched.add_subcommand("mig", "Into what slices a GPU can be divided, and what is left of one");
  verb->add_option("--taken", o->taken, "Slices that are there: 3g@4,1g@0")->delimiter(',');
  verb->add_option("--model", o->model, "For the slices' memory")->capture_default_str();
  verb->add_flag("--double-memory", o->double_memory,
                 "With the profile of one compute and two memory slices");
  verb->callback([o, &context] { context.action = [o, &context] { return RunMig(*o, context.json); }; });
}

}  // namespace

void AddSchedVerbs(CLI::App& app, Context& context) {
  CLI::App* sched =
      app.add_subcommand("sched", "The scheduler of GPU slices on its own; needs no daemon and no GPU");
  sched->require_subcommand(1);
  AddPlace(*sched, context);
  AddReplay(*sched, context);
  AddOptimal(*sched, context);
  AddMig(*sched, context);
}

}  // namespace spillway::command
