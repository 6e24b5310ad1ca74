// SPDX-License-Identifier: Apache-2.0
#include "diff.h"

#include <fmt/format.h>

#include <map>

#include "yaml.h"

namespace spillway::model {

namespace {

using Lines = std::vector<std::string>;

const std::string& NameOf(const std::string& name) { return name; }
template <class Thing>
const std::string& NameOf(const Thing& thing) {
  return thing.name;
}
std::string NameOf(const ServicePort& port) { return ToString(port); }

std::string Count(size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// A word for a value, "none" for an absent one.
std::string Show(const std::string& text) { return text.empty() ? "none" : text; }
std::string Show(bool value) { return value ? "true" : "false"; }
std::string Show(double value) { return fmt::format("{}", value); }
std::string Show(uint64_t value) { return fmt::format("{}", value); }
std::string Show(const Address& address) { return address.ToString(); }
std::string Show(const std::optional<uint32_t>& value) { return value ? fmt::format("{}", *value) : "none"; }

void Compare(Lines& lines, const std::string& where, const char* key, const auto& from, const auto& to) {
  if (from != to) lines.push_back(fmt::format("{}: {} {} -> {}", where, key, Show(from), Show(to)));
}

// Matches two lists by name. `describe(thing)` follows "added" and "removed"; `compare(from, to)` adds what
// differs between two of one name. The order of a list counts: units stand in order of priority.
template <class Thing>
void CompareLists(Lines& lines, const std::string& prefix, const char* noun, const std::vector<Thing>& from,
                  const std::vector<Thing>& to, auto describe, auto compare) {
  std::map<std::string, const Thing*> before, after;
  for (const Thing& thing : from) before.emplace(NameOf(thing), &thing);
  for (const Thing& thing : to) after.emplace(NameOf(thing), &thing);
  Lines kept_before, kept_after;
  for (const Thing& thing : from) {
    if (after.contains(NameOf(thing)))
      kept_before.push_back(NameOf(thing));
    else
      lines.push_back(fmt::format("{}{} {} removed{}", prefix, noun, NameOf(thing), describe(thing)));
  }
  for (const Thing& thing : to) {
    if (before.contains(NameOf(thing)))
      kept_after.push_back(NameOf(thing));
    else
      lines.push_back(fmt::format("{}{} {} added{}", prefix, noun, NameOf(thing), describe(thing)));
  }
  for (const Thing& thing : to)
    if (auto old = before.find(NameOf(thing)); old != before.end()) compare(*old->second, thing);
  if (kept_before != kept_after) {
    std::string order;
    for (const Thing& thing : to) order += (order.empty() ? "" : ", ") + std::string(NameOf(thing));
    lines.push_back(fmt::format("{}{}s reordered: {}", prefix, noun, order));
  }
}

std::string Show(const std::optional<ReportAddress>& report) {
  return report ? fmt::format("{} port {}", report->address.ToString(), report->port) : "none";
}

void CompareSwitch(Lines& lines, const SwitchConfig& from, const SwitchConfig& to) {
  auto nothing = [](const std::string&) { return std::string(); };
  auto same = [](const std::string&, const std::string&) {};
  CompareLists(lines, "switch: ", "interface", from.interfaces, to.interfaces, nothing, same);
  Compare(lines, "switch", "attach", ToString(from.attach), ToString(to.attach));
  Compare(lines, "switch", "report", Show(from.report), Show(to.report));
  if (from.report && to.report)
    Compare(lines, "switch", "report.silent_after", fmt::format("{}ms", from.report->silent_after_ms),
            fmt::format("{}ms", to.report->silent_after_ms));
  Compare(lines, "switch", "flow_table.entries", from.flow_table_entries, to.flow_table_entries);
  Compare(lines, "switch", "seed_file", from.seed_file, to.seed_file);
}

std::string Idle(uint32_t idle_s) { return idle_s == 0 ? "default" : fmt::format("{}s", idle_s); }

void CompareService(Lines& lines, const Service& from, const Service& to) {
  std::string where = "service " + to.name;
  Compare(lines, where, "vip", from.vip, to.vip);
  CompareLists(
      lines, where + ": ", "port", from.ports, to.ports, [](const ServicePort&) { return std::string(); },
      [](const ServicePort&, const ServicePort&) {});
  Compare(lines, where, "pool", from.pool, to.pool);
  Compare(lines, where, "mode", ToString(from.mode), ToString(to.mode));
  Compare(lines, where, "affinity", ToString(from.affinity), ToString(to.affinity));
  Compare(lines, where, "server_policy", ToString(from.server_policy), ToString(to.server_policy));
  Compare(lines, where, "unit_policy", ToString(from.unit_policy), ToString(to.unit_policy));
  Compare(lines, where, "idle", Idle(from.idle_s), Idle(to.idle_s));
  const auto health = [](const Service& service) {
    return service.health ? ToYaml(*service.health) : std::string();
  };
  Compare(lines, where, "health", health(from), health(to));
}

void CompareUnit(Lines& lines, const std::string& where, const Unit& from, const Unit& to) {
  Compare(lines, where, "kind", ToString(from.kind), ToString(to.kind));
  Compare(lines, where, "address", from.address, to.address);
  Compare(lines, where, "capacity", from.capacity, to.capacity);
  Compare(lines, where, "drain", from.drain, to.drain);
}

void CompareServer(Lines& lines, const std::string& pool, const Server& from, const Server& to) {
  std::string where = fmt::format("{}: server {}", pool, to.name);
  Compare(lines, where, "key_file", from.key_file, to.key_file);
  // Of another file the line above says it.
  if (from.key_file == to.key_file && from.key != to.key) lines.push_back(where + ": key changed");
  Compare(lines, where, "code", from.code, to.code);
  CompareLists(
      lines, where + ": ", "unit", from.units, to.units,
      [](const Unit& unit) {
        return fmt::format(" ({} at {}, capacity {})", ToString(unit.kind), unit.address.ToString(),
                           unit.capacity);
      },
      [&](const Unit& before, const Unit& after) {
        CompareUnit(lines, fmt::format("{}: unit {}", where, after.name), before, after);
      });
}

size_t UnitsOf(const Pool& pool) {
  size_t units = 0;
  for (const Server& server : pool.servers) units += server.units.size();
  return units;
}

void ComparePool(Lines& lines, const Pool& from, const Pool& to) {
  std::string where = "pool " + to.name;
  auto slots = [](uint32_t count) { return count == 0 ? std::string("chosen") : fmt::format("{}", count); };
  Compare(lines, where, "ring_slots", slots(from.ring_slots), slots(to.ring_slots));
  CompareLists(
      lines, where + ": ", "server", from.servers, to.servers,
      [](const Server& server) { return fmt::format(" ({})", Count(server.units.size(), "unit")); },
      [&](const Server& before, const Server& after) { CompareServer(lines, where, before, after); });
}

}  // namespace

std::vector<std::string> Diff(const Config& from, const Config& to) {
  Lines lines;
  CompareSwitch(lines, from.data_plane, to.data_plane);
  CompareLists(
      lines, "", "service", from.services, to.services,
      [](const Service& service) {
        return fmt::format(" ({}, {}, pool {})", service.vip.ToString(), Count(service.ports.size(), "port"),
                           service.pool);
      },
      [&](const Service& before, const Service& after) { CompareService(lines, before, after); });
  CompareLists(
      lines, "", "pool", from.pools, to.pools,
      [](const Pool& pool) {
        return fmt::format(" ({}, {})", Count(pool.servers.size(), "server"), Count(UnitsOf(pool), "unit"));
      },
      [&](const Pool& before, const Pool& after) { ComparePool(lines, before, after); });
  return lines;
}

}  // namespace spillway::model
