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
  std::string_view nearest;
  if (word.size() > kLongest) return nearest;
  size_t best = std::max<size_t>(2, word.size() / 2) + 1;
  for (std::string_view candidate : known) {
    size_t distance = EditDistance(word, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace spillway::base
