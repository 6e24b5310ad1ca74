// SPDX-License-Identifier: Apache-2.0
// A window of a client of this host: shared memory, and a channel beside it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gateway/transport/window.h"

namespace spillway::gateway {

class ShmServedWindow : public ServedWindow {
 public:
  // Errors: kSystem, kBadInput as Channel::Create's.
  [[nodiscard]] static Result<std::unique_ptr<ShmServedWindow>> Create(uint64_t bytes, uint32_t slots);

  // For the client: the channel, the memory, the doorbell of submissions and its end of that of completions.
  [[nodiscard]] std::array<int, 4> descriptors() const {
    return {channel_.fd(), memory_->fd(), channel_.bells().submissions.get(), clients_end_.get()};
  }
  // Once the client has them.
  void DropClientsEnd() { clients_end_ = base::Fd(); }

  [[nodiscard]] std::span<std::byte> bytes() const override { return memory_->bytes(); }
  [[nodiscard]] std::shared_ptr<const void> keeper() const override { return memory_; }
  // Once that is free, the pages are, whatever descriptors the client keeps.
  [[nodiscard]] std::shared_ptr<void> TakeMemory() override;
  [[nodiscard]] const SharedMemory* peer_memory() const override { return memory_.get(); }
  [[nodiscard]] bool Write(std::span<std::byte> to, std::span<const std::byte> from) override {
    return memory_->Write(to, from);
  }
  [[nodiscard]] uint32_t slots() const override { return channel_.slots(); }
  bool TakeSubmission(Submission& into) override { return channel_.TakeSubmission(into); }
  [[nodiscard]] uint64_t AnswersWaiting() const override { return channel_.CompletionsWaiting(); }
  void Complete(const Completion& completion, uint64_t) override { channel_.Complete(completion); }
  [[nodiscard]] bool HasSentAll() override { return true; }
  [[nodiscard]] std::string Fault() const override {
    return channel_.broken() ? "the window's ring is broken" : "";
  }
  [[nodiscard]] int bell() const override { return channel_.bells().submissions.get(); }
  bool PrepareToWait() override { return channel_.PrepareToWaitForSubmissions(); }
  void DoneWaiting() override { channel_.DoneWaitingForSubmissions(); }

 private:
  Channel channel_;
  base::Fd clients_end_;
  std::shared_ptr<SharedMemory> memory_;
};

class ShmClientWindow : public ClientWindow {
 public:
  // Of what the gateway sent: the four descriptors, in its order. Errors: kBadInput, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<ShmClientWindow>> Map(std::vector<base::Fd> fds, uint64_t bytes,
                                                                    uint32_t slots);

  [[nodiscard]] std::span<std::byte> bytes() const override { return memory_.bytes(); }
  [[nodiscard]] uint32_t slots() const override { return channel_.slots(); }
  bool Submit(const Submission& submission) override { return channel_.Submit(submission); }
  bool TakeCompletion(Completion& into) override { return channel_.TakeCompletion(into); }
  [[nodiscard]] bool HasCompletion() override { return channel_.HasCompletion(); }
  [[nodiscard]] bool broken() const override { return channel_.broken(); }
  [[nodiscard]] int bell() const override { return channel_.bells().completions.get(); }
  bool PrepareToWait() override { return channel_.PrepareToWaitForCompletions(); }
  void DoneWaiting(bool has_rung) override;

 private:
  Channel channel_;
  SharedMemory memory_;
};

}  // namespace spillway::gateway
