// SPDX-License-Identifier: Apache-2.0
#include "checksums.h"

#include <fmt/format.h>

namespace spillway::switching {
namespace {

uint16_t Get16(const std::vector<uint8_t>& f, size_t at) {
  return static_cast<uint16_t>(f[at] << 8 | f[at + 1]);
}

uint32_t Pseudo(const std::vector<uint8_t>& f, const Layout& at) {
  size_t addresses = at.family == 4 ? at.ip + 12 : at.ip + 8;
  return SumWords(&f[addresses], at.family == 4 ? 8 : 32) + at.protocol +
         static_cast<uint32_t>(at.end - at.transport);
}

}  // namespace

uint32_t SumWords(const uint8_t* bytes, size_t count) {
  uint32_t sum = 0;
  for (size_t i = 0; i < count; i++) sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  return sum;
}

uint16_t FoldSum(uint32_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(0xffff - sum);
}

Layout FindLayers(const std::vector<uint8_t>& f) {
  Layout at;
  size_t type = 12;
  while (Get16(f, type) == 0x8100 || Get16(f, type) == 0x88a8) type += 4;
  at.ip = type + 2;
  if (Get16(f, type) == 0x0800) {
    at.family = 4;
    at.transport = at.ip + (f[at.ip] & 15) * 4;
    at.end = at.ip + Get16(f, at.ip + 2);
    at.protocol = f[at.ip + 9];
  } else if (Get16(f, type) == 0x86dd) {
    at.family = 6;
    at.end = at.ip + 40 + Get16(f, at.ip + 4);
    at.protocol = f[at.ip + 6];
    at.transport = at.ip + 40;
    while (at.protocol == 0 || at.protocol == 43 || at.protocol == 60 || at.protocol == 44) {
      at.protocol = f[at.transport];
      at.transport += 8u + f[at.transport + 1] * 8u;
    }
  }
  return at;
}

std::string WrongChecksums(const std::vector<uint8_t>& f) {
  Layout at = FindLayers(f);
  std::string wrong;
  // A right packet sums to all ones, checksum included.
  auto check = [&](const char* what, uint32_t sum) {
    if (FoldSum(sum) != 0) wrong += fmt::format("{} ", what);
  };
  if (at.family == 0) return wrong;
  if (at.family == 4) check("ip", SumWords(&f[at.ip], at.transport - at.ip));
  size_t length = at.end - at.transport;
  uint32_t body = SumWords(&f[at.transport], length);
  if (at.protocol == 6) check("tcp", Pseudo(f, at) + body);
  if (at.protocol == 17) {
    bool none = Get16(f, at.transport + 6) == 0;
    if (!none) check("udp", Pseudo(f, at) + body);
    if (none && at.family == 6) wrong += "udp-missing ";
  }
  if (at.protocol == 1) check("icmp", body);
  if (at.protocol == 58) check("icmp6", Pseudo(f, at) + body);
  bool error4 = at.protocol == 1 && (f[at.transport] == 3 || f[at.transport] == 11 || f[at.transport] == 12);
  if (error4 && length >= 28) check("quoted-ip", SumWords(&f[at.transport + 8], 20));
  return wrong;
}

}  // namespace spillway::switching
