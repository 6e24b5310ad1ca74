// SPDX-License-Identifier: Apache-2.0
// What a GPU host's node agent and the controller say to each other: the host tells all that it has, and is
// told all that it is to have. Each message is whole, so that a lost or repeated one does no harm. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/controller/controller.h"

namespace spillway::scheduler {

constexpr size_t kMaxGpusOfHost = 64;
// Each costs its node agent a record on disk, and the controller a place in the fleet's state.
constexpr size_t kMaxInstancesOfHost = 4096;
constexpr size_t kMaxLastWords = 4096;  // bytes, of an executor that failed
constexpr size_t kMaxGpuName = 32;      // characters
constexpr size_t kMaxGpuWords = 256;    // bytes, of why one is lost
constexpr size_t kMaxProgramsOfHost = 64;

struct HostReport {
  std::string agent;  // of one run of one program: two agents of one name are found out by it
  std::vector<Gpu> gpus;
  std::vector<Held> held;
  uint64_t revision = 0;                // the last that it has acted on
  Millis wait_ms = 0;                   // the answer may take so long, if there is nothing new
  std::set<std::string> programs = {};  // its own, which can serve models
};

struct HostOrders {
  uint64_t revision = 0;
  std::vector<WantedInstance> wanted;
};

[[nodiscard]] std::string ToText(const HostReport& report);
[[nodiscard]] std::string ToText(const HostOrders& orders);
[[nodiscard]] std::string ToText(const WantedInstance& instance);
// kBadInput: what was expected. What a report says is fit to be printed: names as in our files, one GPU of a
// name, no control characters.
[[nodiscard]] Result<HostReport> ParseHostReport(std::string_view text);
// Of an instance that is named twice the first counts.
[[nodiscard]] Result<HostOrders> ParseHostOrders(std::string_view text);
[[nodiscard]] Result<WantedInstance> ParseWantedInstance(std::string_view text);

}  // namespace spillway::scheduler
