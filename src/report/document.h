// SPDX-License-Identifier: Apache-2.0
// The one JSON document every benchmark and experiment writes, and the machine that it names.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/version.h"

namespace spillway::report {

// The machine a result was taken on: enough to judge a figure by, nothing that names a host, a user or
// a path. Thread-safe.
struct Machine {
  std::string cpu;        // model name; "unknown" where the kernel does not say
  int cores = 0;          // that this process may run on
  std::string kernel;     // release, e.g. "6.1.0-18-amd64"
  double memory_gib = 0;  // of the whole machine, to one decimal
};

[[nodiscard]] Machine ReadMachine();

// The parsing behind it: texts of /proc/cpuinfo and /proc/meminfo.
[[nodiscard]] std::string CpuModel(std::string_view cpuinfo);
[[nodiscard]] double MemoryGib(std::string_view meminfo);

// The one JSON document every benchmark and experiment writes:
//   {"bench": name, "commit": text, "machine": {"cpu", "cores", "kernel", "memory_gib"},
//    "rounds": n, "rows": [flat objects], "ratios": {name: number}}
// Keys that hold a time end in its unit (p99_ms, established_ns). Not thread-safe.
class Document {
 public:
  explicit Document(std::string bench) : Document(std::move(bench), ReadMachine(), base::BuildCommit()) {}
  Document(std::string bench, Machine machine, std::string_view commit);

  void SetRounds(int rounds) { rounds_ = rounds; }
  // `row` is a flat object (text, numbers, truths, null); anything else is a programming error
  // (std::invalid_argument). NaN and infinity become null.
  void AddRow(nlohmann::ordered_json row);
  void SetRatio(const std::string& name, double value);

  [[nodiscard]] const nlohmann::ordered_json& rows() const { return rows_; }
  [[nodiscard]] nlohmann::ordered_json Json() const;
  [[nodiscard]] std::string Dump() const;  // indented, ends in a newline
  [[nodiscard]] Result<void> Write(const std::string& path) const;

 private:
  std::string bench_;
  Machine machine_;
  std::string commit_;
  int rounds_ = 1;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json ratios_ = nlohmann::ordered_json::object();
};

}  // namespace spillway::report
