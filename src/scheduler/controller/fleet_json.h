// SPDX-License-Identifier: Apache-2.0
// What the controller's state file and its talk with hosts have in common, as JSON. What is read back equals
// what was written. The readers throw what nlohmann::json throws, or std::invalid_argument. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scheduler/controller/fleet.h"

namespace spillway::scheduler {

nlohmann::json ToJson(const ServedModel& model);
nlohmann::json ToJson(const SlicePlace& place);
nlohmann::json ToJson(const Gpu& gpu);
ServedModel ModelOf(const nlohmann::json& text);
SlicePlace PlaceOf(const nlohmann::json& text);
Gpu GpuOf(const nlohmann::json& text);

}  // namespace spillway::scheduler
