// SPDX-License-Identifier: Apache-2.0
// The last load report heard of each unit, by name, kept where it outlives the maps: a report recorded before
// a reboot, or before the data plane was removed, is then as stale afterwards as it was before.
#pragma once

#include <map>
#include <string>

#include "core/report.h"
#include "model/error.h"

namespace spillway::switching {

using HeardReports = std::map<std::string, spw_report_seen>;  // by UnitName

// On disk, mode 0600, before it returns. Errors: kSystem, kConflict.
[[nodiscard]] Result<void> SaveHeard(const HeardReports& heard, const std::string& path);

// Empty if the file is not there or holds something else.
HeardReports LoadHeard(const std::string& path);

// Whether `a` is later than `b`: the order of boot ids, then of sequence numbers (RFC 1982).
bool IsLater(const spw_report_seen& a, const spw_report_seen& b);

}  // namespace spillway::switching
