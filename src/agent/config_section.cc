// SPDX-License-Identifier: Apache-2.0
#include "agent/config_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/duration.h"
#include "base/yaml/scalars.h"

namespace spillway::agent {
namespace {

using std::chrono::nanoseconds;
using yaml::Field;

constexpr std::string_view kRequired = "required";

}  // namespace

Section::Section(yaml::Problems& problems, const Field& field, std::initializer_list<std::string_view> known,
                 std::vector<KeyInfo>* keys)
    : problems_(&problems), path_(field.path), map_(problems, field, known), keys_(keys) {}

std::string Section::Path(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Section::Record(std::string_view key, std::string takes, std::string_view fallback) const {
  if (keys_ != nullptr) keys_->push_back({Path(key), std::move(takes), std::string(fallback)});
}

std::optional<Section> Section::Find(std::string_view key,
                                     std::initializer_list<std::string_view> known) const {
  if (const Field* field = map_.Find(key)) return Section(*problems_, *field, known, keys_);
  if (keys_ == nullptr) return std::nullopt;
  return Section(*problems_, {Path(key), 1, YAML::Node(YAML::NodeType::Map)}, known, keys_);
}

std::optional<Section> Section::Need(std::string_view key, std::initializer_list<std::string_view> known,
                                     std::string_view expected) const {
  map_.Need(key, expected.empty() ? fmt::format("a map with keys {}", fmt::join(known, ", "))
                                  : std::string(expected));
  return Find(key, known);
}

void Section::Text(std::string_view key, std::string& into, std::string_view fallback) const {
  if (const Field* field = map_.Find(key))
    if (auto text = yaml::ReadText(*problems_, *field, "a word")) into = std::move(*text);
  Record(key, "text", fallback);
}

std::optional<uint64_t> Section::ReadInteger(std::string_view key, uint64_t now, uint32_t low, uint32_t high,
                                             std::string_view fallback) const {
  Record(key, fmt::format("{}..{}", low, high), fallback.empty() ? std::to_string(now) : fallback);
  const Field* field = fallback == kRequired
                           ? map_.Need(key, fmt::format("a whole number from {} to {}", low, high))
                           : map_.Find(key);
  return field != nullptr ? yaml::ReadInteger(*problems_, *field, low, high) : std::nullopt;
}

void Section::Number(std::string_view key, double& into, double low, double high) const {
  Record(key, fmt::format("{}..{}", low, high), fmt::format("{}", into));
  yaml::Take(into, map_.Find(key),
             [&](const Field& f) { return yaml::ReadNumber(*problems_, f, low, high); });
}

void Section::Time(std::string_view key, nanoseconds& into, nanoseconds low, nanoseconds high,
                   std::string_view fallback) const {
  Record(key, base::DurationText(low) + ".." + base::DurationText(high),
         fallback.empty() ? base::DurationText(into) : fallback);
  yaml::Take(into, map_.Find(key), [&](const Field& f) { return yaml::ReadTime(*problems_, f, low, high); });
}

std::optional<size_t> Section::ReadChoice(std::string_view key, const std::vector<std::string>& words,
                                          const std::string& fallback) const {
  Record(key, fmt::format("{}", fmt::join(words, ", ")), fallback);
  const Field* field = map_.Find(key);
  return field != nullptr ? yaml::ReadChoice(*problems_, *field, words) : std::nullopt;
}

std::optional<std::vector<Field>> Section::List(std::string_view key, std::string_view takes,
                                                std::string_view fallback) const {
  Record(key, std::string(takes), fallback);
  const std::string expected = fmt::format("a {}", takes);
  const Field* field = fallback == kRequired ? map_.Need(key, expected) : map_.Find(key);
  if (field == nullptr) return std::nullopt;
  const bool sound = problems_->Sound(field->path);
  auto entries = yaml::ReadList(*problems_, *field, expected);
  if (sound && !problems_->Sound(field->path)) return std::nullopt;
  return entries;
}

const Field* Section::Required(std::string_view key, std::string_view takes) const {
  Record(key, std::string(takes), kRequired);
  return map_.Need(key, fmt::format("a {}", takes));
}

void Section::Add(std::string_view key, const std::string& problem) const {
  problems_->Add(Path(key), problem);
}

void Section::Refuse(std::initializer_list<std::string_view> keys, const std::string& problem) const {
  map_.Refuse(keys, problem);
}

}  // namespace spillway::agent
