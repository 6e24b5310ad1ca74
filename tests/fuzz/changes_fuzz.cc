// SPDX-License-Identifier: Apache-2.0
// Bodies of the API's changes of units and services: what is taken is within its bounds, and what is refused
// is refused in one line.
#include <cmath>
#include <cstdlib>

#include "api/changes.h"

using namespace spillway;

namespace {

void Judge(const Error& error) {
  const bool is_line = !error.message.empty() && error.message.size() < 1000;
  if (error.code != ErrorCode::kBadInput || !is_line) std::abort();
  for (const unsigned char c : error.message)
    if (c < 0x20 || c == 0x7f) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string body(reinterpret_cast<const char*>(bytes), size);
  if (const auto unit = api::ParseUnitChange(body); !unit)
    Judge(unit.error());
  else if (unit->capacity && !(std::isfinite(*unit->capacity) && *unit->capacity > 0))
    std::abort();
  if (const auto service = api::ParseServiceChange(body); !service)
    Judge(service.error());
  else if (service->unit_policy && *service->unit_policy >= SPW_UNIT_POLICIES)
    std::abort();
  return 0;
}
