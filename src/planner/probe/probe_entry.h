// SPDX-License-Identifier: Apache-2.0
// What the probe measured, as a catalogue entry and as a JSON document that is a catalogue file. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/catalogue.h"
#include "planner/probe/probe.h"
#include "report/document.h"
#include "report/table.h"

namespace spillway::planner {

// What a probe cannot know; what is not given is assumed, and the entry's sources say so.
struct ProbedMachine {
  std::string name = "this-machine";
  Platform platform = Platform::kServer;
  int cores = 1;
  double memory_gb = 0;
  int device_slots = 0;
  std::optional<double> price_usd, power_w, network_gbps;
  // Speed of one core by itself over that of an IPU E2000's core by itself: with it, the measured
  // contention becomes a throughput on the yardstick that Lovelock's hosts have.
  std::optional<double> core_speed;
};

// `shipped` has the reference: node ipu-e2000, and n2d-milan for the price and power of a server.
[[nodiscard]] Node EntryOf(const std::vector<ProbePoint>& points, const ProbedMachine& machine,
                           const Catalogue& shipped);

// The entry as the catalogue file spells it.
[[nodiscard]] nlohmann::ordered_json NodeJson(const Node& node);

// Rows: kernel, unit, bound_by, busy, per_core, low, high, of_alone. Beside them, "catalogue" with the entry.
[[nodiscard]] nlohmann::ordered_json ProbeJson(const std::vector<ProbePoint>& points, const Node& entry,
                                               int rounds);

// Kernels down, busy cores across: a core's rate, as a share of what it does alone.
[[nodiscard]] report::Table ProbeTable(const std::vector<ProbePoint>& points);

}  // namespace spillway::planner
