// SPDX-License-Identifier: Apache-2.0
// The data plane alone under a flood, packet by packet (BPF_PROG_TEST_RUN), by a clock of its own: nothing is
// attached or pinned, and floods of any pace take as long as the machine needs. What is watched:
//
//   idle      TCP flows that were established before, on the ring and off it, and silent for ten minutes
//   live      flows that open while the flood lasts, with round trips of 0, 50 and 200 ms, and then go on
//   datagram  UDP flows, whose packets come within half of their idle time
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/error.h"
#include "bench/flood/attack.h"
#include "bpf/switch.h"
#include "core/policy.h"
#include "switch/mapped_array.h"
#include "switch/plan.h"

struct switch_bpf;

namespace spillway::bench {

struct FloodCase {
  Attack attack = Attack::kForgedSyn;
  spw_server_policy server_policy = SPW_SERVER_P2C;
  spw_unit_policy unit_policy = SPW_UNIT_HEADROOM;
  uint32_t table_times = 10;  // packets of the flood, in flow tables or, of SYNs, tables of handshakes
  uint32_t packets_per_s = 1'000'000;
  uint64_t seed = 1;
};
// What keeps nothing of TCP: the measure for new connections.
inline constexpr spw_server_policy kStatelessServerPolicy = SPW_SERVER_MAGLEV;
inline constexpr spw_unit_policy kStatelessUnitPolicy = SPW_UNIT_HOST_ONLY;

inline constexpr uint32_t kRoundTripsMs[] = {0, 50, 200};  // of new flows, of packets
inline constexpr size_t kRoundTrips = std::size(kRoundTripsMs);

struct FloodOutcome {
  uint64_t packets = 0;  // of the flood
  size_t live_flows = 0, idle_flows = 0, datagram_flows = 0;
  size_t moved = 0;  // of these, with a packet that went elsewhere, or nowhere
  // Of these, not among `moved`: flows whose handshake's number a forged SYN had by chance, one in 2^15,
  // after which nothing tells the two apart (core/half_open.h).
  size_t guessed = 0;
  size_t new_tried = 0, new_connected = 0;
  // Of these, of packets: as many of each round trip, and of these connected. Else nothing.
  std::optional<std::array<size_t, kRoundTrips>> connected_of;
  std::optional<size_t> new_off_ring;  // of new_tried: where the policy chose otherwise than the ring

  double ConnectedPct() const {
    return new_tried == 0 ? 0 : 100.0 * static_cast<double>(new_connected) / static_cast<double>(new_tried);
  }
};

// In the flood: entries, or of SYNs words of the table of handshakes, times the case's table_times.
uint64_t PacketsOf(const FloodCase& one, uint32_t flow_table_entries);

class PacketBed {
 public:
  // `flow_table_entries`: a power of two, 1,024 at least. Errors: kUnavailable without the privilege to load
  // BPF programs; kSystem.
  [[nodiscard]] static Result<std::unique_ptr<PacketBed>> Open(uint32_t flow_table_entries);
  ~PacketBed();

  // On empty tables. `on_progress`: the fraction done; false: stop (kSystem, "interrupted").
  [[nodiscard]] Result<FloodOutcome> Play(const FloodCase& one,
                                          const std::function<bool(double)>& on_progress);

 private:
  struct Flow {
    uint32_t address = 0, isn = 0;
    uint16_t port = 0, unit = SPW_NO_UNIT;
    uint64_t due = 0;  // number of the flood's packet before which its ACK comes
    bool moved = false, guessed = false;
  };
  struct Flows {
    std::vector<Flow> idle, live, datagrams;
    std::deque<Flow> opening[kRoundTrips];
  };
  PacketBed() = default;
  [[nodiscard]] Result<void> Load(uint32_t flow_table_entries);
  [[nodiscard]] Result<void> Lay(const FloodCase& one);
  void Forget();
  void Advance(uint64_t ns);
  void ReportAll(std::mt19937_64& random);
  // The unit that it was sent to; SPW_NO_UNIT: it was not.
  uint16_t Send(const FloodPacket& packet);
  uint16_t SendTcp(const Flow& flow, uint8_t flags, uint32_t sequence);
  uint16_t SendUdp(const Flow& flow);
  Flow NewFlow();
  Flow Begin(std::mt19937_64& random);
  uint16_t RingUnit(const Flow& flow) const;
  void Establish(Flows& flows, std::mt19937_64& random);
  void OpenNew(Flows& flows, uint64_t packet, const uint64_t* due_in, std::mt19937_64& random,
               FloodOutcome& outcome);
  // A packet of the flood that is a SYN of one of these.
  static void Guess(std::vector<Flow>& victims, const FloodPacket& packet);
  void Complete(Flows& flows, uint64_t packet, FloodOutcome& outcome);
  static void Follow(Flow& flow, uint16_t went) { flow.moved |= went != flow.unit; }

  switch_bpf* switch_ = nullptr;
  uint32_t entries_ = 0, ring_capacity_ = 0, next_flow_ = 0;
  uint64_t now_ns_ = 0;
  spw_seed seed_{};
  switching::Plan plan_;
  std::vector<uint8_t> tcp_, udp_, out_;
  switching::MappedArray<spw_endpoint> services_, replies_;
  switching::MappedArray<spw_ring_slot> ring_slots_;
  switching::MappedArray<spw_unit> units_;
  switching::MappedArray<spw_server> servers_;
  switching::MappedArray<spw_pool> pools_;
  switching::MappedArray<spw_bucket> flow_table_;
  switching::MappedArray<spw_filter_word> flow_filter_;
  switching::MappedArray<spw_half_open> half_open_;
  switching::MappedArray<spw_refused> refused_;
};

}  // namespace spillway::bench
