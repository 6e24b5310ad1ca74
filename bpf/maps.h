/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Maps of the switch; who writes and who reads each is in switch.h. Arrays only: look-ups are
 * inlined, and with BPF_F_MMAPABLE values start on a page, so a 64-byte value is one cache line.
 * Sizes marked "set at load" are given by spillwayd before the program is loaded.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "switch.h"

/* A subprogram of its own: paths off the established packet's way stay out of its cache lines. */
#define SPW_CALL static __attribute__((noinline))

/* Secret of every hash; random at the first start, kept across restarts in `meta`. */
const volatile struct spw_seed hash_seed;
const volatile __u32 flow_bucket_mask; /* buckets - 1, a power of two less one */
const volatile __u32 flow_filter_mask; /* words - 1, a power of two less one */
const volatile __u32 reply_line_mask;
/* Entries that may be written in a tick; beyond, new flows stay on the ring, so that a flood takes a minute
 * to fill the table, and what it left is gone soon after it. */
const volatile __u32 flow_insert_budget; /* src/switch/data_plane.cc sets it */
/* Not 0 in benchmarks of policies alone: handshakes are kept and entries written however many there are. */
const volatile __u32 ignores_pressure;
/* Idle ticks of the flow table: the longest of any service, so that no service's flow ends early. */
spw_flow_limits flow_limits;

/* Entries written in a tick. Races let a few more through. */
struct {
	__u32 tick;
	__u32 inserted;
} insert_rate;

/* How full the flow table is, as inserts find it. */
struct {
	__u32 pressed_tick;   /* last that met few places or none; spillwayd begins with now */
	__u32 displaced_tick; /* last that took an unproven flow's place; 0: none. Reader: spillwayd */
} pressure;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct spw_meta);
} meta SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPW_SERVICE_LINES);
	__type(key, __u32);
	__type(value, struct spw_endpoint);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, struct spw_endpoint);
} replies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, struct spw_ring_slot);
} ring_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPW_MAX_UNITS);
	__type(key, __u32);
	__type(value, struct spw_unit);
} units SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPW_MAX_SERVERS);
	__type(key, __u32);
	__type(value, struct spw_server);
} servers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPW_MAX_SERVERS); /* each pool has a server */
	__type(key, __u32);
	__type(value, struct spw_pool);
} pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* the daemon writes single fields: `seen` is not its own */
	__uint(max_entries, SPW_MAX_SERVERS);
	__type(key, __u32);
	__type(value, struct spw_server_key);
} server_keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, struct spw_bucket);
} flow_table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, struct spw_filter_word);
} flow_filter SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPW_HALF_OPEN_BUCKETS);
	__type(key, __u32);
	__type(value, struct spw_half_open);
} half_open SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPW_MAX_SERVICES *SPW_REFUSED_LINES);
	__type(key, __u32);
	__type(value, struct spw_refused);
} refused SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPW_FRAGMENT_BUCKETS);
	__type(key, __u32);
	__type(value, struct spw_fragment_bucket);
} fragments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct spw_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SPW_MAX_UNITS);
	__type(key, __u32);
	__type(value, struct spw_traffic);
} unit_traffic SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SPW_MAX_SERVICES);
	__type(key, __u32);
	__type(value, struct spw_traffic);
} service_traffic SEC(".maps");
