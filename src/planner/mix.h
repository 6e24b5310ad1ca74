// SPDX-License-Identifier: Apache-2.0
// A cluster: how many of which nodes, and the network between them. Plain values; nodes and devices are
// places in the catalogue that they were chosen from.
#pragma once

#include <string>
#include <vector>

#include "planner/catalogue.h"

namespace spillway::planner {

// Equal nodes of one kind.
struct Group {
  NodeKind kind = NodeKind::kLiteCompute;
  size_t node = 0;    // catalogue.nodes[node]
  int nodes = 0;      // how many, >= 1
  int devices = 0;    // over all of them, as even as whole devices allow
  size_t device = 0;  // catalogue.devices[device]; of no meaning where devices is 0

  // On the node that carries most.
  int DevicesPerNode() const { return (devices + nodes - 1) / nodes; }
  bool operator==(const Group&) const = default;
};

struct Fabric {
  double port_gbps = 0;         // per node
  double oversubscription = 1;  // >= 1: ports per port's worth of spine
  bool operator==(const Fabric&) const = default;
};

// At most one group of accelerator nodes, one of storage nodes, and two of lite compute nodes: one type
// may bring the cores and the other the network.
struct Mix {
  std::vector<Group> groups;
  Fabric fabric;
  bool operator==(const Mix&) const = default;
};

// "12 x n2d-milan (lite-compute)", "8 x ipu-e2000 with 4 x paper-accelerator each (accelerator)".
[[nodiscard]] std::string Describe(const Catalogue& catalogue, const Group& group);
// The groups, "; " between them, then the fabric: "fabric 100 Gb/s, oversubscribed 2:1".
[[nodiscard]] std::string Describe(const Catalogue& catalogue, const Mix& mix);

}  // namespace spillway::planner
