// SPDX-License-Identifier: Apache-2.0
// What is wrong with a file, and where each key of it stands: collected while it is read, so that all
// problems are reported together, in the order of the file's lines. One file, one thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace spillway::yaml {

// At most so many problems are reported: beyond, one cause probably repeats.
inline constexpr size_t kMaxProblems = 20;

// Text of the file for use in a message: quoted, short, printable ASCII whatever it held.
std::string Excerpt(std::string_view text);

class Problems {
 public:
  explicit Problems(std::string file_name) : file_name_(std::move(file_name)) {}

  // A key stands here, and what it says was understood.
  void Note(const std::string& path, int line) { lines_.emplace(path, line); }
  // `path` is a key path such as "pools.rack1.servers[s1].units[nic].address"; empty: the whole file.
  void Add(int line, const std::string& path, const std::string& text);
  // The same at the place where `path`, or the nearest key around it, stands.
  void Add(const std::string& path, const std::string& text) { Add(LineOf(path), path, text); }

  // Whether nothing is wrong with this very key. What it says, or its default, may be judged further.
  bool Sound(const std::string& path) const { return !spoiled_.contains(path); }
  bool none() const { return count_ == 0; }
  size_t count() const { return count_; }
  // Enough to stop reading: a file cannot make the reader collect without end.
  bool flooded() const { return count_ >= 1000; }

  // kBadInput; one line each, "file:line: key.path: text", or where there is no file "key.path: text"; the
  // last says how many were left out.
  Error ToError() const;

 private:
  int LineOf(std::string path) const;

  std::string file_name_;
  std::unordered_map<std::string, int> lines_;
  std::unordered_set<std::string> spoiled_;
  std::multimap<int, std::string> told_;  // by line; equal lines in the order of discovery
  size_t count_ = 0;
};

}  // namespace spillway::yaml
