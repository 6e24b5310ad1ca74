// SPDX-License-Identifier: Apache-2.0
// Pools of servers of a host and a SmartNIC, and services, to make plans of.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"
#include "model/pool.h"

namespace spillway::switching {

inline constexpr uint32_t kCapacity = 1 << 20;

inline model::Server MakeServer(const std::string& name, int number,
                                std::vector<std::string> units = {"cpu", "nic"}) {
  model::Server server;
  server.name = name;
  for (size_t u = 0; u < units.size(); u++) {
    model::Unit unit;
    unit.name = units[u];
    unit.kind = units[u] == "nic" ? SPW_KIND_SMARTNIC : SPW_KIND_CPU;
    unit.capacity = units[u] == "nic" ? 1 : 6;
    unit.address = *model::Address::Parse(fmt::format("10.{}.{}.{}", number / 250, number % 250, u + 1));
    server.units.push_back(unit);
  }
  return server;
}

inline model::Service MakeService(const std::string& name, int number, const std::string& pool = "p") {
  model::Service service;
  service.name = name;
  service.vip = *model::Address::Parse(fmt::format("203.0.113.{}", number));
  service.ports = {{model::Protocol::kTcp, 80}};
  service.pool = pool;
  return service;
}

inline model::Config MakeConfig(int servers, int services = 1) {
  model::Config config;
  config.pools.push_back({"p", {}, 0});
  for (int i = 0; i < servers; i++) config.pools[0].servers.push_back(MakeServer(fmt::format("s{}", i), i));
  for (int i = 0; i < services; i++) config.services.push_back(MakeService(fmt::format("v{}", i), i + 1));
  return config;
}

}  // namespace spillway::switching
