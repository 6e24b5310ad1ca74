// SPDX-License-Identifier: Apache-2.0
#include "base/yaml/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/near_word.h"
#include "base/print.h"
#include "base/yaml/scalars.h"

namespace spillway::yaml {

namespace {

int LineOf(const YAML::Node& node, int fallback) {
  // A missing value carries the mark of whatever comes next.
  if (!node.IsDefined() || node.IsNull()) return fallback;
  YAML::Mark mark = node.Mark();
  return mark.is_null() ? fallback : mark.line + 1;
}

// What the entry calls itself, if that is a name.
std::string EntryName(const YAML::Node& entry) {
  if (!entry.IsMap()) return {};
  for (const auto& key : entry)
    if (key.first.IsScalar() && key.first.Scalar() == "name")
      return key.second.IsScalar() && IsName(key.second.Scalar()) ? key.second.Scalar() : std::string();
  return {};
}

std::string Join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace

void NotePlace(Places& places, const std::string& file_name, const Field& field) {
  places[field.path] = fmt::format("{}:{}: {}", base::Printable(file_name), field.line, field.path);
}

Error At(const Places& places, const std::string& key, const Error& error) {
  const auto place = places.find(key);
  if (place == places.end()) return error;
  return {error.code, fmt::format("{}: {}", place->second, error.message)};
}

std::string Describe(const YAML::Node& node) {
  if (!node.IsDefined() || node.IsNull()) return "nothing";
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a map";
  return Excerpt(node.Scalar());
}

std::string Suggest(const std::string& word, const std::vector<std::string_view>& known) {
  const std::string_view nearest = base::NearWord(word, known);
  if (!nearest.empty()) return fmt::format("did you mean {}?", nearest);
  return fmt::format("known are {}", fmt::join(known, ", "));
}

MapReader::MapReader(Problems& problems, const Field& field, std::initializer_list<std::string_view> known)
    : problems_(problems), path_(field.path), line_(field.line), is_map_(field.node.IsMap()) {
  problems_.Note(path_, line_);
  if (!is_map_) {
    problems_.Add(line_, path_, fmt::format("expected a map, got {}", Describe(field.node)));
    return;
  }
  for (const auto& entry : field.node) {
    if (problems_.flooded()) break;
    int line = LineOf(entry.first, line_);
    if (!entry.first.IsScalar()) {
      problems_.Add(line, path_, fmt::format("expected a key, got {}", Describe(entry.first)));
      continue;
    }
    const std::string& key = entry.first.Scalar();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      problems_.Add(line, path_, fmt::format("unknown key {}, {}", Excerpt(key), Suggest(key, known)));
      continue;
    }
    std::string path = Join(path_, key);
    auto [place, fresh] = fields_.try_emplace(key, Field{path, line, entry.second});
    if (!fresh)
      problems_.Add(line, path, fmt::format("duplicate key, already on line {}", place->second.line));
    else
      problems_.Note(path, line);
  }
}

const Field* MapReader::Find(std::string_view key) const {
  auto found = fields_.find(key);
  return found == fields_.end() ? nullptr : &found->second;
}

const Field* MapReader::Need(std::string_view key, std::string_view expected) const {
  const Field* field = Find(key);
  if (field == nullptr && is_map_)
    problems_.Add(line_, Join(path_, key), fmt::format("expected {}, got nothing", expected));
  return field;
}

void MapReader::Refuse(std::initializer_list<std::string_view> keys, const std::string& why) const {
  for (const std::string_view key : keys)
    if (const Field* field = Find(key)) problems_.Add(field->line, field->path, why);
}

std::vector<Field> ReadList(Problems& problems, const Field& field, std::string_view expected) {
  std::vector<Field> entries;
  if (!field.node.IsSequence()) {
    problems.Add(field.line, field.path, fmt::format("expected {}, got {}", expected, Describe(field.node)));
    return entries;
  }
  for (const auto& entry : field.node) {
    std::string name = EntryName(entry);
    std::string path = name.empty() ? fmt::format("{}[#{}]", field.path, entries.size() + 1)
                                    : fmt::format("{}[{}]", field.path, name);
    entries.push_back({path, LineOf(entry, field.line), entry});
  }
  return entries;
}

}  // namespace spillway::yaml
