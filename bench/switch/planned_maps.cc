// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/planned_maps.h"

#include <algorithm>
#include <cstring>

#include "switch/endpoint_table.h"

namespace spillway::bench {

constexpr uint32_t kLoopback = 1;  // its index, in any network namespace

void SilenceLibbpf() { libbpf_set_print(nullptr); }

Result<void> WriteTable(switching::MappedArray<spw_endpoint>& table, const std::vector<spw_endpoint>& wanted,
                        const char* name) {
  auto writes = switching::PlanLines(table, wanted, name);
  if (!writes) return tl::make_unexpected(writes.error());
  switching::WriteLines(table, *writes);
  return {};
}

void WriteUnits(const switching::Plan& plan, switching::MappedArray<spw_unit>& units,
                switching::MappedArray<spw_server>& servers) {
  for (const switching::PlannedUnit& planned : plan.units) {
    spw_unit& unit = units[planned.id];
    const __u8 mac[6] = {2, 1, 0, 0, static_cast<__u8>(planned.id >> 8), static_cast<__u8>(planned.id)};
    std::memcpy(unit.mac, mac, sizeof(mac));
    std::memcpy(unit.own_mac, "\x02\x00\x00\x00\x00\x01", 6);
    unit.ifindex = kLoopback;
    const auto words = planned.address.Words();
    std::copy(words.begin(), words.end(), unit.addr);
    unit.family = static_cast<__u8>(planned.address.family);
    unit.alive = unit.resolved = 1;
    servers[spw_unit_server(planned.id)].unit[spw_unit_index(planned.id)] = {
        static_cast<__u8>(planned.status), static_cast<__u8>(planned.kind), planned.weight};
  }
}

}  // namespace spillway::bench
