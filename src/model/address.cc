// SPDX-License-Identifier: Apache-2.0
// Addresses and look-ups of the pool file's values. Pure.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "pool.h"

namespace spillway::model {

namespace {

bool IsV4Mapped(const std::array<uint8_t, 16>& bytes) {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](uint8_t b) { return b == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

}  // namespace

std::optional<Address> Address::Parse(const std::string& text) {
  // inet_pton stops at a NUL, and would take "10.0.0.1\0junk".
  if (text.find('\0') != std::string::npos) return std::nullopt;
  Address v4;
  if (inet_pton(AF_INET, text.c_str(), v4.bytes.data()) == 1) return v4;
  Address v6{.family = 6, .bytes = {}};
  if (inet_pton(AF_INET6, text.c_str(), v6.bytes.data()) != 1) return std::nullopt;
  // The same host under two spellings would slip past every comparison of addresses.
  if (IsV4Mapped(v6.bytes)) return std::nullopt;
  return v6;
}

std::string Address::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof(text));
  return text;
}

std::array<uint32_t, 4> Address::Words() const {
  std::array<uint32_t, 4> words;
  static_assert(sizeof(words) == sizeof(bytes));
  std::memcpy(words.data(), bytes.data(), sizeof(words));
  return words;
}

const Pool* Config::FindPool(const std::string& name) const {
  auto found = std::find_if(pools.begin(), pools.end(), [&](const Pool& pool) { return pool.name == name; });
  return found == pools.end() ? nullptr : &*found;
}

}  // namespace spillway::model
