// SPDX-License-Identifier: Apache-2.0
// The executor's end of one slice: its memory, into which the gateway delivers, what the gateway says of it,
// and the way back. By shared memory (shm/inlet.h) or RDMA (rdma/inlet.h). One thread, but for Ring.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "gateway/broker/broker.h"
#include "gateway/transport/channel.h"
#include "gateway/transport/executor_offer.h"

namespace spillway::gateway {

class SliceInlet {
 public:
  SliceInlet(SliceOffer offer, uint64_t key) : offer_(std::move(offer)), key_(key) {}
  virtual ~SliceInlet() = default;
  SliceInlet(const SliceInlet&) = delete;
  SliceInlet& operator=(const SliceInlet&) = delete;

  [[nodiscard]] const SliceOffer& offer() const { return offer_; }
  [[nodiscard]] uint64_t key() const { return key_; }
  // What the host's CPU polls or reads (submissions, numbers of requests that nobody wants, outputs, texts)
  // is the host's in any case; the inputs may be a GPU's.
  [[nodiscard]] virtual SliceMemory memory() const = 0;

  // False: nothing there. What it says is for the caller to check, by CheckSubmission.
  virtual bool TakeSubmission(Submission& into) = 0;
  // The outputs, or a text in their place, lie in the request's cell from `output_offset` on.
  virtual void Complete(const Completion& completion, uint64_t output_offset) = 0;

  // Before a sleep on the bell: announces it. False: something is there, do not sleep.
  virtual bool PrepareToWait() = 0;
  // After it, rung or not; takes the ring off the bell.
  virtual void DoneWaiting() = 0;
  [[nodiscard]] virtual int bell() const = 0;
  // Ends a wait, or the next; from any thread.
  virtual void Ring() = 0;

  // Sleeps until rung or so many milliseconds are over (-1: no end).
  void Wait(int timeout_ms);

 private:
  SliceOffer offer_;
  uint64_t key_;
};

}  // namespace spillway::gateway
