// SPDX-License-Identifier: Apache-2.0
// What the reader of a search's answer is told to do next. Pure.
#pragma once

#include <string>

#include "planner/inquiry.h"

namespace spillway::planner {

// Of a question without an answer, which options give one: "to keep the other limits, raise --max-cost to
// 12001 USD, or --slo to 1.51". Rounded up, so that they do. Empty: no option is enough.
[[nodiscard]] std::string WayOut(const Found& found);

// That nodes to choose from or to compare with have the shipped catalogue's price and power, and which where
// others have not. Empty: none has.
[[nodiscard]] std::string PlaceholderPrices(const PlanInput& input);

}  // namespace spillway::planner
