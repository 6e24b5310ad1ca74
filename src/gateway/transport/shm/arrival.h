// SPDX-License-Identifier: Apache-2.0
// An executor of this machine comes: one SOCK_SEQPACKET UNIX socket, over which it hands its memory as file
// descriptors; docs/gateway.md has the messages. Until its user or a token has proved it, nothing else of it
// is looked into. Afterwards the socket only says, by closing, that a side is
// gone.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gateway/transport/executor_arrival.h"
#include "gateway/transport/executor_offer.h"
#include "gateway/transport/shm/link.h"

namespace spillway::gateway {

class ShmArrival : public ExecutorArrival {
 public:
  // The socket, which does not block, the table and `trust` outlive it. What the slices hold in the table: as
  // ShmLink.
  ShmArrival(int socket, RegionTable& regions, uint64_t first_holder, const ExecutorTrust& trust);

  [[nodiscard]] Result<Step> Read() override;
  [[nodiscard]] bool IsTrusted() const override { return is_trusted_; }
  [[nodiscard]] const ExecutorOffer& offer() const override { return offer_.offer; }
  [[nodiscard]] Result<std::unique_ptr<ExecutorLink>> TakeLink() override;
  [[nodiscard]] Result<void> Answer(const std::string& refusal) override;

  // One message of the socket. True: the offer is complete.
  [[nodiscard]] Result<bool> Take(std::span<const std::byte> message, std::vector<base::Fd> fds);

 private:
  [[nodiscard]] Result<bool> TakeSlice(const nlohmann::json& json, std::vector<base::Fd> fds);

  [[nodiscard]] Result<void> TakeToken(const nlohmann::json& message);

  int socket_;
  RegionTable& regions_;
  uint64_t first_holder_;
  const ExecutorTrust& trust_;
  uint32_t user_ = UINT32_MAX;  // the peer's
  bool is_trusted_ = false, has_shown_ = false, has_sent_token_ = false;
  KeyedOffer offer_;  // without slices: it has not come yet
  base::Fd completions_;
  std::vector<SharedSlice> slices_;
};

}  // namespace spillway::gateway
