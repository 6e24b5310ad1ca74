// SPDX-License-Identifier: Apache-2.0
// The extender's answers to the Kubernetes scheduler, as JSON.
#pragma once

#include <string>
#include <utility>

#include "api/http.h"
#include "scheduler/extender/wire.h"

namespace spillway::kubernetes {

inline api::Response Json(std::string body) { return {.body = std::move(body)}; }

// An answer of the extender's protocol that says what failed; `failed` becomes true.
inline api::Response Failed(bool& failed, const std::string& message) {
  failed = true;
  return Json(scheduler::ErrorReply("spillway: " + message));
}

}  // namespace spillway::kubernetes
