// SPDX-License-Identifier: Apache-2.0
// A planned cluster as a scenario of the simulator: its nodes become servers of one unit each, the workload
// becomes requests, and the policies are wcmp and p2c. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "planner/cluster_model.h"
#include "sim/scenario/scenario.h"

namespace spillway::planner {

// The units that answer: accelerators where the mix has accelerator nodes, else the cores of its lite
// compute nodes. Everything else that the workload waits for is part of a request's service time.
struct ServingUnits {
  sim::App app;
  double workers = 0;       // of all nodes
  double capacity_rps = 0;  // workers over service times
  double service_ms = 0;    // mean, when every node gets its share by capacity
};

// `name` names the app. Nodes of one type take what the execution-time model says of the whole mix. Of two
// types, each takes what one of its own does, core and network in series: the plan lets them pool both, and
// whether they can is what a simulation shows.
[[nodiscard]] ServingUnits UnitsOf(const ClusterModel& model, const Mix& mix, const std::string& name);

// Balanced over nodes by weight and by the better of two, on what agents report, at this rate. Latencies
// count whole; only a full queue loses a request: one that holds `waiting` requests beside those served.
[[nodiscard]] sim::Scenario ScenarioOf(const ServingUnits& units, double rate_rps, uint32_t waiting,
                                       uint64_t requests, uint64_t seed);

}  // namespace spillway::planner
