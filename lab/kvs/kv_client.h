// SPDX-License-Identifier: Apache-2.0
// An open-loop client of the key-value server: requests go out at their time whether answers come or not.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "lab/testbed/host_network.h"

namespace spillway::lab {

struct KvLoad {
  uint32_t address = 0;  // network byte order
  uint16_t port = 0;
  double rate_rps = 1000;
  std::chrono::milliseconds duration{1000};
  double scan_share = 0;  // of the requests; the rest are GETs but for put_share
  double put_share = 0.02;
  uint32_t scan_keys = 100;  // of each SCAN
  uint64_t keys = 100'000;
  int flows = 64;  // sockets, so many 5-tuples
  uint64_t seed = 1;
};

struct KvOutcome {
  uint64_t sent = 0, answered = 0, wrong = 0;  // wrong: the value was not what the store holds
  uint64_t answered_by_end = 0;                // of the sending
  double p50_us = 0, p99_us = 0;               // of what was answered, from the time it was due
  double behind_us = 0;                        // p99 of how late the client itself sent
};

// From the network's client. Errors: kSystem.
[[nodiscard]] Result<KvOutcome> RunKvLoad(const KvLoad& load, const HostNetwork& network);

}  // namespace spillway::lab
