// SPDX-License-Identifier: Apache-2.0
// A program that is its own slice: it joins the gateway with one model of its own, takes requests where the
// gateway has put them, without a copy, and answers them. What python/ is made of. One thread;
// another one of its own tells the gateway, while a request is in hand, that the program lives.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "gateway/join.h"

namespace spillway::gateway {

class ProgramSlice {
 public:
  struct Options {
    GatewayDoor gateway;
    std::string name;  // of the executor
    ModelCard model;
    double gflop_per_s = 1;
    // The UUID of the GPU that it uses, of a MIG instance its GPU's; empty: none.
    std::string gpu_uuid = {};
    uint32_t cells = 2;  // the next request's data comes while this one's is worked on
  };
  [[nodiscard]] static Result<ProgramSlice> Join(const Options& options);
  ProgramSlice() = default;  // of nothing: to be moved into
  ProgramSlice(ProgramSlice&&) noexcept = default;
  ProgramSlice& operator=(ProgramSlice&& other) noexcept;
  ~ProgramSlice();

  struct Taken {
    std::span<std::byte> inputs;  // in the slice's memory; until Answer or the next Take
    int64_t rows = 1;
  };
  // The next request; answers the one before, if nobody did, with zeros. nullopt: none within `patience`.
  // kUnavailable: the gateway has gone.
  [[nodiscard]] Result<std::optional<Taken>> Take(std::chrono::milliseconds patience);
  // kBadInput unless a request is in hand and `outputs` has the model's size for its rows.
  [[nodiscard]] Result<void> Answer(std::span<const std::byte> outputs);
  // The request in hand goes back with this text as its error.
  void Refuse(const std::string& text);
  [[nodiscard]] const ModelCard& model() const { return model_; }

 private:
  class Pulse;

  void Complete(uint32_t status, uint64_t output_bytes);

  base::Fd socket_;
  std::shared_ptr<Pulse> pulse_;
  std::unique_ptr<SliceInlet> inlet_;
  ModelCard model_;
  std::optional<Submission> in_hand_;
  std::chrono::steady_clock::time_point taken_at_;
};

}  // namespace spillway::gateway
