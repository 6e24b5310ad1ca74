// SPDX-License-Identifier: Apache-2.0
// A call of the operating system that failed, as an Error: "OPERATION: errno's text".
#pragma once

#include <cerrno>
#include <string>

#include "base/error.h"

namespace spillway {

// kUnavailable where a permission is missing, kSystem otherwise.
[[nodiscard]] tl::unexpected<Error> FailSystem(const std::string& operation, int error = errno);

}  // namespace spillway
