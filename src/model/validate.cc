// SPDX-License-Identifier: Apache-2.0
#include "validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/ring.h"

namespace spillway::model {

namespace {

using yaml::Excerpt;
using yaml::Problems;

// Beyond, the smaller unit's share cannot be kept by the 16-bit weights of the data plane.
constexpr double kMaxCapacityRatio = 10000;

class Checker {
 public:
  Checker(const Config& config, Problems& problems) : config_(config), problems_(problems) {}

  void Run() {
    for (const Pool& pool : config_.pools) CheckPool(pool);
    CheckReportAddress();
    for (const Service& service : config_.services)
      if (!problems_.flooded()) CheckService(service);
  }

 private:
  // " (a, b)"
  std::string PoolNames() const {
    std::string names;
    for (const Pool& pool : config_.pools) names += (names.empty() ? " (" : ", ") + pool.name;
    return names.empty() ? names : names + ")";
  }

  void CheckPool(const Pool& pool) {
    uint32_t units = 0;
    for (const Server& server : pool.servers) {
      CheckCode(pool, server);
      for (const Unit& unit : server.units) {
        units++;
        CheckUnitAddress(pool, server, unit);
      }
    }
    CheckCapacities(pool);
    std::string slots_path = PathOf(pool) + ".ring_slots";
    if (pool.ring_slots != 0 && pool.ring_slots < units && problems_.Sound(slots_path))
      problems_.Add(slots_path, fmt::format("expected a slot for each of the pool's {} units, got \"{}\"",
                                            units, pool.ring_slots));
    if (pool.ring_slots == 0 && SPW_RING_SLOTS < units && problems_.Sound(slots_path))
      problems_.Add(
          slots_path,
          fmt::format("expected a prime number of at least {}, a slot for each of the pool's units, "
                      "got the default of {}",
                      units, SPW_RING_SLOTS));
  }

  void CheckCode(const Pool& pool, const Server& server) {
    if (!server.code) return;
    std::string path = PathOf(pool, server);
    auto [other, fresh] = codes_.try_emplace(*server.code, path);
    if (!fresh)
      problems_.Add(path + ".code",
                    fmt::format("duplicate code {}, already that of {}", *server.code, other->second));
  }

  void CheckUnitAddress(const Pool& pool, const Server& server, const Unit& unit) {
    std::string path = PathOf(pool, server, unit);
    if (!problems_.Sound(path + ".address")) return;
    auto [other, fresh] = units_.try_emplace(unit.address, path);
    if (!fresh)
      problems_.Add(path + ".address", fmt::format("duplicate address {}, already that of {}",
                                                   unit.address.ToString(), other->second));
  }

  void CheckCapacities(const Pool& pool) {
    double least = 0, most = 0;
    std::string least_path;
    for (const Server& server : pool.servers) {
      for (const Unit& unit : server.units) {
        std::string path = PathOf(pool, server, unit) + ".capacity";
        if (!problems_.Sound(path)) continue;
        if (least == 0 || unit.capacity < least) {
          least = unit.capacity;
          least_path = path;
        }
        most = std::max(most, unit.capacity);
      }
    }
    if (most / kMaxCapacityRatio > least)
      problems_.Add(least_path,
                    fmt::format("expected at least 1/{} of the pool's greatest capacity {}, got \"{}\"",
                                kMaxCapacityRatio, most, least));
  }

  void CheckReportAddress() {
    if (!config_.data_plane.report || !problems_.Sound("switch.report.address")) return;
    const Address& address = config_.data_plane.report->address;
    auto unit = units_.find(address);
    if (unit != units_.end())
      problems_.Add("switch.report.address",
                    fmt::format("expected an address of the switch, got \"{}\", the address of {}",
                                address.ToString(), unit->second));
  }

  void CheckService(const Service& service) {
    std::string path = PathOf(service);
    bool vip_known = problems_.Sound(path + ".vip");
    if (vip_known) {
      auto unit = units_.find(service.vip);
      if (unit != units_.end())
        problems_.Add(path + ".vip",
                      fmt::format("expected an address that no unit has, got \"{}\", the address of {}",
                                  service.vip.ToString(), unit->second));
      for (const ServicePort& port : service.ports) CheckVipPort(service, port);
    }
    CheckReports(service);
    if (!problems_.Sound(path + ".pool")) return;
    const Pool* pool = config_.FindPool(service.pool);
    if (pool == nullptr) {
      problems_.Add(path + ".pool",
                    fmt::format("expected the name of a pool{}, got {}", PoolNames(), Excerpt(service.pool)));
      return;
    }
    if (vip_known) CheckFamilies(service, *pool);
    if (service.mode == SPW_MODE_NAT && problems_.Sound(path + ".mode"))
      for (const ServicePort& port : service.ports) CheckNatPort(service, port);
    if (service.unit_policy == SPW_UNIT_HOST_ONLY) CheckHosts(service, *pool);
  }

  void CheckVipPort(const Service& service, const ServicePort& port) {
    std::string path = fmt::format("{}.ports[{}]", PathOf(service), ToString(port));
    const auto& report = config_.data_plane.report;
    if (report && report->address == service.vip && port == ServicePort{Protocol::kUdp, report->port})
      problems_.Add(path,
                    fmt::format("expected a port beside the load reports', got \"{}\" at the report address",
                                ToString(port)));
    auto [other, fresh] = services_.try_emplace({service.vip, port}, &service);
    if (!fresh && other->second != &service)
      problems_.Add(path,
                    fmt::format("expected a port that no other service has, got \"{}\", which {} has at {}",
                                ToString(port), other->second->name, service.vip.ToString()));
  }

