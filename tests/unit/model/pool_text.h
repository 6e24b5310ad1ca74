// SPDX-License-Identifier: Apache-2.0
// A valid pool file to vary in tests, line by line.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "model/parse.h"

namespace spillway::model {

inline const std::string kSwitchText =
    "switch:\n"                          // line 1
    "  interfaces: [eth0]\n"             // 2
    "  report: {address: 192.0.2.1}\n";  // 3
inline const std::string kServiceText =
    "services:\n"                                                                  // 4
    "  - {name: dns, vip: 203.0.113.53, ports: [udp/53, tcp/53], pool: rack1}\n";  // 5
inline const std::string kPoolText =
    "pools:\n"                                                                    // 6
    "  rack1:\n"                                                                  // 7
    "    servers:\n"                                                              // 8
    "      - name: s1\n"                                                          // 9
    "        units:\n"                                                            // 10
    "          - {name: cpu, kind: cpu, address: 10.0.1.1, capacity: 6}\n"        // 11
    "          - {name: nic, kind: smartnic, address: 10.0.1.2, capacity: 1}\n";  // 12
inline const std::string kText = kSwitchText + kServiceText + kPoolText;

// `text` with its only occurrence of `from` replaced.
inline std::string With(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from << " is there twice";
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline std::string Problem(const std::string& text) {
  auto config = ParseConfig(text, "pool.yaml");
  return config ? "accepted" : config.error().message;
}

}  // namespace spillway::model
