// SPDX-License-Identifier: Apache-2.0
#include "fake_switch.h"

#include <algorithm>
#include <cstdlib>

#include "model/diff.h"
#include "model/parse.h"

namespace spillway::testing {

std::string PoolYaml() {
  return R"(switch:
  interfaces: [veth0]
  report: {address: 192.0.2.1, port: 9870}
  flow_table: {entries: 65536}
services:
  - {name: dns, vip: 203.0.113.53, ports: [udp/53, tcp/53], pool: rack1, mode: dsr-l2,
     affinity: none, server_policy: maglev, unit_policy: p4mite}
pools:
  rack1:
    servers:
      - name: s1
        units:
          - {name: cpu, kind: cpu, address: 10.0.1.1, capacity: 6}
          - {name: nic, kind: smartnic, address: 10.0.1.2, capacity: 1}
)";
}

model::Config PoolConfig() {
  auto config = model::ParseConfig(PoolYaml(), "pool.yaml");
  if (!config) {
    std::fprintf(stderr, "the tests' own pool file: %s\n", config.error().message.c_str());
    std::abort();
  }
  return *config;
}

Result<switching::ApplyReport> FakeSwitch::Check(const model::Config& config) const {
  calls++;
  if (refuse) return tl::make_unexpected(*refuse);
  return switching::ApplyReport{.changes = model::Diff(config_, config), .notes = {"a note"}};
}

Result<switching::ApplyReport> FakeSwitch::Apply(const model::Config& config) {
  calls++;
  if (refuse) return tl::make_unexpected(*refuse);
  switching::ApplyReport report{
      .changes = model::Diff(config_, config), .notes = {}, .slots_moved = 3, .slots_total = 101};
  config_ = config;
  return report;
}

Result<std::vector<std::string>> FakeSwitch::SetUnitStatus(const std::string& pool, const std::string& server,
                                                           const std::string& unit, spw_unit_status to) {
  calls++;
  if (refuse) return tl::make_unexpected(*refuse);
  status[pool + "/" + server + "/" + unit] = to;
  return notes;
}

Result<void> FakeSwitch::ForgetReports(const std::string& pool, const std::string& server,
                                       const std::string& unit) {
  calls++;
  forgotten.push_back(pool + "/" + server + "/" + unit);
  return {};
}

std::vector<switching::InterfaceView> FakeSwitch::Interfaces() const {
  calls++;
  std::vector<switching::InterfaceView> views;
  for (const std::string& name : config_.data_plane.interfaces)
    views.push_back({.name = name, .ifindex = 7, .native = false, .why_generic = "the driver has no XDP"});
  return views;
}

std::vector<switching::UnitView> FakeSwitch::Units() const {
  calls++;
  std::vector<switching::UnitView> views;
  for (const model::Pool& pool : config_.pools)
    for (const model::Server& server : pool.servers)
      for (const model::Unit& unit : server.units) {
        switching::UnitView view;
        view.pool = pool.name;
        view.server = server.name;
        view.unit = unit.name;
        view.id = static_cast<uint16_t>(views.size());
        view.kind = unit.kind;
        view.address = unit.address;
        view.capacity = unit.capacity;
        const auto said = status.find(pool.name + "/" + server.name + "/" + unit.name);
        view.status = said == status.end() ? SPW_UNIT_UP : said->second;
        view.resolved = true;
        view.ejected = std::any_of(failing.begin(), failing.end(), [&](const switching::FailingUnit& f) {
          return f.pool == pool.name && f.server == server.name && f.unit == unit.name;
        });
        if (touch_up) touch_up(view);
        views.push_back(view);
      }
  return views;
}

std::vector<switching::ServiceView> FakeSwitch::Services() const {
  calls++;
  std::vector<switching::ServiceView> views;
  for (const model::Service& service : config_.services)
    views.push_back({.service = service,
                     .ring_slots = 101,
                     .slots_moved = 2,
                     .packets = 11,
                     .bytes = 1100,
                     .new_flows = 5});
  return views;
}

switching::FlowTableView FakeSwitch::FlowTable() const {
  calls++;
  return {.capacity = 65536, .used = 1024, .sweep_age_s = 1.5};
}

spw_counters FakeSwitch::Counters() const {
  calls++;
  return counters;
}

Result<void> FakeSwitch::Remove() {
  calls++;
  removed = true;
  return {};
}

}  // namespace spillway::testing
