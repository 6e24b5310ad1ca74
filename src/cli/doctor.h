// SPDX-License-Identifier: Apache-2.0
// Probes of the machine. They change nothing that outlives them: what must be tried is tried in a
// namespace of a child process.
#pragma once

#include <string>
#include <vector>

namespace spillway::command {

enum class Need { kRequired, kHelpful };

struct Finding {
  std::string feature;
  bool present = false;
  Need need = Need::kRequired;
  std::string needed_by;  // the program or verb that uses it
  std::string detail;     // what was found, or what to do about it
  bool is_sure = true;    // false: it depends on what cannot be seen from here, and `detail` says on what
};

// interfaces: whose offloads to look at, too.
std::vector<Finding> Examine(const std::string& bpffs, const std::vector<std::string>& interfaces);

}  // namespace spillway::command
