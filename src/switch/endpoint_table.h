// SPDX-License-Identifier: Apache-2.0
// Keeps an endpoint table (core/endpoint.h) equal to a wanted set while the data plane reads it. The
// order of writes is such that a reader finds a line's old content, its new content, or the line
// gone; never half a key. Single writer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "core/endpoint.h"
#include "mapped_array.h"

namespace spillway::switching {

struct LineWrite {
  uint32_t line;
  spw_endpoint content;  // kind GONE: remove
};

// The writes that make `table` hold exactly `wanted` (keys distinct). Changes nothing. Error
// (kBadInput): some key finds no free line within SPW_ENDPOINT_PROBES; `name` says which table.
[[nodiscard]] Result<std::vector<LineWrite>> PlanLines(const MappedArray<spw_endpoint>& table,
                                                       const std::vector<spw_endpoint>& wanted,
                                                       const char* name);

// Additions and changes first, removals last, so that no key is missing in between.
void WriteLines(MappedArray<spw_endpoint>& table, const std::vector<LineWrite>& writes);

}  // namespace spillway::switching
