/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Every header of core/ as freestanding C, the way the kernel's compiler sees it; and a few answers
 * computed in C, which types_test.cc compares with what C++ computes from the same text.
 */
#include "core/byte_order.h"
#include "core/endpoint.h"
#include "core/flow_filter.h"
#include "core/flow_table.h"
#include "core/half_open.h"
#include "core/hash.h"
#include "core/headroom.h"
#include "core/health.h"
#include "core/load.h"
#include "core/policy.h"
#include "core/report.h"
#include "core/ring.h"
#include "core/ring_build.h"
#include "core/server.h"
#include "core/siphash.h"
#include "core/types.h"

#include "as_c.h"

__u64 c_hash_v4(const struct spw_seed* seed, __u32 src, __u32 dst, __u32 ports, __u8 proto) {
  return spw_hash_v4(seed, src, dst, ports, proto);
}

int c_choose_unit(const struct spw_server* server, __u8 policy, __u32 default_unit, __u64 hash, __u64 now_ns,
                  __u32 draw) {
  return spw_choose_unit(server, policy, default_unit, hash, now_ns, draw);
}

int c_prefer_second(const struct spw_server* first, const struct spw_server* second, __u8 unit_policy,
                    __u64 now_ns) {
  return spw_prefer_second(first, second, unit_policy, now_ns);
}

__u64 c_report_tag(const struct spw_report_wire* wire, const struct spw_siphash_key* key) {
  return spw_report_tag(wire, key);
}
