// SPDX-License-Identifier: Apache-2.0
#include "planner/node_kind.h"

namespace spillway::planner {

std::string ToString(NodeKind kind) {
  switch (kind) {
    case NodeKind::kAccelerator:
      return "accelerator";
    case NodeKind::kStorage:
      return "storage";
    case NodeKind::kLiteCompute:
      break;
  }
  return "lite-compute";
}

std::optional<NodeKind> ParseNodeKind(const std::string& word) {
  for (NodeKind kind : kNodeKinds)
    if (ToString(kind) == word) return kind;
  return std::nullopt;
}

}  // namespace spillway::planner
