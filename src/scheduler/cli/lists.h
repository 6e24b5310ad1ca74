// SPDX-License-Identifier: Apache-2.0
// The lists of nodes and jobs that verbs of the scheduler take.
#pragma once

#include <string>

#include "base/error.h"
#include "scheduler/replay/trace_reader.h"

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
};

struct Loaded {
  scheduler::NodeList nodes;
  scheduler::JobList jobs;
  std::string name;  // of the list, as it was given
  std::string path;  // of its file
};

// --list, --data, --nodes.
void AddLists(CLI::App& verb, Lists& lists);

// "FILE: expected columns creation_time and deletion_time", of a list that is not timed.
[[nodiscard]] std::string WhyUntimed(const std::string& path, const scheduler::JobList& list);

// Says on stderr what jobs ask for and no node has. Errors: kBadInput.
[[nodiscard]] Result<Loaded> Load(const Lists& lists, bool need_nodes);

}  // namespace spillway::command
