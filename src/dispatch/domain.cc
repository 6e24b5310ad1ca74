// SPDX-License-Identifier: Apache-2.0
#include "dispatch/domain.h"

#include <fmt/format.h>

#include "dispatch/native/domain.h"
#if defined(SPILLWAY_EVENTDEV)
#include "dispatch/eventdev_domain.h"
#endif

namespace spillway::dispatch {

std::string_view ToString(Kind kind) {
  switch (kind) {
    case Kind::kAtomic:
      return "atomic";
    case Kind::kOrdered:
      return "ordered";
    case Kind::kUnordered:
      return "unordered";
    case Kind::kDirected:
      return "directed";
  }
  return "unknown";
}

Result<std::unique_ptr<Domain>> Domain::Open(std::string_view engine, const DomainOptions& options) {
  auto within = [](const char* what, uint64_t value, uint64_t low, uint64_t high) -> Result<void> {
    if (low <= value && value <= high) return {};
    return Fail(ErrorCode::kBadInput, fmt::format("{} {}: expected {} to {}", what, value, low, high));
  };
  const auto checked =
      within("credits", options.credits, 64, 1u << 20)
          .and_then([&] { return within("ports", options.ports, 1, 256); })
          .and_then([&] { return within("starvation_guard", options.starvation_guard, 2, 65535); });
  if (!checked) return tl::make_unexpected(checked.error());
  if (options.deadline.count() < 0) return Fail(ErrorCode::kBadInput, "a negative deadline");
  if (engine == "native") return std::make_unique<NativeDomain>(options);
  if (engine == "event_sw" || engine == "event_dsw" || engine == "event_dlb2") {
#if defined(SPILLWAY_EVENTDEV)
    return OpenEventdev(engine, options);
#else
    return Fail(ErrorCode::kUnavailable, fmt::format("engine {}: built without DPDK", engine));
#endif
  }
  return Fail(ErrorCode::kBadInput,
              fmt::format("engine {}: expected native, event_sw, event_dsw or event_dlb2", engine));
}

}  // namespace spillway::dispatch
