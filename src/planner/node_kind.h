// SPDX-License-Identifier: Apache-2.0
// What a node of a planned cluster is there for (Lovelock, section 3). Pure values. Hardware that one can buy
// is no kind but an entry of examples/plan/catalogue.yaml, which the program has built in.
#pragma once

#include <array>
#include <optional>
#include <string>

namespace spillway::planner {

enum class NodeKind {
  kAccelerator,  // carries accelerators and feeds them
  kStorage,      // carries drives and serves them over the network
  kLiteCompute,  // carries nothing: light computation and shuffles
};

inline constexpr std::array<NodeKind, 3> kNodeKinds = {NodeKind::kAccelerator, NodeKind::kStorage,
                                                       NodeKind::kLiteCompute};

// "accelerator", "storage", "lite-compute": as files and answers spell them.
[[nodiscard]] std::string ToString(NodeKind kind);
[[nodiscard]] std::optional<NodeKind> ParseNodeKind(const std::string& word);

}  // namespace spillway::planner
