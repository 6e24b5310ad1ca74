// SPDX-License-Identifier: Apache-2.0
#include "near_word.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace spillway::base {
namespace {

// Levenshtein distance: insertions, deletions and replacements from a to b.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string_view NearWord(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr size_t kLongest = 64;  // beyond, nothing is near
  constexpr size_t kShort = 3;
  std::string_view nearest;
  if (word.size() > kLongest) return nearest;
  // Of three letters two are most of the word.
  size_t best = (word.size() <= kShort ? 1 : std::max<size_t>(2, word.size() / 2)) + 1;
  for (std::string_view candidate : known) {
    const bool is_begun = word.size() >= kShort && candidate.starts_with(word);
    size_t distance = is_begun ? 1 : EditDistance(word, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace spillway::base
