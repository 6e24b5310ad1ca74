// SPDX-License-Identifier: Apache-2.0
#include "lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/problems.h"
#include "scheduler/data_folder.h"

namespace spillway::command {

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
  loaded.path = *path;
  if (std::none_of(loaded.jobs.jobs.begin(), loaded.jobs.jobs.end(),
                   [](const scheduler::TraceJob& one) { return one.job.gpus > 0; }))
    return Fail(ErrorCode::kBadInput, *path + ": num_gpu: expected one job at least that asks for a GPU");
  loaded.name = *path == lists.list ? loaded.jobs.name : lists.list;
  if (need_nodes)
    for (const auto& [model, asking] : loaded.jobs.absent_models)
      fmt::print(stderr, "spillway: {}: gpu_spec: no node has {}, which {} jobs ask for\n", *path,
                 model::Excerpt(model), asking);
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
      ->capture_default_str();
  verb.add_option("--data", lists.data, kDataHelp)->type_name("DIR");
  verb.add_option("--nodes", lists.nodes,
                  "Nodes: a CSV file instead of the folder's openb_node_list_gpu_node.csv")
      ->type_name("FILE");
}

}  // namespace spillway::command
