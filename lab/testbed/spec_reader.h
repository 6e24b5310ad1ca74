// SPDX-License-Identifier: Apache-2.0
// The `testbed:` part of a lab file: YAML -> TestbedSpec, checked whole. All problems are reported, one line
// each, "file:line: key: what was expected". Pure.
#pragma once

#include <optional>
#include <string>

#include "model/reader.h"
#include "spec.h"

namespace spillway::lab {

// Adds to `problems` everything that does not fit; the value is usable only if there are none.
TestbedSpec ReadTestbed(model::Problems& problems, const model::Field& field);

// What a balancer on each server's SmartNIC needs of the testbed; adds to `problems` what is missing, at
// `field`.
void CheckNicBalancers(model::Problems& problems, const model::Field& field, const TestbedSpec& spec);

// The settings of a running agent that a policy may have of its own, over those that `agent` has already.
void ReadAgentSettings(model::Problems& problems, const model::Field& field, AgentSpec& agent);

// "switch" or "nic".
std::optional<BalancerPlace> ReadBalancerPlace(model::Problems& problems, const model::Field& field);

// A lab file holds `testbed:`, and `experiment:` if it is one. Reads the first, ignores the second.
// A `testbed:` that is a text is the path of another lab file, relative to this one.
[[nodiscard]] Result<TestbedSpec> LoadTestbed(const std::string& path);

// The top of a lab file: its two keys, either may be absent. Keys other than these are reported.
struct LabFile {
  std::optional<model::Field> testbed, experiment;
};
[[nodiscard]] Result<YAML::Node> LoadYaml(const std::string& path);
LabFile ReadLabFile(model::Problems& problems, const YAML::Node& root);

// model::ReadTime in the lab's unit.
std::optional<Micros> ReadMicros(model::Problems& problems, const model::Field& field, Micros least,
                                 Micros most);

}  // namespace spillway::lab
