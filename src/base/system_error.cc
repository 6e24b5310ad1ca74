// SPDX-License-Identifier: Apache-2.0
#include "base/system_error.h"

#include <cstring>

namespace spillway {

tl::unexpected<Error> FailSystem(const std::string& operation, int error) {
  const bool is_refused = error == EPERM || error == EACCES;
  return Fail(is_refused ? ErrorCode::kUnavailable : ErrorCode::kSystem,
              operation + ": " + std::strerror(error));
}

}  // namespace spillway
