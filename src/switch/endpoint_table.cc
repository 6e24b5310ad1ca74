// SPDX-License-Identifier: Apache-2.0
#include "endpoint_table.h"

#include <fmt/format.h>

#include <cstring>
#include <set>

namespace spillway::switching {
namespace {

bool SameKey(const spw_endpoint& a, const spw_endpoint& b) {
  return spw_endpoint_matches(&a, b.addr, b.port, b.proto, b.family) != 0;
}

bool IsLive(const spw_endpoint& e) { return e.kind != SPW_ENDPOINT_EMPTY && e.kind != SPW_ENDPOINT_GONE; }

}  // namespace

Result<std::vector<LineWrite>> PlanLines(const MappedArray<spw_endpoint>& table,
                                         const std::vector<spw_endpoint>& wanted, const char* name) {
  std::vector<LineWrite> writes;
  std::set<uint32_t> kept, taken;
  uint32_t mask = table.size() - 1;
  std::vector<const spw_endpoint*> homeless;
  for (const spw_endpoint& e : wanted) {
    uint32_t line = spw_endpoint_home(e.addr, e.port, e.proto, mask);
    bool found = false;
    for (int probe = 0; probe < SPW_ENDPOINT_PROBES && !found; probe++, line = (line + 1) & mask) {
      if (!IsLive(table[line]) || !SameKey(table[line], e)) continue;
      found = true;
      kept.insert(line);
      if (std::memcmp(&table[line], &e, sizeof(e)) != 0) writes.push_back({line, e});
    }
    if (!found) homeless.push_back(&e);
  }
  for (const spw_endpoint* e : homeless) {
    uint32_t line = spw_endpoint_home(e->addr, e->port, e->proto, mask);
    int probe = 0;
    while (probe < SPW_ENDPOINT_PROBES && (IsLive(table[line]) || taken.contains(line))) {
      line = (line + 1) & mask;
      probe++;
    }
    if (probe == SPW_ENDPOINT_PROBES) {
      return Fail(
          ErrorCode::kBadInput,
          fmt::format(
              "table {} of {} lines is too full; to resize it, stop spillwayd, run spillwayd --remove "
              "and start it again",
              name, table.size()));
    }
    taken.insert(line);
    writes.push_back({line, *e});
  }
  for (uint32_t line = 0; line < table.size(); line++) {
    if (IsLive(table[line]) && !kept.contains(line)) {
      spw_endpoint gone{};
      gone.kind = SPW_ENDPOINT_GONE;
      writes.push_back({line, gone});
    }
  }
  return writes;
}

void WriteLines(MappedArray<spw_endpoint>& table, const std::vector<LineWrite>& writes) {
  for (const LineWrite& write : writes) {
    spw_endpoint& line = table[write.line];
    if (write.content.kind == SPW_ENDPOINT_GONE || !SameKey(line, write.content) || !IsLive(line)) {
      Store(line.kind, static_cast<__u8>(SPW_ENDPOINT_GONE));
    }
    if (write.content.kind == SPW_ENDPOINT_GONE) continue;
    spw_endpoint content = write.content;
    content.kind = line.kind;  // a live line stays live: its key does not change, its settings may
    Put(line, content);
    Store(line.kind, write.content.kind);
  }
}

}  // namespace spillway::switching
