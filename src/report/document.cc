// SPDX-License-Identifier: Apache-2.0
#include "report/document.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/file.h"
#include "file.h"

namespace spillway::report {

using nlohmann::ordered_json;

Document::Document(std::string bench, Machine machine, std::string_view commit)
    : bench_(std::move(bench)), machine_(std::move(machine)), commit_(commit) {}

void Document::AddRow(ordered_json row) {
  if (!row.is_object()) throw std::invalid_argument("Document::AddRow: not an object");
  for (auto& [key, value] : row.items()) {
    if (value.is_structured())
      throw std::invalid_argument(fmt::format("Document::AddRow: {} is not a flat value", key));
    if (value.is_number_float() && !std::isfinite(value.get<double>())) value = nullptr;
  }
  rows_.push_back(std::move(row));
}

void Document::SetRatio(const std::string& name, double value) {
  ratios_[name] = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json Document::Json() const {
  return {{"bench", bench_},
          {"commit", commit_},
          {"machine",
           {{"cpu", machine_.cpu},
            {"cores", machine_.cores},
            {"kernel", machine_.kernel},
            {"memory_gib", machine_.memory_gib}}},
          {"rounds", rounds_},
          {"rows", rows_},
          {"ratios", ratios_}};
}

std::string Document::Dump() const {
  // Bytes that are not UTF-8 (a kernel's odd CPU name) must not lose the result of a long run.
  return Json().dump(2, ' ', false, ordered_json::error_handler_t::replace) + '\n';
}

Result<void> Document::Write(const std::string& path) const { return WriteFile(path, Dump()); }

namespace {

// The value of the first "key : value" line, blanks trimmed; empty where there is none.
std::string_view Field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view name = line.substr(0, colon);
    name = name.substr(0, name.find_last_not_of(" \t") + 1);
    if (name != key) continue;
    std::string_view value = line.substr(colon + 1);
    const std::size_t first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return value.substr(first, value.find_last_not_of(" \t\r") + 1 - first);
  }
  return {};
}

std::string Slurp(const char* path) { return base::ReadFile(path).value_or(""); }

}  // namespace

std::string CpuModel(std::string_view cpuinfo) {
  for (const char* key : {"model name", "Model", "Processor", "cpu"}) {
    if (const std::string_view found = Field(cpuinfo, key); !found.empty()) return std::string(found);
  }
  return "unknown";
}

double MemoryGib(std::string_view meminfo) {
  const std::string_view value = Field(meminfo, "MemTotal");  // "8039180 kB"
  double kib = 0;
  std::from_chars(value.data(), value.data() + value.size(), kib);
  return std::round(kib / 1024 / 1024 * 10) / 10;
}

Machine ReadMachine() {
  Machine machine;
  machine.cpu = CpuModel(Slurp("/proc/cpuinfo"));
  machine.memory_gib = MemoryGib(Slurp("/proc/meminfo"));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) machine.cores = CPU_COUNT(&set);
  utsname names{};
  machine.kernel = ::uname(&names) == 0 ? names.release : "unknown";
  return machine;
}

}  // namespace spillway::report