  // A unit's reply says address, port and protocol, and must name one VIP. Units belong to one pool
  // (their addresses are unique), so pools that meet are the same pool.
  void CheckNatPort(const Service& service, const ServicePort& port) {
    auto [other, fresh] = nat_ports_.try_emplace({service.pool, port}, &service);
    if (!fresh && other->second->vip != service.vip)
      problems_.Add(
          fmt::format("{}.ports[{}]", PathOf(service), ToString(port)),
          fmt::format("expected a port that no other nat service of pool {} has (replies could not be told "
                      "apart), got \"{}\", which {} has",
                      service.pool, ToString(port), other->second->name));
  }

  // Units by the family of their addresses, without those whose address was not understood.
  struct Families {
    size_t v4 = 0, v6 = 0;
    size_t Unlike(uint8_t family) const { return family == 4 ? v6 : v4; }
  };

  bool HasAddress(const Pool& pool, const Server& server, const Unit& unit) const {
    return problems_.none() || problems_.Sound(PathOf(pool, server, unit) + ".address");
  }

  // Counted once: a file may have a thousand services of a pool with tens of thousands of units.
  const Families& FamiliesOf(const Pool& pool) {
    const auto [known, fresh] = families_.try_emplace(pool.name);
    if (!fresh) return known->second;
    for (const Server& server : pool.servers)
      for (const Unit& unit : server.units)
        if (HasAddress(pool, server, unit))
          (unit.address.family == 4 ? known->second.v4 : known->second.v6)++;
    return known->second;
  }

  // The VIP is at fault where it differs from most units, else those that differ from it.
  void CheckFamilies(const Service& service, const Pool& pool) {
    const Families& families = FamiliesOf(pool);
    const size_t unlike = families.Unlike(service.vip.family);
    if (unlike == 0) return;
    const bool is_vip = 2 * unlike > families.v4 + families.v6;
    for (const Server& server : pool.servers)
      for (const Unit& unit : server.units) {
        if (unit.address.family == service.vip.family || !HasAddress(pool, server, unit)) continue;
        const std::string path = PathOf(pool, server, unit);
        if (is_vip) {
          problems_.Add(
              PathOf(service) + ".vip",
              fmt::format("expected an IPv{} address, as the units of pool {} have ({}), got \"{}\"",
                          unit.address.family, pool.name, path, service.vip.ToString()));
          return;
        }
        if (problems_.flooded()) return;
        problems_.Add(path + ".address",
                      fmt::format("expected an IPv{} address, as the VIP of service {} is, got \"{}\"",
                                  service.vip.family, service.name, unit.address.ToString()));
      }
  }

  void CheckReports(const Service& service) {
    if (config_.data_plane.report || !problems_.Sound("switch.report") || !problems_.Sound("switch")) return;
    std::string path = PathOf(service);
    bool by_unit = spw_unit_policy_reads_reports(service.unit_policy);
    if (by_unit && problems_.Sound(path + ".unit_policy"))
      problems_.Add(
          path + ".unit_policy",
          fmt::format("expected switch.report to be set, as {} reads load reports, got nothing (without "
                      "reports: wrr, ecmp, host-only)",
                      ToString(service.unit_policy)));
    if (service.server_policy == SPW_SERVER_P2C && problems_.Sound(path + ".server_policy"))
      problems_.Add(
          path + ".server_policy",
          "expected switch.report to be set, as p2c reads load reports, got nothing (without reports: "
          "maglev, ecmp, wcmp)");
  }

  void CheckHosts(const Service& service, const Pool& pool) {
    for (const Server& server : pool.servers) {
      // Units that could not be read may have been it.
      if (server.units.empty() || !problems_.Sound(PathOf(pool, server) + ".units")) continue;
      bool has_host = std::any_of(server.units.begin(), server.units.end(), [&](const Unit& unit) {
        return unit.kind == SPW_KIND_CPU || !problems_.Sound(PathOf(pool, server, unit) + ".kind");
      });
      if (has_host) continue;
      problems_.Add(PathOf(service) + ".unit_policy",
                    fmt::format("expected a unit of kind cpu in every server, got {} without one",
                                PathOf(pool, server)));
      return;
    }
  }

  const Config& config_;
  Problems& problems_;
  std::map<Address, std::string> units_;
  std::map<uint32_t, std::string> codes_;
  std::map<std::pair<Address, ServicePort>, const Service*> services_;
  std::map<std::pair<std::string, ServicePort>, const Service*> nat_ports_;
  std::map<std::string, Families> families_;  // by pool
};

}  // namespace

void CheckWhole(const Config& config, Problems& problems) { Checker(config, problems).Run(); }

Result<void> CheckEdited(const Config& config) {
  Problems problems("");
  CheckWhole(config, problems);
  if (problems.none()) return {};
  return tl::make_unexpected(problems.ToError());
}

std::string PathOf(const Service& service) { return fmt::format("services[{}]", service.name); }
std::string PathOf(const Pool& pool) { return "pools." + pool.name; }
std::string PathOf(const Pool& pool, const Server& server) {
  return fmt::format("{}.servers[{}]", PathOf(pool), server.name);
}
std::string PathOf(const Pool& pool, const Server& server, const Unit& unit) {
  return fmt::format("{}.units[{}]", PathOf(pool, server), unit.name);
}

}  // namespace spillway::model
