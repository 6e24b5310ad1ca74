// SPDX-License-Identifier: Apache-2.0
// The scheduler extender's messages, as k8s.io/kube-scheduler/extender/v1 defines them: its types have no
// JSON tags, so that keys are Go's field names (Pod, NodeNames, ...); letters' case does not matter when they
// are read. Pure; thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway::scheduler {

inline constexpr int kMaxPriority = 10;  // of prioritize; 0 is the least

struct ExtenderArgs {
  nlohmann::json pod;
  std::vector<std::string> names;  // of the candidates
  // Where the scheduler sends whole nodes (nodeCacheCapable: false): they go back as they came.
  bool whole_nodes = false;
  nlohmann::json nodes;  // the items, in the order of `names`
};

struct BindingArgs {
  std::string space, pod, uid, node;
};

// One candidate's fate.
struct FilterVerdict {
  std::string why;        // empty: it can take the pod
  bool for_good = false;  // no pod that leaves would change that
};

[[nodiscard]] Result<ExtenderArgs> ParseExtenderArgs(std::string_view body);
[[nodiscard]] Result<BindingArgs> ParseBindingArgs(std::string_view body);

// `verdicts` in the order of args.names.
[[nodiscard]] std::string FilterReply(ExtenderArgs args, const std::vector<FilterVerdict>& verdicts);
[[nodiscard]] std::string PriorityReply(const std::vector<std::string>& names,
                                        const std::vector<int>& scores);
// Of filter and bind: {"Error": message}; empty: it went well.
[[nodiscard]] std::string ErrorReply(const std::string& message);

// The body of POST .../pods/NAME/binding. The API server gives `annotations` to the pod together with its
// node.
[[nodiscard]] std::string BindingBody(const BindingArgs& args,
                                      const std::vector<std::pair<std::string, std::string>>& annotations);

}  // namespace spillway::scheduler
