// SPDX-License-Identifier: Apache-2.0
// Random configurations that ParseConfig accepts, from a seed. The key file, if any, is one the test made.
#pragma once

#include <random>
#include <string>

#include "model/pool.h"

namespace spillway::model {

class RandomConfig {
 public:
  // `key_file` holds the key; beside it is KEY_FILE.pem with a certificate. Empty: neither is used.
  RandomConfig(uint64_t seed, std::string key_file, Key key)
      : random_(seed), key_file_(std::move(key_file)), key_(key) {}

  Config Next() {
    Config config;
    next_unit_ = next_vip_ = next_code_ = 0;
    config.data_plane.interfaces = {"eth0"};
    if (Coin()) config.data_plane.interfaces.push_back("no");  // a word that YAML 1.1 takes for false
    config.data_plane.attach = static_cast<AttachMode>(Below(3));
    config.data_plane.flow_table_entries = uint64_t{1} << (10 + Below(19));
    if (Below(2)) config.data_plane.seed_file = "/nonexistent/spillway seed";
    bool reports = Coin();
    if (reports)
      config.data_plane.report = ReportAddress{.address = AddressOf(Coin() ? 4 : 6, 3, 7),
                                               .port = static_cast<uint16_t>(1 + Below(65535)),
                                               .silent_after_ms = 10 + Below(3600000 - 9)};
    int pools = Below(4);
    for (int p = 0; p < pools; p++) config.pools.push_back(NextPool(p));
    int services = pools == 0 ? 0 : Below(6);
    for (int s = 0; s < services; s++) config.services.push_back(NextService(s, config, reports));
    return config;
  }

 private:
  uint32_t Below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  bool Coin() { return Below(2) == 0; }

  static Address AddressOf(int family, uint8_t net, uint32_t host) {
    std::string low = std::to_string(host / 256 % 256) + "." + std::to_string(host % 256);
    return family == 4
               ? *Address::Parse("10." + std::to_string(net) + "." + low)
               : *Address::Parse("2001:db8:" + std::to_string(net) + "::" + std::to_string(host % 10000));
  }

  std::string Name(const std::string& prefix, int index) {
    static const char* const kWords[] = {"", "-a", ".b", "_c", "null"};
    static const char* const kStarts[] = {"", "0", "true", "1e3"};
    return kStarts[Below(4)] + prefix + std::to_string(index) + kWords[Below(5)];
  }

  Pool NextPool(int index) {
    Pool pool;
    pool.name = Coin() ? Name("p", index) : std::string(index == 0 ? "null" : index == 1 ? "true" : "7");
    if (Coin()) pool.ring_slots = Coin() ? 1009 : 16777213;
    int family = Coin() ? 4 : 6;
    int servers = 1 + Below(4);
    for (int s = 0; s < servers; s++) {
      Server server;
      server.name = Name("s", s);
      if (!key_file_.empty() && Coin()) {
        server.key_file = key_file_;
        server.key = key_;
      }
      if (Coin()) server.code = 4095 - next_code_++ * 3;
      int units = 1 + Below(SPW_UNITS_PER_SERVER);
      for (int u = 0; u < units; u++)
        server.units.push_back(
            {.name = Name("u", u),
             .kind = u == 0 ? SPW_KIND_CPU : static_cast<spw_unit_kind>(Below(SPW_KIND_OTHER + 1)),
             .address = AddressOf(family, 1, next_unit_++),
             .capacity = std::uniform_real_distribution<double>(0.01, 99)(random_),
             .drain = Below(8) == 0});
      pool.servers.push_back(std::move(server));
    }
    return pool;
  }

  Service NextService(int index, const Config& config, bool reports) {
    const Pool& pool = config.pools[Below(config.pools.size())];
    Service service;
    service.name = Name("v", index);
    service.vip = AddressOf(pool.servers[0].units[0].address.family, 2, next_vip_++);
    for (uint32_t p = 0; p <= Below(3); p++)  // ports of its own: nat services then never clash
      service.ports.push_back(
          {Coin() ? Protocol::kTcp : Protocol::kUdp, static_cast<uint16_t>(1 + index * 10 + p)});
    service.pool = pool.name;
    service.mode = static_cast<spw_mode>(Below(2));
    service.affinity = static_cast<spw_affinity>(Below(2));
    service.server_policy =
        static_cast<spw_server_policy>(Below(reports ? SPW_SERVER_POLICIES : SPW_SERVER_P2C));
    service.unit_policy = static_cast<spw_unit_policy>(
        reports ? Below(SPW_UNIT_POLICIES) : SPW_UNIT_WRR + Below(SPW_UNIT_LEAST_LOADED - SPW_UNIT_WRR));
    if (Coin()) service.idle_s = 1 + Below(14400);
    if (Coin()) service.health = NextHealth();
    return service;
  }

  std::string Bytes() {
    std::string bytes = Coin() ? "" : "hex:";  // a prefix that means something
    for (uint32_t i = 0; i <= Below(20); i++)
      bytes += static_cast<char>(Coin() ? 0x20 + Below(0x5f) : Below(256));
    return bytes;
  }

  HealthCheck NextHealth() {
    HealthCheck check;
    check.kind = static_cast<CheckKind>(Below(kCheckKinds));
    check.port = static_cast<uint16_t>(1 + Below(65535));
    check.interval_ms = 10 + Below(3'600'000 - 9);
    check.timeout_ms = 1 + Below(60'000);
    check.rise = 1 + Below(100);
    check.fall = 1 + Below(100);
    check.jitter = std::uniform_real_distribution<double>(0, 0.5)(random_);
    check.dampening_ms = Below(3'600'001);
    check.dampening_limit_ms = check.dampening_ms + Below(3'600'001);
    check.on_fail = static_cast<OnFail>(Below(2));
    const bool tls = check.kind == CheckKind::kTls || check.kind == CheckKind::kHttps;
    const bool http = check.kind == CheckKind::kHttp || check.kind == CheckKind::kHttps;
    if ((tls || http) && Coin()) check.host = Coin() ? "true" : "h0.example.org";
    if (tls && !key_file_.empty() && Coin()) check.ca_file = key_file_ + ".pem";
    if (http) {
      check.path = Coin() ? "/" : "/a?b=\"{c}\",[d]&e=#:";
      check.statuses.clear();
      for (uint32_t i = 0; i <= Below(3); i++) {
        const auto first = static_cast<uint16_t>(100 + Below(500));
        check.statuses.emplace_back(first, static_cast<uint16_t>(first + Below(600 - first)));
      }
      if (Coin()) check.body = Bytes();
    }
    if (check.kind == CheckKind::kDns) {
      check.query = Coin() ? "." : "no.example.org";
      check.type = DnsTypes()[Below(9)];
      check.rcode = DnsRcodes()[Below(6)];
    }
    if (check.kind == CheckKind::kUdp) {
      check.payload = Bytes();
      if (Coin()) check.expect = Bytes();
    }
    if (check.kind == CheckKind::kExec) {
      check.command = {"/bin/sh"};
      for (uint32_t i = Below(3); i > 0; i--) check.command.push_back(Coin() ? "" : "a \"b\" 'c', [d]: #{e}");
      check.exit_status = static_cast<int>(Below(256));
    }
    return check;
  }

  std::mt19937_64 random_;
  std::string key_file_;
  Key key_;
  uint32_t next_unit_ = 0, next_vip_ = 0, next_code_ = 0;
};

}  // namespace spillway::model
