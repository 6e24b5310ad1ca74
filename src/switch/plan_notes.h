// SPDX-License-Identifier: Apache-2.0
// What an operator should hear about a plan that was, or would be, carried out. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "plan.h"

namespace spillway::switching {

// Where this switch, for what it did before, differs from one that begins with the same file now: another of
// its group, or itself after a reboot.
[[nodiscard]] std::vector<std::string> HistoryNotes(const Plan& plan);

// Services whose pool has no unit that is up.
[[nodiscard]] std::vector<std::string> UnservedNotes(const Plan& plan);

// Where no report may arrive: its address is neither one of `own`, the machine's, nor a VIP.
[[nodiscard]] std::vector<std::string> ReportAddressNotes(const Plan& plan,
                                                          const std::set<model::Address>& own);

// All of these, and the units whose status an operator set otherwise than the file.
[[nodiscard]] std::vector<std::string> NotesOf(const Plan& plan, const Ledger& ledger,
                                               const std::set<model::Address>& own);

}  // namespace spillway::switching
