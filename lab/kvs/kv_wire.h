// SPDX-License-Identifier: Apache-2.0
// One request and one reply per UDP datagram, little endian, 32 bytes each; anything else is dropped.
#pragma once

#include <cstdint>

namespace spillway::lab {

inline constexpr uint32_t kKvMagic = 0x53564B53;  // "SKVS"

enum class KvOp : uint32_t { kGet = 1, kPut = 2, kScan = 3 };

struct KvRequest {
  uint32_t magic = kKvMagic;
  KvOp op = KvOp::kGet;
  uint64_t id = 0;  // comes back in the reply
  uint64_t key = 0;
  uint64_t value = 0;  // of PUT; of SCAN: how many keys
};
static_assert(sizeof(KvRequest) == 32);

struct KvReply {
  uint32_t magic = kKvMagic;
  uint32_t found = 0;
  uint64_t id = 0;
  uint64_t value = 0;   // of SCAN: the sum
  uint64_t worker = 0;  // that served it
};
static_assert(sizeof(KvReply) == 32);

}  // namespace spillway::lab
