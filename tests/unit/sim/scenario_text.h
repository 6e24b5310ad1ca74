// SPDX-License-Identifier: Apache-2.0
// A small scenario file for tests to change, and what reading one says. Lines are numbered from 1.
#pragma once

#include <stdexcept>
#include <string>

#include "sim/scenario/scenario_reader.h"

namespace spillway::sim {

inline const std::string kText =
    "sim:\n"                                                                                // 1
    "  name: small\n"                                                                       // 2
    "  apps:\n"                                                                             // 3
    "    - name: dns\n"                                                                     // 4
    "      units:\n"                                                                        // 5
    "        - {name: cpu, kind: cpu, capacity: 5, service: 436us, unloaded: 3ms}\n"        // 6
    "        - {name: nic, kind: smartnic, capacity: 1, service: 2182us, unloaded: 3ms}\n"  // 7
    "      threshold: 100ms\n"                                                              // 8
    "  load_pct: [50, 80]\n"                                                                // 9
    "  policies:\n"                                                                         // 10
    "    - {name: headroom}\n";                                                             // 11

// `text` with the first `from` replaced, which must be there.
inline std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == text.npos) throw std::logic_error("not in the text: " + from);
  return text.replace(at, from.size(), to);
}

inline std::string WithLine(const std::string& line) { return kText + "  " + line + "\n"; }
inline std::string WithPolicy(const std::string& policy) { return kText + "    - " + policy + "\n"; }
inline std::string WithAppKey(const std::string& line) {
  return With(kText, "  load_pct", "      " + line + "\n  load_pct");
}

// What is wrong with it; "accepted" if nothing is.
inline std::string Problem(const std::string& text, const std::string& file_name = "s.yaml") {
  const auto scenario = ParseScenario(text, file_name);
  return scenario ? "accepted" : scenario.error().message;
}

// The scenario; throws what is wrong with it.
inline Scenario Parse(const std::string& text, const std::string& file_name = "s.yaml") {
  auto scenario = ParseScenario(text, file_name);
  if (!scenario) throw std::runtime_error(scenario.error().message);
  return std::move(*scenario);
}

}  // namespace spillway::sim
