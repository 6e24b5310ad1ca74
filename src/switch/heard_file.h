// SPDX-License-Identifier: Apache-2.0
// The last load report heard of each unit, by name, kept where it outlives the maps: a report recorded before
// a reboot, or before the data plane was removed, is then as stale afterwards as it was before. It holds for
// the key under which it was heard: a recording under another key is refused by its tag anyway, and whoever
// stole a key could otherwise silence an agent for good by a report of the highest numbers.
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "core/report.h"
#include "model/pool.h"

namespace spillway::switching {

struct HeardReport {
  uint64_t key_tag = 0;  // KeyTag of the server's key then
  spw_report_seen last{};
};
using HeardReports = std::map<std::string, HeardReport>;  // by UnitName

// Tells keys apart without holding one: the SipHash of a fixed text that is no report's.
uint64_t KeyTag(const model::Key& key);

// On disk, mode 0600, before it returns. Errors: kSystem, kConflict.
[[nodiscard]] Result<void> SaveHeard(const HeardReports& heard, const std::string& path);

// Empty if the file is not there or holds something else.
HeardReports LoadHeard(const std::string& path);

// Whether `a` is later than `b`: the order of boot ids, then of sequence numbers (RFC 1982).
bool IsLater(const spw_report_seen& a, const spw_report_seen& b);

}  // namespace spillway::switching
