// SPDX-License-Identifier: Apache-2.0
// What spillway-load says to spillway-unit and spillway-compute, and they to it, over UDP (one message a
// datagram) and TCP (one after the other). All integers in network byte order.
//   request: magic 4 "SPRq" | id 4 | payload_bytes 4 | cost_milli 4 | payload
//   answer:  magic 4 "SPAn" | id 4 | payload_bytes 4 | cost_milli 4 |
//            service_us 4 | wait_us 4 | unit name 16, zero-padded | result 8 |
//            payload, as it came
// cost_milli scales what a request costs: 1000 is once, 0 takes no time. result is a
// checksum of what the unit computed, 0 where it only pretends to.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace spillway::unit {

inline constexpr std::uint32_t kRequestMagic = 0x53505271;
inline constexpr std::uint32_t kAnswerMagic = 0x5350416e;
inline constexpr std::size_t kRequestBytes = 16;
inline constexpr std::size_t kNameBytes = 16;
inline constexpr std::size_t kAnswerBytes = kRequestBytes + 8 + kNameBytes + 8;  // 48
inline constexpr std::uint32_t kMaxPayloadBytes = 1 << 20;
inline constexpr std::uint32_t kMaxCostMilli = 1'000'000;  // no one request keeps a unit for ever
inline constexpr std::uint32_t kMaxUdpPayloadBytes = 65507 - kAnswerBytes;  // so that the answer fits too

struct Request {
  std::uint32_t id = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t cost_milli = 1000;
};

struct Answer {
  Request request;
  std::uint32_t service_us = 0;
  std::uint32_t wait_us = 0;
  std::string_view unit;  // at most kNameBytes; from Decode: within the decoded bytes
  std::uint64_t result = 0;
};

namespace wire {

inline void Put(char* at, std::uint32_t value) {
  value = htonl(value);
  std::memcpy(at, &value, sizeof value);
}

inline std::uint32_t Get(const char* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return ntohl(value);
}

}  // namespace wire

// Writes kRequestBytes.
inline void Encode(const Request& request, char* to, std::uint32_t magic = kRequestMagic) {
  wire::Put(to, magic);
  wire::Put(to + 4, request.id);
  wire::Put(to + 8, request.payload_bytes);
  wire::Put(to + 12, request.cost_milli);
}

// Reads kRequestBytes; nullopt: not a request, or a payload or a cost beyond the limit.
inline std::optional<Request> DecodeRequest(const char* from, std::uint32_t magic = kRequestMagic) {
  if (wire::Get(from) != magic) return std::nullopt;
  const Request request{wire::Get(from + 4), wire::Get(from + 8), wire::Get(from + 12)};
  if (request.payload_bytes > kMaxPayloadBytes || request.cost_milli > kMaxCostMilli) return std::nullopt;
  return request;
}

// Writes kAnswerBytes.
inline void Encode(const Answer& answer, char* to) {
  Encode(answer.request, to, kAnswerMagic);
  wire::Put(to + 16, answer.service_us);
  wire::Put(to + 20, answer.wait_us);
  std::memset(to + 24, 0, kNameBytes);
  std::memcpy(to + 24, answer.unit.data(), std::min(answer.unit.size(), kNameBytes));
  wire::Put(to + 40, static_cast<std::uint32_t>(answer.result >> 32));
  wire::Put(to + 44, static_cast<std::uint32_t>(answer.result));
}

// Reads kAnswerBytes; nullopt: not an answer.
inline std::optional<Answer> DecodeAnswer(const char* from) {
  const std::optional<Request> request = DecodeRequest(from, kAnswerMagic);
  if (!request) return std::nullopt;
  return Answer{*request, wire::Get(from + 16), wire::Get(from + 20),
                std::string_view(from + 24, ::strnlen(from + 24, kNameBytes)),
                std::uint64_t{wire::Get(from + 40)} << 32 | wire::Get(from + 44)};
}

}  // namespace spillway::unit
