// SPDX-License-Identifier: Apache-2.0
// Tokens: of tenants, and of executors. Which tenant's one is: Authenticate in gateway/config.h.
#pragma once

#include <string>
#include <string_view>

#include "base/yaml/reader.h"

namespace spillway::gateway {

// No byte's position shows in how long it takes.
bool SameToken(std::string_view a, std::string_view b);

// The token in the file that `field` names, seen from the folder of the file `file_name`. `whose`: "the
// tenant's token". Empty, with a problem told: it cannot be read, others than its owner and group may read it
// or others than its owner may write to it, or it is not 8 to 256 printable characters.
std::string ReadToken(yaml::Problems& problems, const yaml::Field& field, const std::string& file_name,
                      const std::string& whose);

}  // namespace spillway::gateway
