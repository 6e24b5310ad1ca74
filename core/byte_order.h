/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Network order <-> host order; each conversion is its own inverse. */
#pragma once

#include "types.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define spw_be16(x) ((__u16)__builtin_bswap16((__u16)(x)))
#define spw_be32(x) ((__u32)__builtin_bswap32((__u32)(x)))
#define spw_be64(x) ((__u64)__builtin_bswap64((__u64)(x)))
#define spw_le64(x) ((__u64)(x))
#else
#define spw_be16(x) ((__u16)(x))
#define spw_be32(x) ((__u32)(x))
#define spw_be64(x) ((__u64)(x))
#define spw_le64(x) ((__u64)__builtin_bswap64((__u64)(x)))
#endif
