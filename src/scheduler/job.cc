// SPDX-License-Identifier: Apache-2.0
#include "scheduler/job.h"

namespace spillway::scheduler {

std::optional<Isolation> IsolationByName(std::string_view name) {
  for (const Isolation isolation : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    if (name == ToString(isolation)) return isolation;
  return std::nullopt;
}

const char* ToString(Isolation isolation) {
  switch (isolation) {
    case Isolation::kNone:
      return "none";
    case Isolation::kFraction:
      return "fraction";
    case Isolation::kGpu:
      break;
  }
  return "gpu";
}

}  // namespace spillway::scheduler
