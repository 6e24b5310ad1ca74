// SPDX-License-Identifier: Apache-2.0
#include "sim/unit_reader.h"

#include <fmt/format.h>

#include <set>

#include "model/pool.h"
#include "model/scalars.h"
#include "sim/scenario_scalars.h"

namespace spillway::sim {
namespace {

using model::Field;
using model::MapReader;
using model::Problems;

constexpr Duration kLongest = std::chrono::hours(1);

void ReadSpeedKeys(Problems& problems, const MapReader& map, UnitProfile& unit) {
  if (const Field* f = map.Find("workers"))
    if (auto n = model::ReadInteger(problems, *f, 1, 65535)) unit.workers = static_cast<uint32_t>(*n);
  const Field* service = map.Need("service", "the mean service time, such as 436us");
  Take(unit.service, service,
       [&](const Field& f) { return model::ReadTime(problems, f, Duration(100), kLongest); });
  if (const Field* f = map.Find("unloaded"))
    if (auto whole = model::ReadTime(problems, *f, Duration(100), kLongest)) {
      if (*whole < unit.service)
        problems.Add(f->line, f->path,
                     fmt::format("expected the service time or more, got {}", model::Describe(f->node)));
      unit.fixed = *whole - unit.service;
    }
  if (const Field* f = map.Find("queue_limit"))
    if (auto n = model::ReadInteger(problems, *f, 1, UINT32_MAX))
      unit.queue_limit = static_cast<uint32_t>(*n);
}

UnitProfile ReadUnit(Problems& problems, const Field& field, std::set<std::string>& names) {
  MapReader map(problems, field,
                {"name", "kind", "capacity", "workers", "service", "unloaded", "queue_limit"});
  UnitProfile unit;
  if (const Field* f = map.Need("name", "a name"))
    if (auto name = model::ReadName(problems, *f)) {
      unit.name = *name;
      CheckOwnName(problems, *f, unit.name, names);
    }
  if (const Field* f = map.Need("kind", "cpu, smartnic, gpu, fpga, ssd or other"))
    Take(unit.kind, f, [&](const Field& g) {
      return model::ReadWord<spw_unit_kind>(problems, g, model::ParseUnitKind, SPW_KIND_OTHER + 1);
    });
  ReadSpeedKeys(problems, map, unit);
  if (unit.service.count() > 0) unit.capacity = RateOf(unit);
  Take(unit.capacity, map.Find("capacity"), [&](const Field& f) { return model::ReadCapacity(problems, f); });
  return unit;
}

}  // namespace

double RateOf(const UnitProfile& unit) {
  return unit.workers / std::chrono::duration<double>(unit.service).count();
}

UnitProfile ReadSpeed(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"workers", "service", "unloaded", "queue_limit"});
  UnitProfile unit;
  ReadSpeedKeys(problems, map, unit);
  return unit;
}

std::vector<UnitProfile> ReadUnits(Problems& problems, const Field& field) {
  std::vector<UnitProfile> units;
  std::set<std::string> names;
  const auto entries = model::ReadList(problems, field, "a list of units");
  if (field.node.IsSequence() && (entries.empty() || entries.size() > SPW_UNITS_PER_SERVER))
    problems.Add(field.line, field.path,
                 fmt::format("expected 1 to {} units, got {}", SPW_UNITS_PER_SERVER, entries.size()));
  else
    for (const Field& entry : entries) units.push_back(ReadUnit(problems, entry, names));
  return units;
}

}  // namespace spillway::sim
