// SPDX-License-Identifier: Apache-2.0
// What an executor tells the gateway when it comes: its models, its slices, and the memory of each, which it
// made and hands over as file descriptors. One SOCK_SEQPACKET UNIX socket per executor; docs/gateway.md has
// the messages. Afterwards the socket only says, by closing, that a side is gone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gateway/broker.h"
#include "gateway/channel.h"
#include "gateway/shared_memory.h"

namespace spillway::gateway {

inline constexpr size_t kMostExecutorMessage = 256 << 10;
inline constexpr uint32_t kMostSlicesPerExecutor = 64;
inline constexpr uint32_t kMostCells = 256;
inline constexpr uint64_t kMostMessage = 256;  // bytes of a text in the place of outputs
inline constexpr uint64_t kMostCellBytes = uint64_t{1} << 30;

// How a slice's memory is cut into cells: no two overlap, none shares a page with another.
struct CellLayout {
  uint32_t cells = 0;
  uint64_t input_bytes = 0, output_bytes = 0;  // of a cell

  explicit CellLayout(const SliceOffer& offer)
      : cells(offer.cells), input_bytes(offer.input_bytes), output_bytes(offer.output_bytes) {}
  [[nodiscard]] uint64_t Stride() const {
    return (Aligned(input_bytes) + output_bytes + 4095) & ~uint64_t{4095};
  }
  [[nodiscard]] uint64_t Input(uint32_t cell) const { return cell * Stride(); }
  [[nodiscard]] uint64_t Output(uint32_t cell) const { return cell * Stride() + Aligned(input_bytes); }
  [[nodiscard]] uint64_t Bytes() const { return cells * Stride(); }
};

// A slice's channel and memory, as either side holds them.
struct SliceLine {
  SliceOffer offer;
  uint64_t key = 0;  // of the memory; every submission says it
  Channel channel;
  SharedMemory memory;
};

// What a submission names, if it names this slice's memory by its key, one cell of it, and a model with as
// many bytes as the card says; nullopt: the gateway has lost its mind, or another has our ring.
struct CellViews {
  std::span<const std::byte> inputs;
  std::span<std::byte> outputs;
};
std::optional<CellViews> CheckSubmission(const SliceLine& line, const std::vector<ModelCard>& models,
                                         const Submission& submission);

// -- the executor's side
// Makes memory and channels, connects, tells, and waits until the gateway has taken it.
struct Joined {
  Descriptor socket;
  std::vector<SliceLine> slices;
};
// kUnavailable: nobody listens there. kConflict, kBadInput: the gateway's refusal.
[[nodiscard]] Result<Joined> JoinGateway(const std::string& socket_path, const ExecutorOffer& offer);

// -- the gateway's side
// Collects an executor's messages. Everything is checked; any error means: refuse and close.
class Arrival {
 public:
  // One message of the socket. True: the offer is complete.
  [[nodiscard]] Result<bool> Take(std::span<const std::byte> message, std::vector<Descriptor> fds);
  [[nodiscard]] const ExecutorOffer& offer() const { return offer_; }
  // Once, when complete.
  std::vector<SliceLine> TakeSlices() { return std::move(lines_); }

 private:
  [[nodiscard]] Result<bool> TakeOffer(const nlohmann::json& json, std::vector<Descriptor> fds);
  [[nodiscard]] Result<bool> TakeSlice(const nlohmann::json& json, std::vector<Descriptor> fds);

  bool has_offer_ = false;
  ExecutorOffer offer_;
  Descriptor completions_;
  std::vector<uint64_t> keys_;
  std::vector<SliceLine> lines_;
};

// The gateway's word on it: an empty text says yes.
[[nodiscard]] Result<void> AnswerArrival(int socket, const std::string& refusal);

// Slots of a slice's channel: more than it has cells, so that it never fills.
uint32_t ChannelSlots(uint32_t cells);

}  // namespace spillway::gateway
