// SPDX-License-Identifier: Apache-2.0
// Helper of config.cc: reads any one mapping of the agent's file, key by key. What is wrong is added to the
// file's problems and reading goes on, so that all of it is reported at once. Reads can be recorded: then an
// empty file tells which keys there are, what they take and what holds without them, which is what
// docs/agent.md lists. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/config.h"
#include "base/yaml/reader.h"

namespace spillway::agent {

class Section {
 public:
  // `keys` null: nothing is recorded.
  Section(yaml::Problems& problems, const yaml::Field& field, std::initializer_list<std::string_view> known,
          std::vector<KeyInfo>* keys = nullptr);

  // Nothing where the key is absent.
  std::optional<Section> Find(std::string_view key, std::initializer_list<std::string_view> known) const;
  // `expected`: what is said where it is absent; empty: a map with those keys.
  std::optional<Section> Need(std::string_view key, std::initializer_list<std::string_view> known,
                              std::string_view expected = {}) const;

  // Each keeps `into` where the key is absent or wrong; bounds are inclusive.
  void Text(std::string_view key, std::string& into, std::string_view fallback) const;
  template <class Whole>
  void Integer(std::string_view key, Whole& into, uint32_t low, uint32_t high,
               std::string_view fallback = "") const {
    if (const auto value = ReadInteger(key, into, low, high, fallback)) into = static_cast<Whole>(*value);
  }
  void Number(std::string_view key, double& into, double low, double high) const;
  void Time(std::string_view key, std::chrono::nanoseconds& into, std::chrono::nanoseconds low,
            std::chrono::nanoseconds high, std::string_view fallback = "") const;
  template <class T>
  void OneOf(std::string_view key, T& into, std::initializer_list<std::pair<std::string, T>> words) const {
    std::vector<std::string> names;
    std::string fallback;
    for (const auto& [word, value] : words) {
      names.push_back(word);
      if (value == into) fallback = word;
    }
    if (const auto chosen = ReadChoice(key, names, fallback)) into = (words.begin() + *chosen)->second;
  }
  // The entries of a list; nothing where the key is absent or no list.
  std::optional<std::vector<yaml::Field>> List(std::string_view key, std::string_view takes,
                                               std::string_view fallback) const;

  // Keys that must be there: the value, or a problem. `takes` is for the record and the problem.
  const yaml::Field* Required(std::string_view key, std::string_view takes) const;
  bool Has(std::string_view key) const { return map_.Find(key) != nullptr; }
  void NotePlace(std::string_view key, yaml::Places& places, const std::string& file_name) const {
    if (const yaml::Field* field = map_.Find(key)) yaml::NotePlace(places, file_name, *field);
  }
  // Whether what stands there, or holds without it, can be judged further.
  bool Sound(std::string_view key) const { return problems_->Sound(Path(key)); }
  // A problem with this key's value; with the mapping, where it is absent.
  void Add(std::string_view key, const std::string& problem) const;
  // The same of each that is present.
  void Refuse(std::initializer_list<std::string_view> keys, const std::string& problem) const;
  yaml::Problems& problems() const { return *problems_; }

 private:
  std::string Path(std::string_view key) const;
  void Record(std::string_view key, std::string takes, std::string_view fallback) const;
  std::optional<uint64_t> ReadInteger(std::string_view key, uint64_t now, uint32_t low, uint32_t high,
                                      std::string_view fallback) const;
  std::optional<size_t> ReadChoice(std::string_view key, const std::vector<std::string>& words,
                                   const std::string& fallback) const;

  yaml::Problems* problems_;
  std::string path_;
  yaml::MapReader map_;
  std::vector<KeyInfo>* keys_;
};

}  // namespace spillway::agent
