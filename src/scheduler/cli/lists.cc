// SPDX-License-Identifier: Apache-2.0
#include "lists.h"

#include "base/print.h"
#include "command/option_checks.h"
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
  loaded.name = *path == lists.list ? loaded.jobs.name : lists.list;
  if (need_nodes)
    for (const auto& [model, asking] : loaded.jobs.absent_models)
      base::PrintError("spillway: {}: gpu_spec: no node has {}, which {} jobs ask for\n", *path,
                       model::Excerpt(model), asking);
  return loaded;
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
