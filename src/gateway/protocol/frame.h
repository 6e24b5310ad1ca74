// SPDX-License-Identifier: Apache-2.0
// The lean framed protocol, for TCP and UNIX sockets: a header of 32 bytes, then meta, then data.
// docs/gateway.md has every frame. All numbers are little endian. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/protocol/status.h"

namespace spillway::gateway {

inline constexpr uint32_t kFrameMagic = 0x47575053;  // "SPWG"
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr uint32_t kMaxMeta = 64 << 10;

enum class FrameType : uint8_t {
  kHello = 1,         // client: meta "tenant\ntoken"
  kWelcome = 2,       // gateway: meta JSON
  kDescribe = 3,      // client: meta a model's name
  kModel = 4,         // gateway: meta JSON, the model's card and its index
  kInfer = 5,         // client: meta InferMeta, data the inputs
  kResult = 6,        // gateway: meta ResultMeta, data the outputs
  kError = 7,         // gateway: meta a text; the header's status says what it is
  kCancel = 8,        // client: id of the request; answered by that request's kError, or came too late
  kOpenWindow = 9,    // client: meta WindowMeta
  kWindow = 10,       // gateway, UNIX socket: meta WindowMeta with a key, and four descriptors
  kRemoteWindow = 11  // gateway, TCP: meta JSON, where to connect it by RDMA
};

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint8_t version = kFrameVersion;
  uint8_t type = 0;
  uint16_t status = 0;  // kError
  uint64_t id = 0;      // chosen by the client; an answer carries its request's
  uint32_t meta_bytes = 0;
  uint32_t retry_after_ms = 0;  // kError
  uint64_t data_bytes = 0;
};
static_assert(sizeof(FrameHeader) == 32);

struct InferMeta {
  uint32_t model = 0;  // index, from kModel
  uint32_t rows = 1;
  uint32_t deadline_us = 0;  // 0: the gateway's default
  uint32_t reserved = 0;
};
struct ResultMeta {
  uint32_t rows = 1;
  uint32_t reserved = 0;
  uint64_t busy_ns = 0;  // that the slice worked on it
};
// Descriptors of kWindow: the channel, the data, the doorbell of submissions, that of completions.
struct WindowMeta {
  uint64_t bytes = 0;  // of the data
  uint64_t key = 0;    // for submissions
  uint32_t slots = 0;  // of the channel
  uint32_t reserved = 0;
};

template <class Meta>
bool ReadMeta(std::span<const std::byte> bytes, Meta& into) {
  if (bytes.size() != sizeof(Meta)) return false;
  std::memcpy(&into, bytes.data(), sizeof(Meta));
  return true;
}
template <class Meta>
std::string_view MetaBytes(const Meta& meta) {
  return {reinterpret_cast<const char*>(&meta), sizeof(Meta)};
}

// Header and meta.
std::string EncodeFrame(FrameHeader header, std::string_view meta);

// What is wrong with a header; empty: nothing. `fatal`: what follows it cannot be told from its data.
struct HeaderFault {
  std::string text;
  bool fatal = false;
  Status status = Status::kBadRequest;
};
HeaderFault CheckClientHeader(const FrameHeader& header, uint64_t most_data);

}  // namespace spillway::gateway
