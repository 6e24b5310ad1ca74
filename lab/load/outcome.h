// SPDX-License-Identifier: Apache-2.0
// What spillway-load tells of a run: its figures, latencies and lateness, and all records as a file's
// content. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "generator.h"
#include "ledger.h"
#include "options.h"

namespace spillway::load {

// One object. Flat but for "units" (name -> answers), "histogram" (le_ms, count; bounds grow by 12 %,
// empty ones left out) and, if asked for, "intervals". Latencies are of requests answered in time and
// count from the intended time; percentiles are exact. *_from_sent_ms count from the
// actual sending instead: where they differ, this client was late (schedule_error_*). Warm-up requests count
// nowhere but in "warmup".
[[nodiscard]] nlohmann::ordered_json ToJson(const Settings& settings, const Trial& run);

// intended_ns,sent_ns,received_ns,flow,unit,measured; a time that never came is empty.
[[nodiscard]] std::string SamplesCsv(const Ledger& ledger);

// Little-endian: magic 8 "SPWSMP01" | records 8 | units 4 | per unit: length 1, name |
// per record (32): intended_ns 8, sent_ns 8, received_ns 8 (-2^63: never), flow 4, unit 2 (0xffff: none),
// measured 1, zero 1. Times count from the start of the run.
[[nodiscard]] std::string SamplesBinary(const Ledger& ledger);

}  // namespace spillway::load
