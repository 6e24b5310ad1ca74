/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Ground of core/: freestanding C that the BPF program, spillwayd, the simulator and the tests all
 * compile. Nothing here may call a function of libc, allocate, read a clock or touch a file.
 */
#pragma once

#include <linux/types.h>

#define SPW_INLINE static inline __attribute__((always_inline, unused))

/* Size and layout are a contract with pinned maps and the wire: a slip must not compile. */
#ifdef __cplusplus
#define SPW_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#else
#define SPW_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#endif

#define SPW_MAX_SERVERS 4096   /* server code: 12 bits */
#define SPW_UNITS_PER_SERVER 8 /* unit index within its server: 3 bits */
#define SPW_MAX_UNITS (SPW_MAX_SERVERS * SPW_UNITS_PER_SERVER)
#define SPW_MAX_SERVICES 1024
#define SPW_NO_UNIT 0xffff

/* A unit's id is its server's code and its index there: the id alone finds both table entries. */
SPW_INLINE __u16 spw_unit_id(__u32 server, __u32 unit)
{
	return (__u16)(server * SPW_UNITS_PER_SERVER + unit);
}

SPW_INLINE __u32 spw_unit_server(__u16 unit_id)
{
	return unit_id / SPW_UNITS_PER_SERVER;
}

SPW_INLINE __u32 spw_unit_index(__u16 unit_id)
{
	return unit_id % SPW_UNITS_PER_SERVER;
}

/*
 * Two clocks, both cut from one nanosecond clock by shifting (a division would cost more than the
 * decision it serves). A tick is 2^30 ns = 1.074 s: flow idle times. A beat is 2^20 ns = 1.049 ms:
 * the age of load reports.
 */
#define SPW_TICK_SHIFT 30
#define SPW_BEAT_SHIFT 20

SPW_INLINE __u32 spw_ticks(__u64 now_ns)
{
	return (__u32)(now_ns >> SPW_TICK_SHIFT);
}

SPW_INLINE __u32 spw_beats(__u64 now_ns)
{
	return (__u32)(now_ns >> SPW_BEAT_SHIFT);
}

/* A 32-bit word of something declared otherwise; a plain __u32 * would let the optimizer reorder. */
typedef __u32 __attribute__((may_alias)) spw_word;

/*
 * Branch-free building blocks. The verifier walks every branch with every value it has learnt, so
 * eight units times a branch each is 256 paths, and a CPU mispredicts as readily. SPW_OPAQUE keeps
 * the compiler from turning the arithmetic back into branches. Outside the kernel the same names are plain
 * comparisons, which the simulator, deciding millions of times a second, needs.
 */
#define SPW_OPAQUE(x) __asm__("" : "+r"(x))

/* 1 if a < b, else 0; a and b below 2^63. */
SPW_INLINE __u64 spw_less(__u64 a, __u64 b)
{
#ifdef __bpf__
	__u64 difference = a - b;

	SPW_OPAQUE(difference);
	return difference >> 63;
#else
	return a < b;
#endif
}

SPW_INLINE __u64 spw_is_zero(__u64 a)
{
	return spw_less(a, 1);
}

/* yes if condition is 1, no if it is 0. By product, not by mask: Linux 6.18's verifier follows both
 * values of a mask that is 0 or -1 where it meets a constant, and the paths are back. */
SPW_INLINE __u64 spw_select(__u64 condition, __u64 yes, __u64 no)
{
#ifdef __bpf__
	SPW_OPAQUE(condition);
	return no ^ (no ^ yes) * condition;
#else
	return condition ? yes : no;
#endif
}
