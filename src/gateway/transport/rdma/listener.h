// SPDX-License-Identifier: Apache-2.0
// Where executors of other machines come: they say over TCP who they are and what they offer, then connect a
// queue pair per slice. Needs no RDMA headers; of a build without RDMA, Listen says so. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gateway/transport/executor_arrival.h"
#include "gateway/transport/shared_memory.h"

namespace spillway::gateway {

class RdmaListener {
 public:
  // `tcp`: a listening socket; queue pairs are listened for at its address, on a port of their own, that the
  // executor is told. Who knows the token may offer slices. `most_memory`: bytes of buffers for all
  // executors. Errors: kUnavailable on a machine or of a build without RDMA, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<RdmaListener>> Listen(base::Fd tcp, const std::string& token,
                                                                    uint64_t most_memory);
  virtual ~RdmaListener() = default;

  [[nodiscard]] virtual int tcp() const = 0;
  // Readable when queue pairs come or go.
  [[nodiscard]] virtual int events() const = 0;
  // Then: the executors of whom there is news, by the number that Meet was given.
  [[nodiscard]] virtual std::vector<uint64_t> Serve() = 0;

  // An executor that has connected by TCP. The socket and the listener outlive it and its link.
  [[nodiscard]] virtual std::unique_ptr<ExecutorArrival> Meet(int socket, uint64_t number) = 0;
};

}  // namespace spillway::gateway
