// SPDX-License-Identifier: Apache-2.0
// A pool of connected UDP sockets, each one flow (source address and port), used in turn. Connected, so
// the kernel drops answers that do not come from the target's own address and port.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "transport.h"

namespace spillway::load {

class UdpFlows : public Transport {
 public:
  UdpFlows(const Settings& settings, Ledger& ledger);
  ~UdpFlows() override;
  UdpFlows(const UdpFlows&) = delete;
  UdpFlows& operator=(const UdpFlows&) = delete;

  [[nodiscard]] Result<void> Open(int epoll_fd) override;
  void Start(std::int64_t start_ns) override { start_ns_ = start_ns; }
  void Send(std::uint32_t id) override;
  void OnEvent(std::uint64_t key, std::uint32_t events) override;
  void Expire(std::int64_t) override {}
  [[nodiscard]] std::size_t flows() const override { return sockets_.size(); }

 private:
  [[nodiscard]] Result<int> OpenSocket(std::size_t index);

  const Settings& settings_;
  Ledger& ledger_;
  std::int64_t start_ns_ = 0;
  std::vector<int> sockets_;
  std::size_t next_ = 0;
  std::size_t skipped_ports_ = 0;
  std::string datagram_;
};

// How many flows the settings ask for, before the system's limits.
[[nodiscard]] std::size_t FlowsWanted(const Settings& settings);

// The source that flow `index` is bound to: addresses in turn, then the next port. nullopt: the kernel's
// choice. Past the last port it begins again.
[[nodiscard]] std::optional<base::SocketAddress> SourceOf(const Settings& settings, std::size_t index);

}  // namespace spillway::load
