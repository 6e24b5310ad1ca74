/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What as_c.c computes in C. Pure functions. */
#pragma once

#include "core/hash.h"
#include "core/policy.h"
#include "core/report.h"
#include "core/server.h"

#ifdef __cplusplus
extern "C" {
#endif

__u64 c_hash_v4(const struct spw_seed* seed, __u32 src, __u32 dst, __u32 ports, __u8 proto);
int c_choose_unit(const struct spw_server* server, __u8 policy, __u32 default_unit, __u64 hash, __u64 now_ns,
                  __u32 draw);
int c_prefer_second(const struct spw_server* first, const struct spw_server* second, __u8 unit_policy,
                    __u64 now_ns);
__u64 c_report_tag(const struct spw_report_wire* wire, const struct spw_siphash_key* key);

#ifdef __cplusplus
}
#endif
