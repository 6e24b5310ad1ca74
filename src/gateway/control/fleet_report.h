// SPDX-License-Identifier: Apache-2.0
// What operators are told of the fleet. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scheduler/controller/controller.h"

namespace spillway::gateway {

// {models: [...], hosts: [...], gpus_on, gpu_hours, moves: {done, failed, left}}; docs/models.md has it all.
nlohmann::json ReportOf(const scheduler::Controller& controller);
// One entry of `models`.
nlohmann::json ReportOf(const scheduler::Fleet& fleet, const scheduler::ServedModel& model);

}  // namespace spillway::gateway
