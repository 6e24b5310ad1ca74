// SPDX-License-Identifier: Apache-2.0
// A trace of arrivals: one time in seconds per line, none before the one above it. Lines that are empty or
// begin with # are passed over. Pure but for reading the file.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace spillway::sim {

// At least two times, the last after the first. Errors: kBadInput, "file:line: expected what, got what".
[[nodiscard]] Result<std::vector<double>> LoadTrace(const std::string& path);
[[nodiscard]] Result<std::vector<double>> ParseTrace(const std::string& text, const std::string& file_name);

}  // namespace spillway::sim
