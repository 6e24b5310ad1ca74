// SPDX-License-Identifier: Apache-2.0
// Names and words of users in lines for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace spillway::base {

// Control characters, line ends among them, and bytes that are no UTF-8 as \x0a; the rest as it is. So a
// file's name, which may hold anything, neither ends an error's line nor drives the terminal.
[[nodiscard]] std::string Printable(std::string_view text);

}  // namespace spillway::base
