// SPDX-License-Identifier: Apache-2.0
// spillway-load's figures of a run, latencies and lateness, from its records. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "generator.h"
#include "settings.h"

namespace spillway::load {

// One object. Flat but for "units" (name -> answers), "histogram" (le_ms, count; bounds grow by 12 %,
// empty ones left out) and, if asked for, "intervals". Latencies are of requests answered in time and
// count from the intended time; percentiles are exact. *_from_sent_ms count from the
// actual sending instead: where they differ, this client was late (schedule_error_*). Warm-up requests count
// nowhere but in "warmup".
[[nodiscard]] nlohmann::ordered_json ToJson(const Settings& settings, const Trial& run);

}  // namespace spillway::load
