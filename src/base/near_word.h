// SPDX-License-Identifier: Apache-2.0
// The word that was meant, where one was mistyped. Pure.
#pragma once

#include <string_view>
#include <vector>

namespace spillway::base {

// That of `known` which is fewest insertions, deletions and replacements from `word`, the first of several;
// the rest of a word that was begun counts as one. Empty: none is near, or `word` is longer than 64 bytes.
std::string_view NearWord(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace spillway::base
