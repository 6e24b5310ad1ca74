// SPDX-License-Identifier: Apache-2.0
// Tries XDP on a veth pair in a network namespace of its own.
#pragma once

#include <string>

namespace spillway::command {

struct XdpProbe {
  bool namespaces = false;  // a network namespace could be made
  bool native = false;      // XDP attached in the driver
  bool generic = false;     // XDP attached in generic mode
  std::string detail;       // the first thing that failed, empty when nothing did
};

XdpProbe ProbeXdpOnVeth();

}  // namespace spillway::command
