// SPDX-License-Identifier: Apache-2.0
// The gateway's end of one executor: puts a request's inputs into a cell of a slice's memory and rings it;
// hears what slices have done. By shared memory (shm/link.h) or RDMA (rdma/link.h). One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gateway/broker/broker.h"
#include "gateway/transport/channel.h"

namespace spillway::gateway {

class ExecutorLink {
 public:
  ExecutorLink() = default;
  virtual ~ExecutorLink() = default;
  ExecutorLink(const ExecutorLink&) = delete;
  ExecutorLink& operator=(const ExecutorLink&) = delete;

  // `slice` counts from 0 in this executor. False: the slice does not take it.
  virtual bool Deliver(const Delivery& delivery, uint32_t slice) = 0;

  // Tells the slice that nobody wants the request in that cell any more, as far as it can be told.
  virtual void GiveUp(uint32_t slice, uint32_t cell, uint64_t id) = 0;

  // Outputs are valid during the call, and empty if the slice claims more than there are.
  using OnCompletion =
      std::function<void(uint32_t slice, const Completion& completion, std::span<const std::byte> outputs)>;
  // Calls for each. False: the executor is not to be dealt with any more, see Fault.
  virtual bool TakeCompletions(const OnCompletion& on_completion) = 0;
  // Whether TakeCompletions has something to say.
  [[nodiscard]] virtual bool HasCompletions() = 0;
  [[nodiscard]] virtual std::string Fault() const { return "protocol violation"; }

  // -- sleeping on the one doorbell of all its slices. PrepareToWait false: do not sleep.
  [[nodiscard]] virtual int bell() const = 0;
  virtual bool PrepareToWait() = 0;
  virtual void DoneWaiting() = 0;
};

}  // namespace spillway::gateway
