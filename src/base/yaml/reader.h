// SPDX-License-Identifier: Apache-2.0
// Reads a YAML map key by key and tells what does not fit: unknown keys, repeated keys, missing keys,
// wrong types. Scalars are read by the functions of scalars.h. Keeps references to its arguments; one
// thread.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml/problems.h"

namespace spillway::yaml {

// A value and where it stands. The line is that of its key, or of the list entry it is: where an alias
// is used, not where its anchor stands.
struct Field {
  std::string path;
  int line = 1;
  YAML::Node node;
};

// Where keys stand, "file:line: key", whose fault only the use of what they say shows: a socket in use, say.
using Places = std::map<std::string, std::string>;  // by the key's path
void NotePlace(Places& places, const std::string& file_name, const Field& field);
// `error` of what that key says, with the key's place.
[[nodiscard]] Error At(const Places& places, const std::string& key, const Error& error);

// "nothing", "a list", "a map", or an excerpt of the scalar.
std::string Describe(const YAML::Node& node);

class MapReader {
 public:
  // Reports everything but the values of the known keys. `field` that is no map is reported, too; then
  // every key is absent, and Need() stays silent.
  MapReader(Problems& problems, const Field& field, std::initializer_list<std::string_view> known);

  bool is_map() const { return is_map_; }
  // The key's value, or nullptr if it is absent.
  const Field* Find(std::string_view key) const;
  // The same; tells of its absence, with what it should hold.
  const Field* Need(std::string_view key, std::string_view expected) const;
  // Reports those of `keys` that are there. why: such as "allowed only with pool".
  void Refuse(std::initializer_list<std::string_view> keys, const std::string& why) const;

 private:
  Problems& problems_;
  std::string path_;
  int line_;
  bool is_map_;
  std::map<std::string, Field, std::less<>> fields_;
};

// The entries of a list. An entry's path is "path[x]" where it says `name: x`, else "path[#1]", "path[#2]",
// ... Not a list: tells, and gives none.
std::vector<Field> ReadList(Problems& problems, const Field& field, std::string_view expected);

// " (did you mean x?)" for the nearest of `known`, or all of them when none is near.
std::string Suggest(const std::string& word, const std::vector<std::string_view>& known);

}  // namespace spillway::yaml
