// SPDX-License-Identifier: Apache-2.0
// The BPF source of the latency meter: meter.bpf.c loaded and its maps mapped, not attached. OpenBpfMeter
// (latency_meter.h) attaches it, the packet tests run it. Not thread-safe.
#pragma once

#include <memory>
#include <optional>

#include "agent/config.h"
#include "agent/meters/meter_memory.h"
#include "base/error.h"

struct meter_bpf;
struct ring_buffer;

namespace spillway::agent {

class BpfProgram {
 public:
  [[nodiscard]] static Result<std::unique_ptr<BpfProgram>> Load(const AgentConfig& config,
                                                                const spw_seed& seed);
  ~BpfProgram();
  BpfProgram(const BpfProgram&) = delete;
  BpfProgram& operator=(const BpfProgram&) = delete;

  int ingress_fd() const;
  int egress_fd() const;
  int notices_fd() const;
  // Takes all waiting notices; the last one, or nullopt if there were none.
  std::optional<spw_meter_notice> TakeNotices();
  MeterMemory memory() const;

 private:
  BpfProgram() = default;

  meter_bpf* skeleton_ = nullptr;
  ring_buffer* ring_ = nullptr;
  spw_meter_bucket* buckets_ = nullptr;
  size_t bucket_count_ = 0;
  spw_meter_counts* counts_ = nullptr;
  size_t cpu_count_ = 0;
  std::optional<spw_meter_notice> last_notice_;
};

}  // namespace spillway::agent
