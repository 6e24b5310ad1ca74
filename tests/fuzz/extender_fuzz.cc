// SPDX-License-Identifier: Apache-2.0
// Messages of kube-scheduler and objects of the API server: whatever they are, they are read or refused in a
// line, and answered in JSON.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "scheduler/extender/claims.h"
#include "scheduler/extender/kube_json.h"
#include "scheduler/extender/node.h"
#include "scheduler/extender/pod.h"
#include "scheduler/extender/wire.h"

using namespace spillway::scheduler;

namespace {

void Check(const std::string& text) {
  if (nlohmann::json::parse(text, nullptr, false).is_discarded()) std::abort();
}

void ReadPod(const nlohmann::json& pod) {
  if (const auto ask = ReadPodAsk(pod); !ask && ask.error().message.empty()) std::abort();
  if (!ReadBoundPod(pod)) (void)ReadUnreadablePod(pod);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(bytes), size);
  if (auto args = ParseExtenderArgs(body)) {
    ReadPod(args->pod);
    for (const auto& node : args->nodes) (void)ReadKubeNode(node);
    const std::vector<FilterVerdict> verdicts(args->names.size(), {"full", false});
    Check(PriorityReply(args->names, std::vector<int>(args->names.size(), 3)));
    Check(FilterReply(std::move(*args), verdicts));
  }
  if (const auto args = ParseBindingArgs(body)) Check(BindingBody(*args, {{kGpuAnnotation, "0"}}));
  if (const auto object = ParseKubeJson(body)) {
    ReadPod(*object);
    (void)ReadKubeNode(*object);
    if (const Claims claims = ReadClaims(*object); !claims.empty()) Check(ClaimsPatch(*object, claims));
  }
  return 0;
}
