// SPDX-License-Identifier: Apache-2.0
// The switch's program with its maps, unpinned and attached to nothing, in a network namespace of the
// test's own: all is gone with the process. Loaded once; Reset() empties every map.
//
// The pool of most tests (Configure()):
//   s1: cpu 10.0.1.1 (6), nic 10.0.1.2 (1)      s2: cpu 10.0.2.1 (6), nic 10.0.2.2 (1)
//   the same over IPv6 as pool `six`: 2001:db8:1::1 ...
//   web   203.0.113.10  tcp/80 udp/80    nat, affinity connection     web6  2001:db8:ff::10
//   edge  203.0.113.20  tcp/443 udp/443  dsr-l2                       edge6 2001:db8:ff::20
//   dns   203.0.113.53  udp/53           dsr-l2, affinity none
//   reports to 192.0.2.1:9870
// Units are resolved, fresh and idle. Unit policy p4mite, so the ring names each server's cpu.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "bpf/switch.h"
#include "packet_builder.h"
#include "switch/mapped_array.h"
#include "switch/plan.h"

struct switch_bpf;

namespace spillway::switching {

using Counts = std::map<std::string, uint64_t>;

struct Outcome {
  int verdict = -1;  // XDP_*, or -1: the kernel refused to run it
  Bytes bytes;
};

class SwitchProgram {
 public:
  // Both load at the first call and throw with libbpf's log when they cannot. The second's clock stands,
  // until it is set.
  static SwitchProgram& Get();
  static SwitchProgram& AtStandingClock();

  void Reset();
  // As after an insert that met full buckets.
  void MakePlacesFew();
  void Apply(const model::Config& config);
  Outcome Run(const Bytes& packet, uint32_t ingress_ifindex = 0);
  Counts TakeCounts();                     // non-zero changes since the last call
  spw_counters CountersOn(int cpu) const;  // since the program was loaded
  spw_traffic UnitTraffic(uint16_t id) const;
  spw_traffic ServiceTraffic(uint32_t service) const;
  spw_server_key ReadKey(uint32_t server) const;
  void WriteKey(uint32_t server, const spw_server_key& key);

  const spw_seed& seed() const { return seed_; }
  uint64_t given_now_ns() const { return given_now_ns_; }
  void SetClock(uint64_t now_ns);
  uint32_t Beat() const;  // now, by the program's clock
  uint32_t displaced_tick() const;
  uint32_t flow_buckets() const;
  const Plan& plan() const { return plan_; }

  MappedArray<spw_endpoint> services, replies;
  MappedArray<spw_ring_slot> ring_slots;
  MappedArray<spw_unit> units;
  MappedArray<spw_server> servers;
  MappedArray<spw_pool> pools;
  MappedArray<spw_bucket> flow_table;
  MappedArray<spw_filter_word> flow_filter;
  MappedArray<spw_half_open> half_open;
  MappedArray<spw_refused> refused;

 private:
  explicit SwitchProgram(uint64_t given_now_ns);
  spw_counters ReadCounters() const;

  switch_bpf* skeleton_ = nullptr;
  int program_fd_ = -1;
  spw_seed seed_{};
  uint64_t given_now_ns_ = 0;
  spw_counters last_{};
  Ledger ledger_;
  Plan plan_;
  Bytes out_;
};

uint64_t NowNs();
uint32_t NowTick();
uint32_t NowBeat();
model::Config TestConfig();

// A client, and one of TestConfig()'s services.
inline constexpr const char* kClient = "198.51.100.7";
inline constexpr const char* kVip = "203.0.113.10";

// A test's view: verbs over the program, reset and configured before each.
class SwitchTest : public testing::Test {
 protected:
  explicit SwitchTest(SwitchProgram& program = SwitchProgram::Get()) : program_(program) {}
  void SetUp() override;

  Outcome Run(const Bytes& packet);
  // Runs and returns the id of the unit it was sent to; fails the test on another verdict or a wrong
  // checksum.
  uint16_t Sent(const Bytes& packet);
  Counts Counted() { return program_.TakeCounts(); }

  uint16_t Id(const std::string& pool, const std::string& server, const std::string& unit) const;
  spw_endpoint& Service(const std::string& vip, uint16_t port, uint8_t proto);
  // Fresh load of a unit, as if reported now.
  void Report(uint16_t id, bool busy, uint16_t queue = 0);
  // As if the unit's agent said that it fails, and was believed, long ago. Until LetProbe() no packet comes
  // at the time of a probe, unless the machine stands still for a quarter of a second.
  void TakeOut(uint16_t id);
  void WithoutProbes(uint16_t id) { without_probes_.insert(id); }
  void LetProbe() { without_probes_.clear(); }
  spw_server& ServerOf(uint16_t id) { return program_.servers[spw_unit_server(id)]; }
  spw_unit_health& HealthOfUnit(uint16_t id) { return ServerOf(id).health[spw_unit_index(id)]; }
  void AllCpusBusy(bool busy);
  void SetStatus(uint16_t id, spw_unit_status status);
  spw_ring_slot& SlotOf(const spw_endpoint& service, uint64_t hash);
  uint64_t Hash(const std::string& source, const std::string& destination, uint16_t sport, uint16_t dport,
                uint8_t proto) const;
  size_t FlowEntries() const;  // live entries in the flow table
  const __u64* FlowEntry(uint64_t hash) const;
  void AgeFlows(uint32_t ticks);  // as if no packet had come for so long
  void AgeHalfOpen(uint32_t stamps);
  void AgeRefusedMarks(uint32_t ticks);

  SwitchProgram& program_;

 private:
  std::set<uint16_t> without_probes_;
};

// Unit named by a frame's destination MAC.
uint16_t UnitByMac(const Bytes& frame);

}  // namespace spillway::switching
