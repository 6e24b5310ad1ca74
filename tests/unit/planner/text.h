// SPDX-License-Identifier: Apache-2.0
// Small files for tests to change, and what reading them says. Lines are numbered from 1.
#pragma once

#include <ostream>
#include <stdexcept>
#include <string>

#include "planner/catalogue_reader.h"
#include "planner/workload_reader.h"

namespace spillway::planner {

inline const std::string kCatalogue =
    "catalogue:\n"                                             // 1
    "  nodes:\n"                                               // 2
    "    - name: box\n"                                        // 3
    "      platform: server\n"                                 // 4
    "      kinds: [storage, lite-compute]\n"                   // 5
    "      cores: 10\n"                                        // 6
    "      network_gbps: 100\n"                                // 7
    "      dram: {channels: 2, mega_transfers_per_s: 5000}\n"  // 8
    "      memory_gb: 64\n"                                    // 9
    "      device_slots: 2\n"                                  // 10
    "      price_usd: 4000\n"                                  // 11
    "      power_w: 300\n"                                     // 12
    "      throughput: {work: 4}\n"                            // 13
    "      sources: {price_usd: invoice, rest: datasheet}\n"   // 14
    "  devices:\n"                                             // 15
    "    - name: ssd\n"                                        // 16
    "      class: drive\n"                                     // 17
    "      price_usd: 100\n"                                   // 18
    "      power_w: 5\n"                                       // 19
    "      capacity_tb: 2\n"                                   // 20
    "      gb_per_s: 3\n"                                      // 21
    "      sources: {rest: datasheet}\n"                       // 22
    "  fabric: {edge_usd_per_gbps: 1, spine_usd_per_gbps: 2, edge_w_per_gbps: 0, spine_w_per_gbps: "
    "0,\n"                                   // 23
    "           sources: {rest: quote}}\n";  // 24

inline const std::string kWorkload =
    "plan:\n"                                                       // 1
    "  name: small\n"                                               // 2
    "  time: {cpu: 0.4, shuffle: 0.6}\n"                            // 3
    "  cpu: {ipu-e2000: 1}\n"                                       // 4
    "  baseline:\n"                                                 // 5
    "    fabric: {port_gbps: 100}\n"                                // 6
    "    lite-compute: {node: n2d-milan, nodes: 2}\n"               // 7
    "  compare: {node: ipu-e2000}\n"                                // 8
    "  limits: {slowdown: 1.5}\n"                                   // 9
    "  search: {nodes: [n2d-milan, ipu-e2000], most_nodes: 16}\n";  // 10

// `text` with the first `from` replaced, which must be there.
inline std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == text.npos) throw std::logic_error("not in the text: " + from);
  return text.replace(at, from.size(), to);
}

// A value of a text, another in its place, and what the message must say.
struct BadValue {
  const char *from, *to, *says;
};
inline void PrintTo(const BadValue& bad, std::ostream* out) { *out << bad.from << " -> " << bad.to; }

// What is wrong with it; "accepted" if nothing is.
inline std::string CatalogueProblem(const std::string& text) {
  const auto read = ParseCatalogue(text, "c.yaml");
  return read ? "accepted" : read.error().message;
}
inline std::string WorkloadProblem(const std::string& text) {
  const auto read = ParseWorkload(text, "w.yaml");
  return read ? "accepted" : read.error().message;
}

inline PlanInput Parse(const std::string& text) {
  auto read = ParseWorkload(text, "w.yaml");
  if (!read) throw std::logic_error(read.error().message);
  return *read;
}

inline PlanInput Example(const std::string& name) {
  auto read = LoadWorkload(std::string(SPILLWAY_EXAMPLES "/plan/") + name + ".yaml");
  if (!read) throw std::logic_error(read.error().message);
  return *read;
}

}  // namespace spillway::planner
