// SPDX-License-Identifier: Apache-2.0
// Between any two writes into memory that the data plane reads spillwayd may be killed, and packets are then
// forwarded by what is there until it runs again. So each such write is a point at which a test can end the
// process (tests/packet/switch/write_kills_test.cc): one store, or a word of what no single store writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>

namespace spillway::switching {

// Called after each write, if set. Of tests alone.
inline void (*after_write)(const std::source_location& where) = nullptr;

inline void Written(const std::source_location& where = std::source_location::current()) {
  if (after_write != nullptr) [[unlikely]]
    after_write(where);
}

// What the data plane does not read meanwhile, or takes in any mixture of old and new words.
inline void PutBytes(void* to, const void* from, size_t bytes,
                     const std::source_location& where = std::source_location::current()) {
  if (after_write == nullptr) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
                std::min(sizeof(uint32_t), bytes - at));
    Written(where);
  }
}

template <class T>
void Put(T& to, const T& from, const std::source_location& where = std::source_location::current()) {
  PutBytes(&to, &from, sizeof(T), where);
}

}  // namespace spillway::switching
