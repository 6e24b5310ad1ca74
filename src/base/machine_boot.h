// SPDX-License-Identifier: Apache-2.0
// Which start of this machine this is.
#pragma once

#include <string>

namespace spillway::base {

// The kernel's id, another with each boot: the same in all containers of a host, whatever they call
// themselves. Empty where the kernel shows none.
[[nodiscard]] std::string BootId();

}  // namespace spillway::base
