// SPDX-License-Identifier: Apache-2.0
// The ledger on disk, in the run directory. It must live exactly as long as the pinned maps whose codes it
// explains, and names them (`maps`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "plan.h"

namespace spillway::switching {

[[nodiscard]] Result<void> SaveLedger(const Ledger& ledger, const std::string& path);

// nullopt: not there, or not a ledger: unreadable, or with an index or status that cannot be.
std::optional<Ledger> LoadLedger(const std::string& path);

// Whether its rings lie within a data plane of so many slots, none over another.
bool RingsFit(const Ledger& ledger, uint32_t ring_capacity);

}  // namespace spillway::switching
