// SPDX-License-Identifier: Apache-2.0
// The client's end of a connection to the gateway (framed protocol), blocking, under the C and Python clients
// too: over TCP or a UNIX socket, and through a window, where a request's data is written once, and the
// gateway reads it there: over a UNIX socket memory that both share, over TCP memory of the gateway that is
// written by RDMA, where both machines have it. One thread; one with a window over RDMA must not fork.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gateway/protocol/frame.h"
#include "gateway/protocol/tensor.h"
#include "gateway/transport/window.h"

namespace spillway::gateway {

struct ClientModel {
  uint32_t index = 0;
  bool ready = false;
  ModelCard card;
};

struct InferResult {
  Status status = Status::kOk;
  std::string message;  // if not kOk
  std::chrono::milliseconds retry_after{0};
  std::vector<std::byte> outputs;  // as tensor.h lays them; empty for windows, whose outputs lie where asked
  uint64_t output_bytes = 0;
  std::chrono::nanoseconds busy{0};
};

class Client {
 public:
  struct Options {
    std::string tenant, token;
    // For the gateway's answer; to Infer beyond the deadline, without one beyond the gateway's longest, an
    // hour.
    std::chrono::milliseconds patience{10'000};
    // Asked some times a second while an answer is awaited; true: it is given up.
    std::function<bool()> is_interrupted = {};
  };
  // "unix:PATH", or "ADDRESS:PORT". kUnavailable: nobody there; kBadInput: refused.
  [[nodiscard]] static Result<Client> Connect(const std::string& address, const Options& options);

  [[nodiscard]] Result<ClientModel> Describe(const std::string& model);

  // One request, waited for. An Error: the connection is gone; whatever the gateway says is an InferResult.
  [[nodiscard]] Result<InferResult> Infer(uint32_t model, uint32_t rows, std::span<const std::byte> inputs,
                                          std::chrono::microseconds deadline = {});

  // -- the window
  // Errors: kBadInput, the gateway refuses; over TCP kUnavailable, one of the machines has no RDMA, or there
  // is no way between them. Infer goes on in frames then.
  [[nodiscard]] Result<void> OpenWindow(uint64_t bytes, uint32_t slots = 64);
  // How requests' data goes, if it goes through the window.
  enum class Way { kFrames, kSharedMemory, kRdma };
  [[nodiscard]] Way way() const { return way_; }
  [[nodiscard]] std::span<std::byte> window() const {
    return window_ != nullptr ? window_->bytes() : std::span<std::byte>();
  }
  // Room in the window, from a multiple of kTensorAlignment on; nullopt: none left.
  [[nodiscard]] std::optional<uint64_t> Allocate(uint64_t bytes);
  void Free(uint64_t offset);
  // At most so many requests unanswered: the slots. False: there are as many.
  bool Submit(Submission submission);
  // The next answer, or nothing within `patience`. An Error: the gateway is gone.
  [[nodiscard]] Result<std::optional<Completion>> Wait(std::chrono::milliseconds patience);
  // One request through the window, waited for.
  [[nodiscard]] Result<InferResult> InferInWindow(uint32_t model, uint32_t rows, uint64_t input_offset,
                                                  uint64_t input_bytes, uint64_t output_offset,
                                                  uint64_t output_bytes,
                                                  std::chrono::microseconds deadline = {});
  [[nodiscard]] uint64_t key() const { return key_; }

  [[nodiscard]] int socket() const { return socket_.get(); }

 private:
  struct Frame {
    FrameHeader header;
    std::string meta;
    std::vector<std::byte> data;
    std::vector<base::Fd> fds;
  };
  [[nodiscard]] Result<void> Send(FrameType type, uint64_t id, std::string_view meta,
                                  std::span<const std::byte> data = {});
  using Instant = std::chrono::steady_clock::time_point;
  // Until something is there to be read.
  [[nodiscard]] Result<void> Await(Instant until) const;
  // The answer to `id`.
  [[nodiscard]] Result<Frame> Receive(uint64_t id) { return Receive(id, patience_); }
  [[nodiscard]] Result<Frame> Receive(uint64_t id, std::chrono::milliseconds patience);
  [[nodiscard]] Result<Frame> ReceiveFrame(Instant until);
  [[nodiscard]] Result<void> ReceiveAll(std::span<std::byte> into, std::vector<base::Fd>* fds, Instant until);
  [[nodiscard]] std::chrono::milliseconds PatienceFor(std::chrono::microseconds deadline) const;
  [[nodiscard]] bool Gone() const;
  [[nodiscard]] Result<void> MapWindow(Frame frame);
  // Of so many bytes and slots: what was asked for.
  [[nodiscard]] Result<void> ConnectWindow(const Frame& frame, uint64_t bytes, uint32_t slots);

  uint64_t last_id_ = 0;
  bool is_unix_ = false;
  std::chrono::milliseconds patience_{0};
  std::function<bool()> is_interrupted_;
  Way way_ = Way::kFrames;
  std::unique_ptr<ClientWindow> window_;
  uint64_t key_ = 0;
  size_t asked_ = 0;
  struct Piece {
    uint64_t offset, bytes;
    bool free;
  };
  std::vector<Piece> pieces_;  // of the window, in order
  base::Fd socket_;            // goes first: whose session ends has no fault in its window
};

}  // namespace spillway::gateway
