// SPDX-License-Identifier: Apache-2.0
// Claims: what extenders mean to bind, and have bound, on a node, in an annotation of the node, which whoever
// makes pods cannot write; how long one counts. A claim is written before its pod is bound, against the
// node's resourceVersion: of two extenders that would give one GPU twice, one finds the other's claim. Pure;
// thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace spillway::scheduler {

inline constexpr const char* kClaimsAnnotation = "spillway.io/claims";
// So long after it was written, a claim whose pod is on no node is nobody's bind any more.
inline constexpr std::chrono::seconds kClaimLasts{60};

struct Claim {
  std::string space, pod;  // its namespace and name
  std::string gpu, slice;  // as the pod's annotations
  int64_t at = 0;          // seconds since 1970
  std::string by = {};     // which extender wrote it: its own cache knows better
  bool operator==(const Claim&) const = default;
};
using Claims = std::map<std::string, Claim>;  // by the pods' uids

// Whether it is nobody's bind any more, where its pod is on no node; `now`: seconds since 1970.
[[nodiscard]] inline bool IsOver(const Claim& claim, int64_t now) {
  // Nor one of the future: clocks differ by less.
  return claim.at < now - kClaimLasts.count() || claim.at > now + kClaimLasts.count();
}

// Of a node; what is no claim is left out.
[[nodiscard]] Claims ReadClaims(const nlohmann::json& node);
// A merge patch that writes them, if nobody has changed the node since it was read.
[[nodiscard]] std::string ClaimsPatch(const nlohmann::json& node, const Claims& claims);

}  // namespace spillway::scheduler
