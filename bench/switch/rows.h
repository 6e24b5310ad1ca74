// SPDX-License-Identifier: Apache-2.0
// What the switch benchmark measures: its rows, in an order that lets one flow table grow through
// them. Their keys in the document are present.h's. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/switch/frames.h"
#include "core/policy.h"

namespace spillway::bench {

enum class Class : uint8_t {
  kTcpDefault,    // established TCP on the ring: no entry in the flow table
  kTcpDeviating,  // established TCP, every flow has an entry
  kUdpAffinity,   // UDP, every flow has an entry
  kNew,           // the first packet of a flow never seen
  kFirstAck,      // what completes a handshake that left the ring: it writes the flow's entry
  kReport,        // authentic load reports, each newer than the last
};

std::string ToString(Class row_class);  // "tcp-default", ...
std::vector<std::string> ClassNames();

struct Row {
  Class row_class = Class::kTcpDefault;
  Packet packet = Packet::kV4Tcp;
  uint32_t flows = 1;    // distinct flows walked; of kNew, kFirstAck: never ends (0); of kReport: units
  uint32_t entries = 0;  // flows in the flow table meanwhile
  spw_mode mode = SPW_MODE_NAT;
  spw_unit_policy policy = SPW_UNIT_P4MITE;
  std::optional<double> aim_ns;  // above the floor
};

// "tcp-deviating v4tcp, 1000 flows", as progress lines and errors name it.
std::string Describe(const Row& row);

// Flow numbers of the two kinds, so that default-placed flows are none of those with entries.
inline constexpr uint32_t kFirstRemembered = 0;
inline constexpr uint32_t kFirstDefault = 1u << 26;
inline constexpr uint32_t kFirstNew = 1u << 28;
inline constexpr uint32_t kNewFlows = 1u << 26;  // of one row; more than any run sends
inline constexpr uint32_t kMaxFlows = 10'000'000;

// Rows for these flow counts (ascending, each in 1 .. kMaxFlows).
std::vector<Row> MakeRows(const std::vector<uint32_t>& flow_counts, uint32_t reporting_units);

}  // namespace spillway::bench
