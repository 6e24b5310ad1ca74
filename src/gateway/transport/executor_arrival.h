// SPDX-License-Identifier: Apache-2.0
// How an executor comes to the gateway, by whichever transport (shm/arrival.h, rdma/listener.h): it says what
// it offers, shows its memory, and is taken or refused. Everything is checked; any error means: refuse and
// close.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/broker/broker.h"
#include "gateway/transport/executor_link.h"

namespace spillway::gateway {

// Who of this machine may offer slices: one whose user is among these, or who shows the token.
struct ExecutorTrust {
  std::vector<uint32_t> users = {0, geteuid()};
  std::string token;                   // empty: there is none
  std::optional<uint32_t> group = {};  // of the socket; nullopt: the gateway's own
};

class ExecutorArrival {
 public:
  enum class Step { kMore, kComplete, kGone };

  virtual ~ExecutorArrival() = default;
  // When its socket has something to read, or its transport has news: takes all there is.
  [[nodiscard]] virtual Result<Step> Read() = 0;
  // It may offer slices: its user, or a token that it has shown, says so.
  [[nodiscard]] virtual bool IsTrusted() const = 0;

  // -- once it is complete
  [[nodiscard]] virtual const ExecutorOffer& offer() const = 0;
  // Once. kConflict: its keys are in use.
  [[nodiscard]] virtual Result<std::unique_ptr<ExecutorLink>> TakeLink() = 0;

  // The gateway's word on it: an empty text says yes.
  [[nodiscard]] virtual Result<void> Answer(const std::string& refusal) = 0;
};

}  // namespace spillway::gateway
