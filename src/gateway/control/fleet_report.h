// SPDX-License-Identifier: Apache-2.0
// The fleet as JSON, for GET /v1/models; the words of `trouble` come from scheduler/controller. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>

#include "scheduler/controller/controller.h"

namespace spillway::gateway {

// By instance: what its last requests took there, in ms, the wait not counted.
using TookMs = std::map<uint64_t, double>;

// {models: [...], hosts: [...], gpus_on, gpu_hours, moves: {done, failed, left}}; docs/models.md has it all.
nlohmann::json ReportOf(const scheduler::Controller& controller, const TookMs& took = {});
// One entry of `models`.
nlohmann::json ReportOf(const scheduler::Fleet& fleet, const scheduler::ServedModel& model,
                        const TookMs& took = {});

}  // namespace spillway::gateway
