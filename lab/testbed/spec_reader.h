// SPDX-License-Identifier: Apache-2.0
// The `testbed:` part of a lab file: YAML -> TestbedSpec, checked whole, its limits of servers and units,
// too. All problems are reported, one line each, "file:line: key: what was expected". Pure.
#pragma once

#include <optional>
#include <string>

#include "base/yaml/reader.h"
#include "spec.h"

namespace spillway::lab {

// Adds to `problems` everything that does not fit; the value is usable only if there are none.
TestbedSpec ReadTestbed(yaml::Problems& problems, const yaml::Field& field);

// What a balancer on each server's SmartNIC needs of the testbed; adds to `problems` what is missing, at
// `field`.
void CheckNicBalancers(yaml::Problems& problems, const yaml::Field& field, const TestbedSpec& spec);

// The settings of a running agent that a policy may have of its own, over those that `agent` has already.
void ReadAgentSettings(yaml::Problems& problems, const yaml::Field& field, AgentSpec& agent);

// "switch" or "nic".
std::optional<BalancerPlace> ReadBalancerPlace(yaml::Problems& problems, const yaml::Field& field);

// A lab file holds `testbed:`, and `experiment:` if it is one. Reads the first, ignores the second.
// A `testbed:` that is a text is the path of another lab file, relative to this one.
[[nodiscard]] Result<TestbedSpec> LoadTestbed(const std::string& path);

// The top of a lab file: its keys, each may be absent. Keys other than these are reported.
struct LabFile {
  std::string description;  // of what it is, for lists
  std::optional<yaml::Field> testbed, experiment;
};
[[nodiscard]] Result<YAML::Node> LoadYaml(const std::string& path);
LabFile ReadLabFile(yaml::Problems& problems, const YAML::Node& root);

// yaml::ReadTime in the lab's unit.
std::optional<Micros> ReadMicros(yaml::Problems& problems, const yaml::Field& field, Micros least,
                                 Micros most);

// The `runs:` of units that compute: {synthetic: {...}}, {vgg16: {...}}, {knn: {...}}. Pure.
void ReadSynthetic(yaml::Problems& problems, const yaml::Field& field, UnitSpec& unit);
void ReadVgg16(yaml::Problems& problems, const yaml::Field& field, UnitSpec& unit);
void ReadKnn(yaml::Problems& problems, const yaml::Field& field, UnitSpec& unit);

}  // namespace spillway::lab
