// SPDX-License-Identifier: Apache-2.0
#include "commit.h"

namespace spillway::report {

std::string_view BuildCommit() {
  return
#include "commit_text.inc"
      ;
}

}  // namespace spillway::report
