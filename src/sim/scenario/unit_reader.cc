// SPDX-License-Identifier: Apache-2.0
// Units of a scenario file, read.
#include "sim/scenario/readers.h"

#include <fmt/format.h>

#include <set>

#include "model/pool.h"
#include "model/scalars.h"

namespace spillway::sim {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

// Reads a map of times and numbers, all of which it must have but the optional ones.
class Parts {
 public:
  Parts(Problems& problems, const Field& field, std::initializer_list<std::string_view> keys)
      : problems_(problems), map_(problems, field, keys) {}
  void Time(const char* key, Duration least, Duration& into) {
    Take(into, map_.Need(key, "a time, such as 10ms"),
         [&](const Field& f) { return yaml::ReadTime(problems_, f, least, kMaxTime); });
  }
  void Number(const char* key, double least, double most, double& into) {
    Take(into, map_.Need(key, "a number"),
         [&](const Field& f) { return yaml::ReadNumber(problems_, f, least, most); });
  }
  // Tells of a time that is not less than another.
  void Less(const char* key, Duration value, const char* other, Duration limit) {
    const Field* field = map_.Find(key);
    if (field != nullptr && map_.Find(other) != nullptr && problems_.Sound(field->path) && value >= limit)
      problems_.Add(field->line, field->path,
                    fmt::format("expected less than {}, got {}", other, yaml::Describe(field->node)));
  }
  const MapReader& map() const { return map_; }

 private:
  Problems& problems_;
  MapReader map_;
};

void ReadQuota(Problems& problems, const Field& field, CpuQuota& quota) {
  Parts parts(problems, field, {"quota", "period", "tick"});
  parts.Time("quota", Duration(1000), quota.quota);
  parts.Time("period", Duration(1000), quota.period);
  Take(quota.tick, parts.map().Find("tick"),
       [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(0), std::chrono::seconds(1)); });
}

void ReadInterference(Problems& problems, const MapReader& map, Interference& into) {
  if (const Field* f = map.Find("stall")) {
    Parts parts(problems, *f, {"every", "for"});
    parts.Time("every", Duration(1000), into.stall.every);
    parts.Time("for", Duration(1), into.stall.length);
    parts.Less("for", into.stall.length, "every", into.stall.every);
  }
  if (const Field* f = map.Find("pause")) {
    Parts parts(problems, *f, {"share", "for"});
    parts.Number("share", 0, 1, into.pause.share);
    parts.Time("for", Duration(1), into.pause.length);
  }
  if (const Field* f = map.Find("neighbour")) {
    Parts parts(problems, *f, {"every", "for", "slowdown"});
    parts.Time("every", Duration(1000), into.neighbour.every);
    parts.Time("for", Duration(1000), into.neighbour.length);
    parts.Number("slowdown", 1, 1000, into.neighbour.slowdown);
  }
  if (const Field* f = map.Find("drift")) {
    Parts parts(problems, *f, {"period", "amplitude"});
    parts.Time("period", Duration(1'000'000), into.drift.period);
    parts.Number("amplitude", 0, 0.95, into.drift.amplitude);
  }
  if (const Field* f = map.Find("cold")) {
    Parts parts(problems, *f, {"for", "slowdown"});
    parts.Time("for", Duration(1000), into.cold.length);
    parts.Number("slowdown", 1, 1000, into.cold.slowdown);
  }
  if (const Field* f = map.Find("fails_fast")) {
    Parts parts(problems, *f, {"from", "until", "after"});
    parts.Time("from", Duration(0), into.fails_fast.from);
    parts.Time("until", Duration(0), into.fails_fast.until);
    parts.Time("after", Duration(0), into.fails_fast.after);
    parts.Less("from", into.fails_fast.from, "until", into.fails_fast.until);
  }
}

void ReadSpeedKeys(Problems& problems, const MapReader& map, UnitProfile& unit) {
  if (const Field* f = map.Find("workers"))
    if (auto n = yaml::ReadInteger(problems, *f, 1, 65535)) unit.workers = static_cast<uint32_t>(*n);
  const Field* service = map.Need("service", "the mean service time, such as 436us");
  Take(unit.service, service,
       [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(100), kMaxTime); });
  if (const Field* f = map.Find("unloaded"))
    if (auto whole = yaml::ReadTime(problems, *f, Duration(100), kMaxTime)) {
      if (*whole < unit.service)
        problems.Add(f->line, f->path,
                     fmt::format("expected the service time or more, got {}", yaml::Describe(f->node)));
      unit.fixed = *whole - unit.service;
    }
  if (const Field* f = map.Find("queue_limit"))
    if (auto n = yaml::ReadInteger(problems, *f, 1, UINT32_MAX)) unit.queue_limit = static_cast<uint32_t>(*n);
  Take(unit.workers_known, map.Find("workers_known"),
       [&](const Field& f) { return yaml::ReadBool(problems, f); });
  Take(unit.quota_known, map.Find("quota_known"),
       [&](const Field& f) { return yaml::ReadBool(problems, f); });
  if (const Field* f = map.Find("cpu_quota")) ReadQuota(problems, *f, unit.cpu_quota);
  ReadInterference(problems, map, unit.interference);
}

UnitProfile ReadUnit(Problems& problems, const Field& field, std::set<std::string>& names) {
  MapReader map(problems, field,
                {"name", "kind", "capacity", "workers", "workers_known", "service", "unloaded", "queue_limit",
                 "cpu_quota", "quota_known", "stall", "pause", "neighbour", "drift", "cold", "fails_fast"});
  UnitProfile unit;
  if (const Field* f = map.Need("name", "a name"))
    if (auto name = yaml::ReadName(problems, *f)) {
      unit.name = *name;
      CheckOwnName(problems, *f, unit.name, names);
    }
  if (const Field* f = map.Need("kind", "cpu, smartnic, gpu, fpga, ssd or other"))
    Take(unit.kind, f, [&](const Field& g) {
      return model::ReadWord<spw_unit_kind>(problems, g, model::ParseUnitKind, SPW_KIND_OTHER + 1);
    });
  ReadSpeedKeys(problems, map, unit);
  if (unit.service.count() > 0) unit.capacity = unit.sustained_rps();
  Take(unit.capacity, map.Find("capacity"), [&](const Field& f) { return yaml::ReadPositive(problems, f); });
  return unit;
}

}  // namespace

UnitProfile ReadSpeed(Problems& problems, const Field& field) {
  MapReader map(problems, field,
                {"workers", "workers_known", "service", "unloaded", "queue_limit", "cpu_quota", "quota_known",
                 "stall", "pause", "neighbour", "drift", "cold", "fails_fast"});
  UnitProfile unit;
  ReadSpeedKeys(problems, map, unit);
  return unit;
}

std::vector<UnitProfile> ReadUnits(Problems& problems, const Field& field) {
  std::vector<UnitProfile> units;
  std::set<std::string> names;
  const auto entries = yaml::ReadList(problems, field, "a list of units");
  if (field.node.IsSequence() && (entries.empty() || entries.size() > SPW_UNITS_PER_SERVER))
    problems.Add(field.line, field.path,
                 fmt::format("expected 1 to {} units, got {}", SPW_UNITS_PER_SERVER, entries.size()));
  else
    for (const Field& entry : entries) units.push_back(ReadUnit(problems, entry, names));
  return units;
}

}  // namespace spillway::sim
