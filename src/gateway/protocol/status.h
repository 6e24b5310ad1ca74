// SPDX-License-Identifier: Apache-2.0
// How a request ended: one number for frames, windows, HTTP and metrics. Append only: clients store them.
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway::gateway {

enum class Status : uint32_t {
  kOk = 0,
  kBadRequest = 1,    // wrong shape, type, size, name or frame
  kDenied = 2,        // no such tenant, or a wrong token
  kNoModel = 3,       // no executor ever had it
  kTooLarge = 4,      // larger than a slice's cell or the gateway's limit
  kBusy = 5,          // the tenant's queue or the gateway's memory is full: come again
  kNoSlice = 6,       // queued to its deadline and no slice could take it
  kDeadline = 7,      // a slice had it, and did not finish in time
  kCancelled = 8,     // by its client
  kFailed = 9,        // the model said so
  kExecutorLost = 10  // two executors died with it
};
inline constexpr int kStatuses = 11;

struct StatusFacts {
  std::string_view word;  // of metrics and logs
  int http;
};

inline StatusFacts FactsOf(Status status) {
  switch (status) {
    case Status::kOk:
      return {"ok", 200};
    case Status::kBadRequest:
      return {"bad_request", 400};
    case Status::kDenied:
      return {"denied", 401};
    case Status::kNoModel:
      return {"no_model", 404};
    case Status::kTooLarge:
      return {"too_large", 413};
    case Status::kBusy:
      return {"busy", 503};
    case Status::kNoSlice:
      return {"no_slice", 503};
    case Status::kDeadline:
      return {"deadline", 504};
    case Status::kCancelled:
      return {"cancelled", 499};
    case Status::kFailed:
      return {"failed", 500};
    case Status::kExecutorLost:
      return {"executor_lost", 502};
  }
  return {"unknown", 500};
}

}  // namespace spillway::gateway
