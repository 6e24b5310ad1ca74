// SPDX-License-Identifier: Apache-2.0
#include "planner/mix.h"

#include <fmt/format.h>

namespace spillway::planner {

std::string Describe(const Catalogue& catalogue, const Group& group) {
  std::string text = fmt::format("{} x {}", group.nodes, catalogue.nodes[group.node].name);
  if (group.devices > 0 && group.devices % group.nodes == 0)
    text += fmt::format(" with {} x {} each", group.DevicesPerNode(), catalogue.devices[group.device].name);
  else if (group.devices > 0)
    text += fmt::format(" with {} x {} in all", group.devices, catalogue.devices[group.device].name);
  return fmt::format("{} ({})", text, ToString(group.kind));
}

std::string Describe(const Catalogue& catalogue, const Mix& mix) {
  std::string text;
  for (const Group& group : mix.groups) text += Describe(catalogue, group) + "; ";
  text += fmt::format("fabric {:g} Gb/s", mix.fabric.port_gbps);
  if (mix.fabric.oversubscription > 1)
    text += fmt::format(", oversubscribed {:g}:1", mix.fabric.oversubscription);
  return text;
}

}  // namespace spillway::planner
