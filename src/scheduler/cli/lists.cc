// SPDX-License-Identifier: Apache-2.0
#include "lists.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/print.h"
#include "base/printable.h"
#include "base/yaml/problems.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "scheduler/replay/data_folder.h"

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

}  // namespace

Result<Loaded> Load(const Lists& lists, bool need_nodes) {
  Loaded loaded;
  if (need_nodes) {
    const auto path = scheduler::NodeFile(lists.nodes, lists.data);
    if (!path) return tl::make_unexpected(path.error());
    auto nodes = scheduler::LoadNodeList(*path);
    if (!nodes) return tl::make_unexpected(nodes.error());
    loaded.nodes = std::move(*nodes);
  }
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
  if (need_nodes) WarnOfAbsentModels(base::Printable(*path), loaded.jobs.absent_models);
  return loaded;
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
