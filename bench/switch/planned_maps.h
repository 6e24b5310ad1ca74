// SPDX-License-Identifier: Apache-2.0
// What beds that load the data plane privately do with its maps: they are mapped, and hold what a plan says.
// Not thread-safe.
#pragma once

#include <bpf/libbpf.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "bpf/switch.h"
#include "switch/mapped_array.h"
#include "switch/plan.h"

namespace spillway::bench {

// Of a data plane that could not be loaded.
inline constexpr const char* kLoadingSwitch =
    "loading the switch (needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and Linux 6.1)";

// Our errors name operation, object and errno; what libbpf prints beside them is for developers.
void SilenceLibbpf();

template <class T>
Result<void> MapOne(switching::MappedArray<T>& array, const bpf_map* map) {
  auto mapped =
      switching::MappedArray<T>::Map(bpf_map__fd(map), bpf_map__max_entries(map), bpf_map__name(map));
  if (!mapped) return tl::make_unexpected(mapped.error());
  array = std::move(*mapped);
  return {};
}

// `name`: the table's, for the error where it is too small.
[[nodiscard]] Result<void> WriteTable(switching::MappedArray<spw_endpoint>& table,
                                      const std::vector<spw_endpoint>& wanted, const char* name);

// Every unit alive and resolved, behind the loopback interface: that is where BPF_PROG_TEST_RUN says that
// packets come in, and out by the same is XDP_TX. Bytes 4 and 5 of a unit's MAC address are its id.
void WriteUnits(const switching::Plan& plan, switching::MappedArray<spw_unit>& units,
                switching::MappedArray<spw_server>& servers);

}  // namespace spillway::bench
