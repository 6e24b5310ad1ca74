// SPDX-License-Identifier: Apache-2.0
// Small random catalogues and workloads, so that every candidate can be asked one by one.
#pragma once

#include <random>

#include "planner/workload.h"

namespace spillway::planner {

// Which kinds the baseline has, and so what is planned.
struct Kinds {
  bool accelerator = false, storage = false, lite_compute = false;
};

// A few thousand candidates at most. `loose`: limits that most mixes meet.
PlanInput RandomInput(std::mt19937_64& random, Kinds kinds, bool loose);

}  // namespace spillway::planner
