// SPDX-License-Identifier: Apache-2.0
#include "planner/catalogue.h"

#include <algorithm>

namespace spillway::planner {
namespace {

template <class Entry>
const Entry* FindNamed(const std::vector<Entry>& entries, const std::string& name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

const Node* Catalogue::FindNode(const std::string& name) const { return FindNamed(nodes, name); }
const Device* Catalogue::FindDevice(const std::string& name) const { return FindNamed(devices, name); }

std::string ToString(Platform platform) { return platform == Platform::kServer ? "server" : "smartnic"; }

}  // namespace spillway::planner
