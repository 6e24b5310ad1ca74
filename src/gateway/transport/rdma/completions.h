// SPDX-License-Identifier: Apache-2.0
// A completion queue that one thread polls, and sleeps on.
#pragma once

#include <cstdint>
#include <functional>

#include "rdma/connection.h"

struct ibv_context;
struct ibv_wc;

namespace spillway::gateway {

class Completions {
 public:
  // Of so many entries at most. Errors: kBadInput, the device has none so long; kSystem.
  [[nodiscard]] static Result<Completions> Make(ibv_context* device, uint32_t entries);

  // Calls for each that is there. False: the queue itself has failed.
  bool Poll(const std::function<void(const ibv_wc&)>& each);

  // Readable when something comes after Arm; to be polled once more in between. Disarm afterwards.
  [[nodiscard]] int fd() const;
  void Arm();
  void Disarm();
  [[nodiscard]] ibv_cq* queue() const { return queue_.get(); }

 private:
  rdma::Owned<ibv_comp_channel> channel_;
  rdma::Owned<ibv_cq> queue_;
  bool armed_ = false;
};

}  // namespace spillway::gateway
