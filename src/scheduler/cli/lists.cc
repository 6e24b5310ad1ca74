// SPDX-License-Identifier: Apache-2.0
#include "lists.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/duration.h"
#include "base/print.h"
#include "base/yaml/problems.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "scheduler/cluster_reader.h"
#include "scheduler/replay/openb_lists.h"

namespace spillway::command {
namespace {

void WarnOfAbsentModels(const std::string& file, const std::map<std::string, int>& models) {
  size_t shown = 0;
  for (const auto& [model, asking] : models) {
    if (++shown > yaml::kMaxProblems) {
      base::PrintError("spillway: {}: gpu_spec: and {} more that no node has\n", file,
                       Counted(models.size() - yaml::kMaxProblems, "model"));
      return;
    }
    base::PrintError("spillway: {}: gpu_spec: no node has {}, asked for by {}\n", file, yaml::Excerpt(model),
                     Counted(static_cast<size_t>(asking), "job"));
  }
}

Result<scheduler::NodeList> NodesOf(const Lists& lists) {
  const auto path = scheduler::NodeFile(lists.nodes, lists.data);
  if (!path) return tl::make_unexpected(path.error());
  return scheduler::LoadNodeList(*path);
}

// The nodes of a cluster file, or those of --nodes with what the file says of their models.
Result<scheduler::NodeList> NodesOfCluster(const Lists& lists) {
  const auto file = scheduler::LoadClusterFile(lists.cluster, true);
  if (!file) return tl::make_unexpected(file.error());
  for (const std::string& note : file->notes) base::PrintError("spillway: {}\n", note);
  const auto refuse = [&](const char* key, const char* expected) {
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: cluster.{}: expected {}", base::Printable(lists.cluster), key, expected));
  };
  if (!file->jobs.empty()) return refuse("jobs", "none here, as --list gives the jobs");
  if (!(file->cluster.rules() == scheduler::Rules{}))
    return refuse("isolation, slices", "none here, as --shares says how GPUs are shared");
  scheduler::NodeList list{file->cluster.nodes(), file->cluster.models()};
  if (!list.nodes.empty()) {
    if (!lists.nodes.empty())
      return Fail(ErrorCode::kBadInput, fmt::format("--nodes: not allowed where {} has cluster.nodes",
                                                    base::Printable(lists.cluster)));
    if (file->cluster.gpus() == 0) return refuse("nodes", "one GPU at least");
    return list;
  }
  auto nodes = NodesOf(lists);
  if (!nodes) return nodes;
  for (scheduler::GpuModel& model : nodes->models)
    for (const scheduler::GpuModel& said : list.models)
      if (said.name == model.name) model = said;
  return nodes;
}

Result<Loaded> LoadJobs(const Lists& lists, scheduler::NodeList nodes) {
  Loaded loaded;
  loaded.nodes = std::move(nodes);
  const auto path = scheduler::ListFile(lists.list, lists.data);
  if (!path) return tl::make_unexpected(path.error());
  auto jobs = scheduler::LoadJobList(*path, loaded.nodes.models);
  if (!jobs) return tl::make_unexpected(jobs.error());
  loaded.jobs = std::move(*jobs);
  loaded.path = base::Printable(*path);
  if (std::none_of(loaded.jobs.jobs.begin(), loaded.jobs.jobs.end(),
                   [](const scheduler::TraceJob& one) { return one.job.gpus > 0; }))
    return Fail(ErrorCode::kBadInput,
                loaded.path + ": num_gpu: expected one job at least that asks for a GPU");
  loaded.name = *path == lists.list ? loaded.jobs.name : lists.list;
  if (!loaded.nodes.nodes.empty()) WarnOfAbsentModels(base::Printable(*path), loaded.jobs.absent_models);
  return loaded;
}

}  // namespace

Result<Loaded> Load(const Lists& lists, bool need_nodes) {
  if (!need_nodes) return LoadJobs(lists, {});
  auto nodes = NodesOf(lists);
  if (!nodes) return tl::make_unexpected(nodes.error());
  return LoadJobs(lists, std::move(*nodes));
}

Result<Loaded> LoadForHours(const Lists& lists) {
  if (lists.cluster.empty()) return LoadJobs(lists, {});
  auto nodes = NodesOfCluster(lists);
  if (!nodes) return tl::make_unexpected(nodes.error());
  return LoadJobs(lists, std::move(*nodes));
}

void AddCluster(CLI::App& verb, Lists& lists) {
  verb.add_option(
          "--cluster", lists.cluster,
          "gpu-hours: GPUs of unlike models and speeds, of this cluster file (docs/scheduler.md); one "
          "without nodes: those of --nodes. Default: alike GPUs, as many as are wanted")
      ->type_name("FILE")
      ->check(NonEmpty());
  CLI::Option* nodes = verb.get_option("--nodes");
  nodes->description(nodes->get_description() +
                     "; for --experiment gpu-hours beside a --cluster file without nodes");
}

void AddSeconds(CLI::App& verb, const std::string& option, double& seconds, double most_s,
                const std::string& help) {
  const auto read = [](const std::string& text) -> std::optional<double> {
    const auto time = base::ParseDuration(text);
    if (!time) return std::nullopt;
    return std::chrono::duration<double>(*time).count();
  };
  const auto words = [](double value) {
    return base::DurationText(std::chrono::nanoseconds(static_cast<int64_t>(value * 1e9)));
  };
  verb.add_option_function<std::string>(
          option, [&seconds, read](const std::string& text) { seconds = *read(text); }, help)
      ->check(CLI::Validator(
          [read, words, most_s](const std::string& text) {
            const auto value = read(text);
            if (value && *value <= most_s) return std::string();
            return fmt::format("expected a duration from 0s to {}, such as 5s or 1.5m, got {}", words(most_s),
                               base::Printable(text));
          },
          ""))
      ->type_name("DURATION")
      ->default_str(words(seconds));
}

std::string WhyUntimed(const std::string& path, const scheduler::JobList& list) {
  return list.untimed_line > 0
             ? fmt::format("{}:{}: expected a creation_time and a deletion_time", path, list.untimed_line)
             : path + ": expected columns creation_time and deletion_time";
}

void AddLists(CLI::App& verb, Lists& lists) {
  verb.add_option("--list", lists.list,
                  "Jobs: the name of an openb list (default, gpushare100, ...) or a CSV file")
      ->check(NonEmpty())
      ->capture_default_str();
  verb.add_option("--data", lists.data, kDataHelp)->type_name("DIR")->check(NonEmpty());
  verb.add_option("--nodes", lists.nodes,
                  "Nodes: a CSV file instead of the folder's openb_node_list_gpu_node.csv")
      ->type_name("FILE")
      ->check(NonEmpty());
}

}  // namespace spillway::command
