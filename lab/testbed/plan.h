// SPDX-License-Identifier: Apache-2.0
// What a testbed asks of the machine: namespaces, links, files and processes, all by name, decided
// before anything is touched. Pure; testbed.h carries it out.
//
//   spw-NAME-client ──veth── spw-NAME-switch ──veth── spw-NAME-SERVER-UNIT   (one per unit)
//
// Link number n joins the switch's 10.77.n.1 and fd77:0:0:n::1 to its peer's .2 and ::2; 0 is the
// client's. VIPs given by the lab are 10.77.255.k and fd77:0:0:ffff::k. The addresses exist inside the
// namespaces only.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/pool.h"
#include "spec.h"

namespace spillway::lab {

struct Link {
  std::string label;  // "client" or "server-unit": also the interface's name at the switch
  std::string netns;
  std::string switch_v4, peer_v4, switch_v6, peer_v6;  // without prefix length; /24 and /64
};

// Once the process is ready: bound ports in its namespace, a UNIX socket that answers, words in its log.
struct Readiness {
  std::vector<model::ServicePort> ports = {};
  std::string socket = {};
  std::string logged = {};
  std::chrono::seconds patience{20};  // it has failed if it is not ready by then
};

struct ProcessPlan {
  std::string label;
  std::string netns;
  std::vector<std::string> argv;
  std::vector<int> cpus;          // empty: anywhere
  std::optional<CpuQuota> quota;  // own CPU control group, named after the label
  Readiness ready;
  std::string group;  // of another part with the same quota, to be shared; empty: its own
};

struct UnitPlan {
  std::string label, netns, server;
  UnitSpec spec;
  model::Address address;
  std::optional<ProcessPlan> server_process;
  std::optional<ProcessPlan> agent;
  std::optional<ProcessPlan> neighbour;  // in the unit's control group
};

// A balancer on a SmartNIC. Requests reach it at the front: an address on the NIC's link that the switch has
// as one more unit of the server, and that no interface has, so that the NIC's own stack leaves them alone.
struct NicBalancer {
  model::Address front;
  std::string link;     // label of the NIC's
  ProcessPlan process;  // shares the NIC's control group; wants --unit-policy
};
inline constexpr const char* kFrontUnit = "front";
inline constexpr const char* kFrontMac = "02:53:50:57:00:01";

// Self-signed, made when the testbed goes up.
inline constexpr const char* kCertificateFile = "tls.crt";
inline constexpr const char* kCertificateKey = "tls.key";

struct Paths {
  std::string folder;    // generated files, logs and sockets of this testbed
  std::string programs;  // where spillwayd, spillway-agent, spillway-unit and spillway-compute are
};

struct Plan {
  std::string name, folder;
  std::string client_netns, switch_netns;
  std::vector<Link> links;  // the client's first
  std::vector<UnitPlan> units;
  std::vector<std::string> dsr_vips;  // to stand on each unit's lo
  model::Config config;               // what spillwayd gets; key files are in `folder`
  std::string pool_file, api_socket;
  std::vector<NicBalancer> nic_balancers;
  std::string nic_pool_file;  // pool_file while they balance: the fronts alone are up
  ProcessPlan daemon;
  std::map<std::string, std::string> files;  // path -> content
  std::vector<std::string> key_files;        // to be filled with 32 random hex digits
  bool certificate = false;                  // kCertificateFile and kCertificateKey are wanted in `folder`
  int mtu = 1500;
};

// The configuration of a unit's agent, by the unit's label.
std::string AgentFile(const std::string& folder, const std::string& label);

// "spw-" + testbed + "-" + label.
std::string NetnsName(const std::string& testbed, const std::string& label);

Plan MakePlan(const TestbedSpec& spec, const Paths& paths);

// The zone of the DNS workloads: h1..h1000 .example.org, one A record each.
std::string ZoneText();
// One query a line, as dnsperf reads them.
std::string QueryFileText();

}  // namespace spillway::lab
