// SPDX-License-Identifier: Apache-2.0
// The gateway's end of an executor on another machine. Each slice has a queue pair of its own. A delivery is
// an RDMA WRITE of the inputs into the slice's memory, then a message, the Submission, that rings the slice;
// both go out at once, and RDMA keeps their order. The answer is one message: the Completion, and the outputs
// behind it. The other machine's processor has no part in the delivery, and where the inputs' memory there is
// a GPU's, its memory neither: only the message goes there. Nothing here can be read or written from there,
// as no memory is registered for it.
//
// Inputs are copied once, into memory that the device may read: a request is kept until it is answered, in
// memory that comes and goes with clients.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gateway/transport/executor_link.h"
#include "gateway/transport/rdma/completions.h"
#include "gateway/transport/rdma/hello.h"
#include "gateway/transport/rdma/pinned_memory.h"
#include "gateway/transport/slice_cells.h"

namespace spillway::gateway {

class RdmaLink : public ExecutorLink {
 public:
  explicit RdmaLink(const KeyedOffer& offer);
  ~RdmaLink() override;

  // Bytes that a link to such an executor pins here.
  [[nodiscard]] static uint64_t PinnedBytes(const ExecutorOffer& offer);

  // -- until all slices are connected
  // The memory for it: MakePages takes time and may run elsewhere; before the first Admit.
  [[nodiscard]] static Result<std::vector<Pages>> MakePages(const ExecutorOffer& offer);
  void Hold(std::vector<Pages> pages);
  // A slice asks to be connected; what it says is checked. Errors: kBadInput, kConflict, kSystem; the request
  // is then refused by the caller, unless `id` is empty.
  [[nodiscard]] Result<void> Admit(rdma::Owned<rdma_cm_id>& id, const SliceHello& hello);
  [[nodiscard]] bool complete() const;

  // -- the connection manager's news of a slice's connection
  [[nodiscard]] bool Has(const rdma_cm_id* id) const;
  void Established(const rdma_cm_id* id);
  // It is over with this executor.
  void Break(const std::string& why);
  [[nodiscard]] bool broken() const { return !fault_.empty(); }

  bool Deliver(const Delivery& delivery, uint32_t slice) override;
  void GiveUp(uint32_t slice, uint32_t cell, uint64_t id) override;
  bool TakeCompletions(const OnCompletion& on_completion) override;
  [[nodiscard]] bool HasCompletions() override;
  [[nodiscard]] std::string Fault() const override { return fault_; }
  [[nodiscard]] int bell() const override { return completions_->fd(); }
  bool PrepareToWait() override;
  void DoneWaiting() override { completions_->Disarm(); }

 private:
  struct Buffers;
  struct Slice;
  struct Heard {
    uint32_t slice, buffer, bytes;
  };

  [[nodiscard]] Result<void> OpenDevice(const rdma_cm_id& id, uint64_t most_message);
  [[nodiscard]] Result<void> Accept(Slice& slice, uint32_t number, rdma::Owned<rdma_cm_id>& id);
  bool Listen(Slice& slice, uint32_t number, uint32_t buffer);
  void Poll();
  // False: it makes no sense.
  bool TakeOne(const Heard& heard, const OnCompletion& on_completion);

  // Of all slices, from the first connection on.
  rdma::Owned<ibv_pd> domain_;
  std::optional<Completions> completions_;
  ibv_context* device_ = nullptr;
  std::vector<Slice> slices_;
  size_t established_ = 0;
  std::deque<Heard> heard_;
  std::string fault_;
};

}  // namespace spillway::gateway
