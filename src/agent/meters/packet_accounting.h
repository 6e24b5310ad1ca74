// SPDX-License-Identifier: Apache-2.0
// The request meter in user space: the same parser and accounting as meter.bpf.c, over the process's
// own memory. Frames and their times are arguments. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "agent/config.h"
#include "agent/meters/meter_memory.h"
#include "agent/meters/reading.h"
#include "bpf/meter_packet.h"

namespace spillway::agent {

class PacketAccounting {
 public:
  PacketAccounting(const AgentConfig& config, const spw_seed& seed);
  PacketAccounting(const PacketAccounting&) = delete;
  PacketAccounting& operator=(const PacketAccounting&) = delete;

  // head: the frame's first bytes, starting 2 bytes past a 4-byte boundary; frame_bytes: its length
  // on the wire. Returns what cannot wait.
  spw_meter_event OnFrame(std::span<const uint8_t> head, uint32_t frame_bytes, spw_meter_direction direction,
                          Time when);
  MeterMemory memory();

 private:
  spw_meter_config config_;
  spw_meter_shared shared_{};
  spw_meter_clocks clocks_{};
  spw_meter_counts counts_{};
  std::vector<spw_meter_bucket> buckets_;
};

}  // namespace spillway::agent
