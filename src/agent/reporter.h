// SPDX-License-Identifier: Apache-2.0
// Sends load reports to the switches. A switch that cannot be reached never stops the agent: it is
// logged when that begins and when it ends. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/meters/reading.h"
#include "agent/trigger.h"
#include "core/report.h"

namespace spillway::agent {

class Reporter {
 public:
  // sequence: of the report before the first.
  explicit Reporter(const AgentConfig& config, uint64_t boot_id = 0, uint32_t sequence = 0);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // Start of this agent, microseconds since 1970; larger than any earlier agent's. Before the first
  // report.
  void SetBootId(uint64_t boot_id) { boot_id_ = boot_id; }

  void Send(Time now, const Verdict& verdict, const Reading& reading);
  // The datagram that Send sends at `now`; advances the sequence.
  spw_report_wire Encode(Time now, const Verdict& verdict, const Reading& reading);

  uint64_t sent() const { return sent_; }
  uint64_t failed() const { return failed_; }

 private:
  struct Peer {
    Endpoint endpoint;
    int fd = -1;
    int said = 0;  // errno that was logged last; 0: all is well
    Time last_failure{0};
  };
  int TrySend(Peer& peer, const spw_report_wire& wire);

  spw_siphash_key key_;
  uint16_t server_;
  uint8_t unit_;
  uint64_t boot_id_;
  Duration period_;  // between reports, at most
  uint32_t sequence_;
  std::vector<Peer> peers_;
  uint64_t sent_ = 0, failed_ = 0;
};

}  // namespace spillway::agent
