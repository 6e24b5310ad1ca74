// SPDX-License-Identifier: Apache-2.0
// Servers of an app from a pool file.
#include "sim/scenario/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/yaml/scalars.h"
#include "model/parse.h"

namespace spillway::sim {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

// One line of what is wrong with another file.
std::string FirstLine(const std::string& message) {
  const size_t end = message.find('\n');
  if (end == message.npos) return message;
  const auto more = std::count(message.begin(), message.end(), '\n');
  return fmt::format("{} (and {} more)", message.substr(0, end), more);
}

std::optional<model::Config> LoadPoolFile(Problems& problems, const Field& field, const std::string& folder) {
  const auto text = yaml::ReadText(problems, field, "the path of a pool file");
  if (!text) return std::nullopt;
  auto config = model::LoadConfig((std::filesystem::path(folder) / *text).lexically_normal().string());
  if (config) return std::move(*config);
  problems.Add(field.line, field.path,
               fmt::format("expected a pool file, got {}", FirstLine(config.error().message)));
  return std::nullopt;
}

const model::Service* FindService(Problems& problems, const MapReader& map, const Field& pool,
                                  const model::Config& config) {
  const Field* field = map.Find("service");
  if (field == nullptr && config.services.size() == 1) return &config.services[0];
  if (field == nullptr) {
    problems.Add(pool.line, pool.path + ".service",
                 fmt::format("expected one of the file's {} services, got nothing", config.services.size()));
    return nullptr;
  }
  for (const model::Service& service : config.services)
    if (field->node.IsScalar() && service.name == field->node.Scalar()) return &service;
  problems.Add(field->line, field->path,
               fmt::format("expected a service of the pool file, got {}", yaml::Describe(field->node)));
  return nullptr;
}

// Speeds by kind, and by unit where one differs from its kind.
class Profiles {
 public:
  Profiles(Problems& problems, const Field& field) : problems_(problems), field_(field) {
    if (!field.node.IsMap()) {
      problems.Add(field.line, field.path,
                   fmt::format("expected a map of profiles by kind or by pool/server/unit, got {}",
                               yaml::Describe(field.node)));
      return;
    }
    sound_ = true;
    for (const auto& entry : field.node) Add(entry.first, entry.second);
  }

  // The unit as `name` and `kind` say, with its speed; nullptr: it was reported.
  const UnitProfile* Find(const std::string& unit, spw_unit_kind kind) {
    if (auto found = by_unit_.find(unit); found != by_unit_.end()) {
      unused_.erase(unit);
      return &found->second;
    }
    if (auto found = by_kind_.find(kind); found != by_kind_.end()) return &found->second;
    if (sound_ && missing_.insert(kind).second)
      problems_.Add(
          field_.line, field_.path,
          fmt::format("expected a profile for kind {}, which {} is, got none", model::ToString(kind), unit));
    return nullptr;
  }

  void TellUnused() {
    for (const auto& [unit, line] : unused_)
      problems_.Add(line, field_.path,
                    fmt::format("expected a kind, or a unit of the service's pool, got \"{}\"", unit));
  }

 private:
  void Add(const YAML::Node& key, const YAML::Node& value) {
    const int line = key.Mark().is_null() ? field_.line : key.Mark().line + 1;
    if (!key.IsScalar()) {
      problems_.Add(line, field_.path, "expected a kind or pool/server/unit, got " + yaml::Describe(key));
      return;
    }
    const std::string name = key.Scalar();
    if (!seen_.insert(name).second) {
      problems_.Add(line, field_.path + "." + name, "duplicate key");
      return;
    }
    const UnitProfile speed = ReadSpeed(problems_, Field{field_.path + "." + name, line, value});
    if (const auto kind = model::ParseUnitKind(name)) {
      by_kind_[*kind] = speed;
    } else {
      by_unit_[name] = speed;
      unused_[name] = line;
    }
  }

  Problems& problems_;
  const Field& field_;
  bool sound_ = false;
  std::set<std::string> seen_;
  std::set<spw_unit_kind> missing_;
  std::map<spw_unit_kind, UnitProfile> by_kind_;
  std::map<std::string, UnitProfile> by_unit_;
  std::map<std::string, int> unused_;  // of by_unit_, with their lines
};

}  // namespace

PoolServers ReadPoolServers(Problems& problems, const Field& pool_field, const Field& profiles_field,
                            const std::string& folder) {
  PoolServers read;
  MapReader map(problems, pool_field, {"file", "service"});
  Profiles profiles(problems, profiles_field);
  const Field* file = map.Need("file", "the path of a pool file");
  if (file == nullptr) return read;
  const auto config = LoadPoolFile(problems, *file, folder);
  if (!config) return read;
  const model::Service* service = FindService(problems, map, pool_field, *config);
  if (service == nullptr) return read;
  read.policies = {service->server_policy, service->unit_policy};
  const model::Pool& pool = *config->FindPool(service->pool);  // the parser has seen to it
  bool all_drain = true;
  for (const model::Server& server : pool.servers) {
    ServerGroup group;
    for (const model::Unit& unit : server.units) {
      const std::string name = fmt::format("{}/{}/{}", pool.name, server.name, unit.name);
      const UnitProfile* speed = profiles.Find(name, unit.kind);
      all_drain = all_drain && unit.drain;
      if (unit.drain || speed == nullptr) continue;
      UnitProfile profile = *speed;
      profile.name = unit.name;
      profile.kind = unit.kind;
      profile.capacity = unit.capacity;
      group.units.push_back(std::move(profile));
    }
    if (group.units.empty()) continue;
    read.server_names.push_back(server.name);
    if (!read.groups.empty() && read.groups.back().units == group.units)
      read.groups.back().count++;
    else
      read.groups.push_back(std::move(group));
  }
  profiles.TellUnused();
  if (all_drain) problems.Add(file->line, file->path, "expected a unit that is not drained, got none");
  return read;
}

}  // namespace spillway::sim
