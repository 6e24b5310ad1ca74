// SPDX-License-Identifier: Apache-2.0
// The texts of joining, as both sides write and read them: what an executor offers, and the gateway's answer;
// and how a slice's memory is cut into cells. Pure; docs/gateway.md has the messages.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/broker/broker.h"
#include "gateway/transport/channel.h"
#include "gateway/transport/device_memory.h"

namespace spillway::gateway {

// What executors say after they joined: of one that is starting, that its engines are made; any other byte,
// that it is at work.
inline constexpr char kReadyByte = 1;
inline constexpr size_t kMaxExecutorMessage = 256 << 10;
inline constexpr uint32_t kMaxSlicesPerExecutor = 64;
inline constexpr uint32_t kMaxCells = 256;
inline constexpr uint64_t kMaxMessage = 256;  // bytes of a text in the place of outputs
inline constexpr uint64_t kMaxCellBytes = uint64_t{1} << 30;

// How a slice's memory is cut into cells: first the inputs of all, then the outputs of all; no two overlap,
// none shares a page with another. Behind them stands for each cell the number of the request there that
// nobody wants any more, if it is still the same (u64). What is before HostPart() may be a GPU's memory,
// which the host's CPU cannot read; what is behind it, the CPU does read and write.
struct CellLayout {
  uint32_t cells = 0;
  uint64_t input_bytes = 0, output_bytes = 0;  // of a cell

  explicit CellLayout(const SliceOffer& offer)
      : cells(offer.cells), input_bytes(offer.input_bytes), output_bytes(offer.output_bytes) {}
  [[nodiscard]] static uint64_t Pages(uint64_t bytes) { return (bytes + 4095) & ~uint64_t{4095}; }
  [[nodiscard]] uint64_t Input(uint32_t cell) const { return cell * Pages(input_bytes); }
  [[nodiscard]] uint64_t HostPart() const { return Input(cells); }
  [[nodiscard]] uint64_t Output(uint32_t cell) const { return HostPart() + cell * Pages(output_bytes); }
  [[nodiscard]] uint64_t GivenUp(uint32_t cell) const { return Output(cells) + cell * sizeof(uint64_t); }
  [[nodiscard]] uint64_t Bytes() const { return Pages(GivenUp(cells)); }
};

// A slice's memory, as its executor holds it; offsets are CellLayout's.
struct SliceMemory {
  // All of it; of one whose inputs are on a GPU, what is from HostPart() on.
  std::span<std::byte> host;
  DeviceMemory* device = nullptr;  // the inputs, if they are there

  [[nodiscard]] std::span<std::byte> Inputs(uint64_t offset, uint64_t bytes) const {
    return (device != nullptr ? device->bytes() : host).subspan(offset, bytes);
  }
  // From HostPart() on.
  [[nodiscard]] std::span<std::byte> Host(const CellLayout& layout, uint64_t offset, uint64_t bytes) const {
    return host.subspan(device != nullptr ? offset - layout.HostPart() : offset, bytes);
  }
};

// With the key of each slice's memory, that every submission says.
struct KeyedOffer {
  ExecutorOffer offer;
  std::vector<uint64_t> keys;  // by slice
};

nlohmann::json ToJson(const KeyedOffer& offer);
// kBadInput: the version, a name, a number or a size is not what it may be.
[[nodiscard]] Result<KeyedOffer> ParseOffer(const nlohmann::json& hello);

// The gateway's word on an offer: an empty refusal says yes.
std::string AnswerText(const std::string& refusal);
// kConflict: a refusal, or no gateway's answer.
[[nodiscard]] Result<void> ParseAnswer(std::string_view text);

// What a submission names, if it names this slice's memory by its key, one cell of it, and a model with as
// many bytes as the card says; nullopt: the gateway is faulty, or another has our ring.
struct CellViews {
  std::span<const std::byte> inputs;
  std::span<std::byte> outputs;
};
std::optional<CellViews> CheckSubmission(const SliceOffer& slice, uint64_t key, const SliceMemory& memory,
                                         const std::vector<ModelCard>& models, const Submission& submission);
// Of a submission that CheckSubmission has seen: whether nobody wants any more what it asks for; where a text
// in the place of its outputs may stand.
bool IsGivenUp(const SliceOffer& slice, const SliceMemory& memory, const Submission& submission);
std::span<std::byte> RoomForText(const SliceOffer& slice, const SliceMemory& memory,
                                 const Submission& submission);

}  // namespace spillway::gateway
