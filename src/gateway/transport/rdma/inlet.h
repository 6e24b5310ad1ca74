// SPDX-License-Identifier: Apache-2.0
// The executor's end of a slice whose gateway is on another machine: rdma/link.h says how they talk. The
// slice's memory is registered in a protection domain of its own, so that its key opens it over its own
// connection alone: whoever delivers to one slice cannot write another's memory, whatever he says.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "gateway/transport/rdma/bell.h"
#include "gateway/transport/rdma/completions.h"
#include "gateway/transport/rdma/device_inputs.h"
#include "gateway/transport/rdma/pinned_memory.h"
#include "gateway/transport/slice_inlet.h"

namespace spillway::gateway {

class RdmaInlet : public SliceInlet {
 public:
  struct Place {
    sockaddr_storage gateway;  // where it listens for queue pairs
    uint64_t ticket;
    uint32_t slice;  // of the offer
  };
  // `on_broken`: called once, by the thread that takes submissions, when the connection is gone. `inputs`:
  // where they are a GPU's. Errors: kUnavailable, also on a machine without RDMA, kSystem, kConflict when the
  // gateway refuses.
  [[nodiscard]] static Result<std::unique_ptr<RdmaInlet>> Connect(
      const SliceOffer& offer, uint64_t key, const Place& place, std::chrono::steady_clock::time_point until,
      std::function<void()> on_broken, std::unique_ptr<RdmaDeviceInputs> inputs = nullptr);
  ~RdmaInlet() override;

  [[nodiscard]] SliceMemory memory() const override {
    return {memory_.bytes(), inputs_ != nullptr ? inputs_->registered.memory.get() : nullptr};
  }
  bool TakeSubmission(Submission& into) override;
  void Complete(const Completion& completion, uint64_t output_offset) override;
  bool PrepareToWait() override;
  void DoneWaiting() override;
  [[nodiscard]] int bell() const override { return bell_.fd(); }
  void Ring() override { bell_.Ring(); }

 private:
  RdmaInlet(const SliceOffer& offer, uint64_t key) : SliceInlet(offer, key) {}
  [[nodiscard]] Result<void> Open(const Place& place, std::chrono::steady_clock::time_point until);
  [[nodiscard]] Result<void> MakeQueues();
  [[nodiscard]] Result<void> MakeMemory();
  [[nodiscard]] Result<void> Greet(const Place& place, std::chrono::steady_clock::time_point until);
  [[nodiscard]] Result<PinnedMemory> Pin(uint64_t bytes, int access) const;
  bool Listen(uint32_t message);
  void Poll();
  void Break();

  std::function<void()> on_broken_;
  // Of its members, the queue pair goes first, then what it used.
  rdma::Owned<rdma_event_channel> channel_;
  std::unique_ptr<RdmaDeviceInputs> inputs_;  // nullptr: the inputs are in memory_
  rdma::Owned<ibv_pd> own_domain_;            // where `inputs_` have none
  ibv_pd* domain_ = nullptr;
  std::optional<Completions> completions_;
  Bell bell_;
  PinnedMemory memory_, messages_;  // SliceMemory::host; the messages
  rdma::Owned<rdma_cm_id> id_;

  std::deque<Submission> came_;
  uint32_t in_hand_ = 0;          // submissions that are not answered
  uint64_t sent_ = 0, left_ = 0;  // answers; that have arrived
  bool broken_ = false;
};

}  // namespace spillway::gateway
