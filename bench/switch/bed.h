// SPDX-License-Identifier: Apache-2.0
// The bed: the switch's data plane loaded privately (nothing pinned, nothing attached; it is gone with
// the process) on a pool of its own making, and the wrapper program that feeds it.
//
//   Open ──► Remember(how many flows have entries) ──► Aim(row) ──► Run(floor | switch) ... ──► ...
//
// Who checks the answers: rounds.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "bench/switch/rows.h"
#include "bpf/switch.h"
#include "switch/mapped_array.h"
#include "switch/plan.h"

struct switch_bpf;
struct bench_wrapper_bpf;

namespace spillway::bench {

enum class Target : uint8_t { kFloor, kSwitch };

struct BedOptions {
  uint32_t servers = 64;  // of two units each, in a pool for IPv4 and one for IPv6
  uint32_t flow_table_entries = 16777216;
};

struct RunResult {
  uint32_t ns_per_packet = 0;  // the kernel's figure, whole nanoseconds
  uint32_t verdict = 0;        // of the last packet, as is the frame
  std::vector<uint8_t> frame;
};

class Bed {
 public:
  // Errors: kUnavailable without the privilege to load BPF programs; kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Bed>> Open(const BedOptions& options);
  ~Bed();

  // Makes the flow table hold flows [0, count) of this class, each with a live entry. Cheap
  // when the class is the last call's and the count has not shrunk.
  void Remember(Class row_class, Packet packet, uint32_t count);
  void ForgetAll();
  // Remembered flows that lost their entry to a later one: the table is too small for them.
  uint32_t evicted() const { return evicted_; }

  // Sets the frames to those of `row`, going on where `walk` stands.
  void Aim(const Row& row, const spw_bench_walk& walk);
  // The same with SYNs, for the ACKs of kFirstAck.
  void AimSyns(const Row& row, const spw_bench_walk& walk);
  spw_bench_walk Walk() const;
  [[nodiscard]] Result<RunResult> Run(Target target, uint32_t packets);

  // Where the data plane must put a flow of this row.
  uint16_t ExpectedUnit(const Row& row, uint32_t flow) const;
  const spw_unit& UnitEntry(uint16_t id) const { return units_[id]; }
  std::vector<uint16_t> UnitIds() const;
  spw_counters Counters() const;
  std::vector<uint64_t> UnitPackets() const;  // by unit id

  // Every unit has just reported: idle; each server's first busy, so that p4mite leaves the ring, or not.
  void RefreshReports(bool first_busy = false);
  uint32_t reporting_units() const { return static_cast<uint32_t>(reporters_.size()); }

 private:
  struct Reporter {
    __u16 server;
    __u8 unit;
    spw_siphash_key key;
  };
  Bed() = default;
  [[nodiscard]] Result<void> Load(const BedOptions& options);
  [[nodiscard]] Result<void> Fill();
  [[nodiscard]] Result<void> MakeReporters();
  // All of the wrapper's, in the order in which it sends them, each newer than the last of its unit.
  void SignReports();
  [[nodiscard]] Result<RunResult> RunOnce(Target target, uint32_t packets);
  const spw_endpoint& EndpointOf(const Row& row) const;
  spw_ring_slot& SlotOf(const spw_endpoint& service, uint64_t hash) {
    return ring_slots_[service.ring_offset + spw_ring_index(hash, service.ring_slots)];
  }
  void AimFrames(const Row& row, TcpKind kind, const spw_bench_walk& walk);
  uint16_t EntryUnit(Class row_class, uint16_t owner) const;

  switch_bpf* switch_ = nullptr;
  bench_wrapper_bpf* wrapper_ = nullptr;
  switching::Plan plan_;
  spw_seed seed_{};
  switching::MappedArray<spw_endpoint> services_, replies_;
  switching::MappedArray<spw_ring_slot> ring_slots_;
  switching::MappedArray<spw_unit> units_;
  switching::MappedArray<spw_server> servers_;
  switching::MappedArray<spw_bucket> flow_table_;
  switching::MappedArray<spw_filter_word> flow_filter_;
  switching::MappedArray<spw_half_open> half_open_;
  std::vector<Reporter> reporters_;
  uint32_t reported_ = 0;  // the last sequence number
  Class remembered_class_ = Class::kTcpDefault;
  Packet remembered_packet_ = Packet::kV4Tcp;
  uint32_t remembered_ = 0, evicted_ = 0;
  Packet aimed_ = Packet::kV4Tcp;
};

}  // namespace spillway::bench
