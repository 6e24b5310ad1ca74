// SPDX-License-Identifier: Apache-2.0
// What is allowed but probably a mistake, in lines for the log of who uses the file.
#pragma once

#include <string>
#include <vector>

#include "pool.h"

namespace spillway::model {

// Secrets in files that others may read or change (looks at the files), and servers without a key where a
// service's policy is to read their load reports, and keys that servers share.
std::vector<std::string> Warnings(const Config& config);

}  // namespace spillway::model
