// SPDX-License-Identifier: Apache-2.0
// All records of a run as a file's content. Pure.
#pragma once

#include <string>

#include "ledger.h"

namespace spillway::load {

// intended_ns,sent_ns,received_ns,flow,unit,measured; a time that never came is empty.
[[nodiscard]] std::string SamplesCsv(const Ledger& ledger);

// Little-endian: magic 8 "SPWSMP01" | records 8 | units 4 | per unit: length 1, name |
// per record (32): intended_ns 8, sent_ns 8, received_ns 8 (-2^63: never), flow 4, unit 2 (0xffff: none),
// measured 1, zero 1. Times count from the start of the run.
[[nodiscard]] std::string SamplesBinary(const Ledger& ledger);

}  // namespace spillway::load
