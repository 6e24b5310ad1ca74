// SPDX-License-Identifier: Apache-2.0
// The ledger on disk, beside the lock: it must live exactly as long as the pinned maps whose codes it
// explains, so it lies in the run directory.
#pragma once

#include <optional>
#include <string>

#include "model/error.h"
#include "plan.h"

namespace spillway::switching {

[[nodiscard]] Result<void> SaveLedger(const Ledger& ledger, const std::string& path);

// nullopt: not there, or not readable as a ledger.
std::optional<Ledger> LoadLedger(const std::string& path);

}  // namespace spillway::switching
