// SPDX-License-Identifier: Apache-2.0
// The pool file in memory: switch, services, pools, servers, units. Plain values, comparable; the
// same for lab, simulator and real hosts. Parsing is in parse.h, comparison in diff.h.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/endpoint.h"
#include "core/policy.h"
#include "core/server.h"
#include "health.h"

namespace spillway::model {

// An IPv4 or IPv6 address. `bytes` in network order; IPv4 uses the first 4, the rest are 0.
struct Address {
  int family = 4;  // 4 or 6
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const Address&) const = default;

  static std::optional<Address> Parse(const std::string& text);
  std::string ToString() const;
  std::array<uint32_t, 4> Words() const;  // as they lie in a packet and in the maps
};

enum class Protocol : uint8_t { kTcp = 6, kUdp = 17 };

struct ServicePort {
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;  // host order, 1..65535
  auto operator<=>(const ServicePort&) const = default;
};

struct Unit {
  std::string name;
  spw_unit_kind kind = SPW_KIND_CPU;
  Address address;
  double capacity = 1;  // relative service rate, > 0
  bool drain = false;   // written in the file: starts, and stays, draining
  bool operator==(const Unit&) const = default;
};

using Key = std::array<uint8_t, 16>;  // SipHash key of one server's reports

struct Server {
  std::string name;
  std::string key_file;          // 32 hex digits; empty: the server sends no reports
  std::optional<Key> key;        // read from key_file at load
  std::optional<uint32_t> code;  // written in the file, or assigned by spillwayd; agents send it
  std::vector<Unit> units;       // 1..8, in order of priority
  bool operator==(const Server&) const = default;
};

struct Pool {
  std::string name;
  std::vector<Server> servers;
  uint32_t ring_slots = 0;  // prime; 0: SPW_RING_SLOTS
  bool operator==(const Pool&) const = default;
};

// How long a flow is kept without a packet, where `idle` does not say.
inline constexpr uint32_t kTcpIdleSeconds = 3600, kUdpIdleSeconds = 60;
inline constexpr uint32_t kMaxIdleSeconds = 4 * 3600;

struct Service {
  std::string name;
  Address vip;
  std::vector<ServicePort> ports;
  std::string pool;
  spw_mode mode = SPW_MODE_NAT;
  spw_affinity affinity = SPW_AFFINITY_CONNECTION;  // of UDP; TCP is always by connection
  spw_server_policy server_policy = SPW_SERVER_MAGLEV;
  spw_unit_policy unit_policy = SPW_UNIT_HEADROOM;
  uint32_t idle_s = 0;                // 0: kTcpIdleSeconds or kUdpIdleSeconds
  std::optional<HealthCheck> health;  // with what it takes from the file's `health`; nullopt: no check
  bool operator==(const Service&) const = default;
};

struct ReportAddress {
  Address address;
  uint16_t port = SPW_REPORT_PORT;
  uint32_t silent_after_ms = 3000;  // three heartbeats; a unit unheard for longer is silent
  bool operator==(const ReportAddress&) const = default;
};

enum class AttachMode : uint8_t { kAuto, kNative, kGeneric };

struct SwitchConfig {
  std::vector<std::string> interfaces;
  AttachMode attach = AttachMode::kAuto;  // auto: native, else generic with a warning
  std::optional<ReportAddress> report;
  uint64_t flow_table_entries = 16777216;  // power of two, 8 bytes each
  std::string seed_file;  // of the flow hash, 96 hex digits, made if absent; empty: the instance's own
  bool operator==(const SwitchConfig&) const = default;
};

struct Config {
  SwitchConfig data_plane;
  std::vector<Service> services;
  std::vector<Pool> pools;
  bool operator==(const Config&) const = default;

  const Pool* FindPool(const std::string& name) const;
};

// Words of the pool file, the CLI and the metrics for the enums of core/. Parse*: nullopt if unknown.
std::string ToString(spw_unit_kind kind);
std::string ToString(spw_mode mode);
std::string ToString(spw_affinity affinity);
std::string ToString(spw_server_policy policy);
std::string ToString(spw_unit_policy policy);
std::string ToString(spw_unit_status status);
std::string ToString(Protocol protocol);
std::string ToString(AttachMode attach);
std::string ToString(const ServicePort& port);  // "udp/53"
std::optional<spw_unit_kind> ParseUnitKind(const std::string& word);
std::optional<spw_mode> ParseMode(const std::string& word);
std::optional<spw_affinity> ParseAffinity(const std::string& word);
std::optional<spw_server_policy> ParseServerPolicy(const std::string& word);
std::optional<spw_unit_policy> ParseUnitPolicy(const std::string& word);
std::optional<AttachMode> ParseAttachMode(const std::string& word);

}  // namespace spillway::model
