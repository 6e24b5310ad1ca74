// SPDX-License-Identifier: Apache-2.0
// How an executor comes to the gateway, by whichever socket and transport: it says what it offers, shows its
// memory, and is taken or refused. Everything is checked; any error means: refuse and close.
#pragma once

#include <memory>
#include <string>

#include "gateway/broker.h"
#include "gateway/executor_link.h"

namespace spillway::gateway {

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
