// SPDX-License-Identifier: Apache-2.0
// The body of a change to a running unit or service: the API reads it, and the command line before it asks,
// so that a bad value is reported with or without a daemon. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "model/pool.h"

namespace spillway::api {

// What one request asks of a unit; absent: leave as it is.
struct UnitChange {
  std::optional<spw_unit_status> status;
  std::optional<double> capacity;
  bool forget_reports = false;
};

struct ServiceChange {
  std::optional<spw_unit_policy> unit_policy;
  std::optional<spw_server_policy> server_policy;
  std::optional<uint32_t> idle_s;
};

// kBadInput, "key: expected ...".
[[nodiscard]] Result<UnitChange> ParseUnitChange(const std::string& body);
[[nodiscard]] Result<ServiceChange> ParseServiceChange(const std::string& body);

}  // namespace spillway::api
