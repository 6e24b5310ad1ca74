// SPDX-License-Identifier: Apache-2.0
// The scalars of our files (names, texts, paths, numbers, times, sizes): each function reads one, or tells
// what it expected and gives nullopt. Threading: none keeps state.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml/reader.h"

namespace spillway::yaml {

// "3s", "300ms", "5m", "1h": digits and a unit, no space. nullopt also when it exceeds 100 years.
std::optional<std::chrono::milliseconds> ParseDuration(std::string_view text);
// 1..64 letters, digits, '.', '_', '-', the first a letter or digit: names stand in paths
// "pool/server/unit", in URLs and in metric labels.
bool IsName(std::string_view text);

// The value is not what was expected; nothing, for the caller to return.
std::nullopt_t Refuse(Problems& problems, const Field& field, std::string_view expected);

std::optional<std::string> ReadText(Problems& problems, const Field& field, std::string_view expected);
// A path, seen from `folder`, that of the file it stands in: absolute, so that it means the same wherever it
// is saved.
std::optional<std::string> ReadPath(Problems& problems, const Field& field, std::string_view expected,
                                    const std::filesystem::path& folder);
std::optional<std::string> ReadName(Problems& problems, const Field& field);
std::optional<uint64_t> ReadInteger(Problems& problems, const Field& field, uint64_t least, uint64_t most);
std::optional<double> ReadPositive(Problems& problems, const Field& field);
std::optional<bool> ReadBool(Problems& problems, const Field& field);
std::optional<std::chrono::milliseconds> ReadDuration(Problems& problems, const Field& field,
                                                      std::chrono::milliseconds least,
                                                      std::chrono::milliseconds most);
// "250us", "1.1ms", "3s": a number and ns, us, ms or s; 0 may stand alone.
std::optional<std::chrono::nanoseconds> ReadTime(Problems& problems, const Field& field,
                                                 std::chrono::nanoseconds least,
                                                 std::chrono::nanoseconds most);
std::optional<double> ReadNumber(Problems& problems, const Field& field, double least, double most);
// One of `words`, as its index.
std::optional<size_t> ReadChoice(Problems& problems, const Field& field,
                                 const std::vector<std::string>& words);
// `into` keeps its default where the key is absent or wrong.
template <class T, class Read>
void Take(T& into, const Field* field, Read read) {
  if (field == nullptr) return;
  if (auto value = read(*field)) into = static_cast<T>(*value);
}

}  // namespace spillway::yaml
