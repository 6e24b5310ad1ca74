// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/rows.h"

#include <fmt/format.h>

#include "model/pool.h"

namespace spillway::bench {
namespace {

// Aims: established flows with an entry, by how many there are; between the two figures, none is set.
std::optional<double> EntryAim(uint32_t flows) {
  if (flows <= 1000) return 60;
  if (flows == 1'000'000) return 200;
  return std::nullopt;
}

void AddDefault(std::vector<Row>& rows, const std::vector<uint32_t>& flow_counts) {
  for (uint32_t flows : flow_counts) {
    for (spw_mode mode : {SPW_MODE_NAT, SPW_MODE_DSR_L2}) {
      rows.push_back({.row_class = Class::kTcpDefault, .flows = flows, .mode = mode, .aim_ns = 50});
      rows.push_back({.row_class = Class::kTcpDefault,
                      .packet = Packet::kV6Tcp,
                      .flows = flows,
                      .mode = mode,
                      .aim_ns = 65});
    }
  }
}

void AddNew(std::vector<Row>& rows) {
  for (spw_unit_policy policy : {SPW_UNIT_HEADROOM, SPW_UNIT_P4MITE, SPW_UNIT_WRR, SPW_UNIT_ECMP,
                                 SPW_UNIT_HOST_ONLY, SPW_UNIT_LEAST_LOADED, SPW_UNIT_JSQ}) {
    rows.push_back({.row_class = Class::kNew, .flows = 0, .policy = policy, .aim_ns = 180});
  }
  rows.push_back({.row_class = Class::kNew, .packet = Packet::kV6Tcp, .flows = 0, .aim_ns = 180});
  rows.push_back({.row_class = Class::kFirstAck, .flows = 0, .aim_ns = {}});
}

void AddRemembered(std::vector<Row>& rows, Class row_class, Packet packet,
                   const std::vector<uint32_t>& flow_counts) {
  for (uint32_t flows : flow_counts) {
    rows.push_back({.row_class = row_class,
                    .packet = packet,
                    .flows = flows,
                    .entries = flows,
                    .aim_ns = EntryAim(flows)});
    if (packet != Packet::kV4Tcp || flows < 1'000'000) continue;
    // What flows with entries cost those without, and newcomers.
    rows.push_back({.row_class = Class::kTcpDefault, .flows = flows, .entries = flows, .aim_ns = 50});
    rows.push_back({.row_class = Class::kNew, .flows = 0, .entries = flows, .aim_ns = 180});
  }
}

}  // namespace

std::string ToString(Class row_class) {
  switch (row_class) {
    case Class::kTcpDefault:
      return "tcp-default";
    case Class::kTcpDeviating:
      return "tcp-deviating";
    case Class::kUdpAffinity:
      return "udp-affinity";
    case Class::kNew:
      return "new";
    case Class::kFirstAck:
      return "first-ack";
    case Class::kReport:
      return "report";
  }
  return "";
}

std::vector<std::string> ClassNames() {
  std::vector<std::string> names;
  for (Class row_class : {Class::kTcpDefault, Class::kTcpDeviating, Class::kUdpAffinity, Class::kNew,
                          Class::kFirstAck, Class::kReport})
    names.push_back(ToString(row_class));
  return names;
}

std::string Describe(const Row& row) {
  return fmt::format("{} {} {} {}, {} flows, {} entries", ToString(row.row_class), ToString(row.packet),
                     model::ToString(row.mode), model::ToString(row.policy), row.flows, row.entries);
}

std::vector<Row> MakeRows(const std::vector<uint32_t>& flow_counts, uint32_t reporting_units) {
  std::vector<Row> rows;
  AddDefault(rows, flow_counts);
  AddNew(rows);
  rows.push_back(
      {.row_class = Class::kReport, .packet = Packet::kReport, .flows = reporting_units, .aim_ns = 150});
  AddRemembered(rows, Class::kTcpDeviating, Packet::kV4Tcp, flow_counts);
  AddRemembered(rows, Class::kTcpDeviating, Packet::kV6Tcp, flow_counts);
  AddRemembered(rows, Class::kUdpAffinity, Packet::kV4Udp, flow_counts);
  // Last: its flows fill the table.
  rows.push_back({.row_class = Class::kNew, .packet = Packet::kV4Udp, .flows = 0, .aim_ns = 180});
  return rows;
}

}  // namespace spillway::bench
