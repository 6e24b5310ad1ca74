// SPDX-License-Identifier: Apache-2.0
// The lists of nodes and jobs that verbs of the scheduler take (--list, --data, --nodes, --cluster), found
// and checked against each other.
#pragma once

#include <string>

#include "base/error.h"
#include "scheduler/replay/openb_lists.h"

namespace CLI {
class App;
}

namespace spillway::command {

inline constexpr const char* kDataHelp =
    "Folder of the openb lists; default: $SPILLWAY_OPENB, ./data/openb, ./shared/data/openb, "
    "../shared/data/openb";

// As the user named them.
struct Lists {
  std::string list = "default", data, nodes;
  std::string cluster;  // file, for verbs that have AddCluster
};

struct Loaded {
  scheduler::NodeList nodes;
  scheduler::JobList jobs;
  std::string name;  // of the list, as it was given
  std::string path;  // of its file
};

// --list, --data, --nodes.
void AddLists(CLI::App& verb, Lists& lists);

// --cluster: GPUs of unlike models and speeds, for verbs that count GPU-hours; after AddLists.
void AddCluster(CLI::App& verb, Lists& lists);

// --move-time and the like: "5s", as seconds; `most_s` at most.
void AddSeconds(CLI::App& verb, const std::string& option, double& seconds, double most_s,
                const std::string& help);

// "FILE: expected columns creation_time and deletion_time", of a list that is not timed.
[[nodiscard]] std::string WhyUntimed(const std::string& path, const scheduler::JobList& list);

// Says on stderr what jobs ask for and no node has. Errors: kBadInput.
[[nodiscard]] Result<Loaded> Load(const Lists& lists, bool need_nodes);
// The same for --experiment gpu-hours, whose GPUs are alike, and no nodes read, unless --cluster names a
// file: then its nodes, or, where it has none, those of --nodes with its speeds.
[[nodiscard]] Result<Loaded> LoadForHours(const Lists& lists);

}  // namespace spillway::command
