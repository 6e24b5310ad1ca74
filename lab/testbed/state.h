// SPDX-License-Identifier: Apache-2.0
// What a testbed has made so far, in /run/spillway/lab/NAME.json: written before each thing is made, so
// that whoever comes after a killed run knows all there is to remove. One writer per testbed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "process.h"

namespace spillway::lab {

inline constexpr const char* kStateFolder = "/run/spillway/lab";

struct RunningProcess {
  std::string label, netns;
  ProcessId id;
};

struct State {
  std::string name;
  // Whoever takes the testbed down when it ends; {0, 0}: `spillway lab up`, which leaves it standing.
  ProcessId owner;
  std::vector<std::string> namespaces;
  std::vector<RunningProcess> processes;
  std::string cgroups;   // the testbed's folder; empty: none
  std::string instance;  // spillwayd's
};

[[nodiscard]] Result<void> SaveState(const State& state);
std::optional<State> LoadState(const std::string& name);  // nullopt also for a file that is no state
std::vector<std::string> StateNames();
// The record and the testbed's folder of generated files.
void RemoveState(const std::string& name);
std::string TestbedFolder(const std::string& name);

// A testbed that nothing stands for any more: its owner ended, or none of its processes lives.
bool IsLeftover(const State& state);

}  // namespace spillway::lab
