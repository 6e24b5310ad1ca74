// SPDX-License-Identifier: Apache-2.0
// The document of `spillway bench dispatch` as people read it: the columns that one looks at, in words; the
// document has all others. Pure.
#pragma once

#include <string>

#include "report/document.h"

namespace spillway::bench {

[[nodiscard]] std::string DispatchText(const report::Document& document);

}  // namespace spillway::bench
