// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extender/claims.h"

#include <nlohmann/json.hpp>

#include "scheduler/extender/kube_json.h"

namespace spillway::scheduler {

using nlohmann::json;

Claims ReadClaims(const json& node) {
  Claims claims;
  const json* meta = Find(node, "metadata");
  const json* notes = meta == nullptr ? nullptr : Find(*meta, "annotations");
  const auto list = notes == nullptr ? tl::make_unexpected(Error{ErrorCode::kBadInput, ""})
                                     : ParseKubeJson(TextAt(*notes, kClaimsAnnotation));
  if (!list || !list->is_object()) return claims;
  for (const auto& [uid, entry] : list->items()) {
    if (!entry.is_object()) continue;
    Claim claim{TextAt(entry, "namespace"), TextAt(entry, "pod"), TextAt(entry, "gpu"),
                TextAt(entry, "slice")};
    if (const json* at = Find(entry, "at"); at != nullptr && at->is_number_integer())
      claim.at = at->get<int64_t>();
    claim.by = TextAt(entry, "by");
    if (!claim.space.empty() && !claim.pod.empty()) claims[uid] = std::move(claim);
  }
  return claims;
}

std::string ClaimsPatch(const json& node, const Claims& claims) {
  json list = json::object();
  for (const auto& [uid, claim] : claims) {
    json& entry = list[uid] = {{"namespace", claim.space}, {"pod", claim.pod}, {"at", claim.at}};
    if (!claim.gpu.empty()) entry["gpu"] = claim.gpu;
    if (!claim.slice.empty()) entry["slice"] = claim.slice;
    if (!claim.by.empty()) entry["by"] = claim.by;
  }
  const json* meta = Find(node, "metadata");
  return json{{"metadata",
               {{"resourceVersion", meta == nullptr ? "" : TextAt(*meta, "resourceVersion")},
                {"annotations", {{kClaimsAnnotation, list.dump()}}}}}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace spillway::scheduler
