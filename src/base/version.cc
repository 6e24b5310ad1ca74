// SPDX-License-Identifier: Apache-2.0
#include "version.h"

#include <fmt/format.h>

namespace spillway::base {

std::string_view Version() { return SPILLWAY_VERSION; }

std::string_view BuildCommit() {
  return
#include "commit_text.inc"
      ;
}

std::string VersionLine(std::string_view program) {
  return fmt::format("{} {} ({})", program, Version(), BuildCommit());
}

}  // namespace spillway::base
