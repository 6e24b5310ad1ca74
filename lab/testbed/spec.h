// SPDX-License-Identifier: Apache-2.0
// A testbed as its file describes it: services, servers, units, and what runs on each. Plain values;
// parsing is in spec_reader.h, what the machine gets from it in plan.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/pool.h"

namespace spillway::lab {

using Micros = std::chrono::microseconds;

// What answers requests on a unit.
enum class Workload {
  kNone,      // nothing; requests go unanswered
  kNsd,       // nsd, an authoritative DNS server: some microseconds of CPU per answer
  kKnot,      // knotd signing each answer as it is asked (DNSSEC), at a cost that the algorithm sets
  kNginx,     // nginx with files of 1 KB, 100 KB and 1 MB
  kEmulated,  // spillway-unit: a queue with k workers that burns no CPU
  // spillway-compute: a queue with k workers that really compute.
  kSynthetic,  // floating-point operations
  kVgg16,      // an image through VGG-16
  kKnn,        // an exact search for nearest neighbours
};

// Share of one CPU: `quota` of CPU time in every `period`. The kernel takes no quota below 1 ms.
struct CpuQuota {
  Micros quota{}, period{};
  bool operator==(const CpuQuota&) const = default;
};

struct Emulated {
  uint32_t workers = 1;
  Micros service{1000};  // mean time a request occupies a worker
  double cv = 0.2;       // coefficient of variation of the service time
  Micros latency{0};     // added to each request, occupying no worker
  bool operator==(const Emulated&) const = default;
};

struct Synthetic {
  uint32_t workers = 1;
  double gflop = 1;  // per request
  bool operator==(const Synthetic&) const = default;
};

struct Vgg16 {
  uint32_t workers = 1;
  uint32_t size = 224;  // side of the image
  std::string precision = "f32";
  bool operator==(const Vgg16&) const = default;
};

struct Knn {
  uint32_t workers = 1;
  uint32_t vectors = 100'000, dimensions = 128, neighbours = 10;
  bool operator==(const Knn&) const = default;
};

// nginx answers with files of 1 KB, 100 KB and 1 MB, by HTTP/1.1.
struct Nginx {
  bool tls = false;  // with a certificate that the testbed makes for itself
  bool operator==(const Nginx&) const = default;
};

// A process beside the unit's own, in its control group: busy for `busy` in every `every`.
struct Neighbour {
  Micros every{}, busy{};
  bool operator==(const Neighbour&) const = default;
};

// How knotd signs: the CPU time of an answer. On the reference machine, ecdsap256sha256 takes 45 us and
// rsasha256 with 1024 bits 245 us.
struct KnotSigning {
  std::string algorithm = "ecdsap256sha256";
  uint32_t key_bits = 0;  // of RSA; 0: the algorithm's own
  bool operator==(const KnotSigning&) const = default;
};

struct UnitSpec {
  std::string name;
  spw_unit_kind kind = SPW_KIND_CPU;
  double capacity = 1;
  std::optional<model::Address> address;  // nullopt: given by the lab
  Workload runs = Workload::kNone;
  Emulated emulated;
  Synthetic synthetic;
  Vgg16 vgg16;
  Knn knn;
  KnotSigning knot;
  Nginx nginx;
  std::optional<CpuQuota> quota;
  std::optional<Neighbour> neighbour;
  bool operator==(const UnitSpec&) const = default;
};

// Whether it is spillway-compute's.
constexpr bool Computes(Workload workload) {
  return workload == Workload::kSynthetic || workload == Workload::kVgg16 || workload == Workload::kKnn;
}

// Requests that such a unit works on at a time.
inline uint32_t WorkersOf(const UnitSpec& unit) {
  return unit.runs == Workload::kSynthetic ? unit.synthetic.workers
         : unit.runs == Workload::kVgg16   ? unit.vgg16.workers
                                           : unit.knn.workers;
}

struct ServerSpec {
  std::string name;
  std::vector<UnitSpec> units;
  bool operator==(const ServerSpec&) const = default;
};

struct ServiceSpec {
  std::string name;
  std::optional<model::Address> vip;  // nullopt: given by the lab
  std::vector<model::ServicePort> ports;
  spw_mode mode = SPW_MODE_NAT;
  spw_affinity affinity = SPW_AFFINITY_CONNECTION;
  spw_server_policy server_policy = SPW_SERVER_MAGLEV;
  spw_unit_policy unit_policy = SPW_UNIT_HEADROOM;
  std::optional<model::HealthCheck> health;  // its port is set; no key of a lab file
  bool operator==(const ServiceSpec&) const = default;
};

struct AgentSpec {
  bool run = true;
  Micros threshold{100'000};
  double release_ratio = 0.5;
  Micros second_report_after{0};  // 0: off
  Micros timeout{10'000'000};     // a request unanswered for longer was lost, and is no longer counted
  std::string mode = "periodic";  // or "on-threshold"
  Micros period{20'000};
  Micros heartbeat{1'000'000};
  bool cgroup = true;  // it reads its unit's control group, of a unit with a quota
  bool operator==(const AgentSpec&) const = default;
};

// CPUs the parts are pinned to; empty: anywhere. Keeps the client's pace clear of the units' work.
struct CpuPlan {
  std::vector<int> client, units, daemons;
  bool operator==(const CpuPlan&) const = default;
};

// Where a server's requests are balanced over its units: in the switch, or by a program on its SmartNIC.
enum class BalancerPlace { kSwitch, kNic };

struct TestbedSpec {
  std::string name;
  int family = 4;  // of VIPs, units and the report address; links carry both
  int mtu = 1500;
  std::vector<ServiceSpec> services;
  AgentSpec agent;
  CpuPlan cpus;
  std::vector<ServerSpec> servers;
  uint64_t flow_table_entries = 1 << 22;  // for a minute of 50,000 new flows a second that have ended
  BalancerPlace balancer = BalancerPlace::kSwitch;
  bool nic_balancers = false;  // one stands ready on each server, whether or not it balances now
  bool operator==(const TestbedSpec&) const = default;
};

}  // namespace spillway::lab
