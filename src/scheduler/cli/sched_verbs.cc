// SPDX-License-Identifier: Apache-2.0
#include "sched_verbs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/print.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "scheduler/cluster_reader.h"
#include "scheduler/look_ahead.h"
#include "scheduler/replay/sched_report.h"

namespace spillway::command {
namespace {

// ---- place

struct PlaceOptions {
  std::string file, models, policy = "spillway", objective = "fragmentation", tenant_of;
  scheduler::Job job;
  bool explain = false;
};

int RunPlace(PlaceOptions o, bool as_json) {
  const auto file = scheduler::LoadClusterFile(o.file);
  if (!file) return Complain(file.error());
  for (const std::string& note : file->notes) base::PrintError("spillway: {}\n", note);
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
  verb->add_option("CLUSTER", o->file, "Cluster file (YAML), see docs/scheduler.md; - is stdin")->required();
  verb->add_option("--gpus", o->job.gpus, "0, 1, or more whole GPUs")
      ->check(InRange(0, scheduler::kMaxGpus))
      ->capture_default_str();
  verb->add_option("--milli", o->job.milli, "Thousandths of one GPU")
      ->check(InRange(1, scheduler::kWholeGpu))
      ->capture_default_str();
  verb->add_option("--cpu-milli", o->job.cpu_milli, "Thousandths of a core")->check(InRange(0, 100'000'000));
  verb->add_option("--memory-mib", o->job.memory_mib, "Host memory in MiB")->check(InRange(0, 100'000'000));
  verb->add_option("--model", o->models, "Acceptable GPU models, separated by |; default: any");
  verb->add_option("--tenant", o->tenant_of, "Whose job it is; matters under isolation gpu");
  verb->add_option("--policy", o->policy, "How nodes are compared")
      ->check(CLI::IsMember(PolicyNames()))
      ->capture_default_str();
  verb->add_option("--objective", o->objective, "Primary objective")
      ->check(CLI::IsMember({"fragmentation", "fewest-gpus", "earliest"}))
      ->capture_default_str();
  verb->add_flag("--explain", o->explain, "Explain the choice");
  verb->callback([o, &context] { context.action = [o, &context] { return RunPlace(*o, context.json); }; });
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
  CLI::App* verb = sched.add_subcommand("mig", "List the MIG slices of a GPU and which are free");
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
