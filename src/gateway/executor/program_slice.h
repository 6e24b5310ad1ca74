// SPDX-License-Identifier: Apache-2.0
// A program that is its own slice: it joins the gateway with one model of its own, takes requests where the
// gateway has put them, without a copy, one or several at a time, and answers them. What python/ is made of.
// One thread; another one of its own tells the gateway, while a request is in hand, that the program lives.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gateway/transport/join.h"

namespace spillway::gateway {

class ProgramSlice {
 public:
  struct Options {
    GatewayAddress gateway;
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
    std::span<std::byte> inputs;  // in the slice's memory; until Answer, Refuse or the next Take
    int64_t rows = 1;
  };
  // The next request; those before that nobody answered are refused. nullopt: none within `patience`.
  // kUnavailable: the gateway has gone.
  [[nodiscard]] Result<std::optional<Taken>> Take(std::chrono::microseconds patience);
  // One more, to be answered together with those in hand. Nothing is taken where options.cells are in hand.
  [[nodiscard]] Result<std::optional<Taken>> TakeAnother(std::chrono::microseconds patience);
  [[nodiscard]] size_t in_hand() const { return in_hand_.size(); }
  // Of all requests in hand, one behind the other, in the order in which they were taken. kBadInput unless
  // there are any and `outputs` has the model's size for their rows.
  [[nodiscard]] Result<void> Answer(std::span<const std::byte> outputs);
  // The requests in hand go back with this text as their error.
  void Refuse(const std::string& text);
  // Of the request in hand that was taken first alone, which is then in hand no more.
  [[nodiscard]] Result<void> AnswerFirst(std::span<const std::byte> outputs);
  void RefuseFirst(const std::string& text);
  [[nodiscard]] const ModelCard& model() const { return model_; }

 private:
  class Pulse;

  struct InHand {
    Submission submission;
    std::chrono::steady_clock::time_point taken_at;
  };
  [[nodiscard]] Result<void> AnswerNext(size_t requests, std::span<const std::byte> outputs);
  void RefuseNext(size_t requests, const std::string& text);
  void LetGo(size_t requests);
  void Complete(const InHand& request, uint32_t status, uint64_t output_bytes);

  base::Fd socket_;
  std::shared_ptr<Pulse> pulse_;
  std::unique_ptr<SliceInlet> inlet_;
  ModelCard model_;
  std::vector<InHand> in_hand_;
};

}  // namespace spillway::gateway
