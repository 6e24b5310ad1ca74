// SPDX-License-Identifier: Apache-2.0
// What an operator should hear about a plan that was, or would be, carried out. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan.h"

namespace spillway::switching {

// Where this switch, for what it did before, differs from one that begins with the same file now: another of
// its group, or itself after a reboot.
[[nodiscard]] std::vector<std::string> HistoryNotes(const Plan& plan);

// Services whose pool has no unit that is up.
[[nodiscard]] std::vector<std::string> UnservedNotes(const Plan& plan);

// All of these, and the units whose status an operator set otherwise than the file.
[[nodiscard]] std::vector<std::string> NotesOf(const Plan& plan, const Ledger& ledger);

}  // namespace spillway::switching
