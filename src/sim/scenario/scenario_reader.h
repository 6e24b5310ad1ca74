// SPDX-License-Identifier: Apache-2.0
// A scenario file: YAML -> Scenario, checked whole; nothing is half-read. An error holds everything that is
// wrong with the file, one line each, "file:line: key.path: expected what, got what", with
// ErrorCode::kBadInput. docs/sim.md describes every key. Threading: none keeps state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

// `file_name` stands in messages, and its folder is the base of relative paths: pool files and traces,
// which are read too.
[[nodiscard]] Result<Scenario> ParseScenario(std::string_view text, const std::string& file_name);

// What reads like a mistake and is none: loads that look like shares, where they are in percent. A line each.
[[nodiscard]] std::vector<std::string> Doubts(const Scenario& scenario, const std::string& path);

// The same as ParseScenario from a file. One that cannot be read is kBadInput too.
[[nodiscard]] Result<Scenario> LoadScenario(const std::string& path);

}  // namespace spillway::sim
