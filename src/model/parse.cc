// SPDX-License-Identifier: Apache-2.0
// Reads the pool file key by key; what needs more than one key is in validate.cc.
#include "parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include "base/yaml/documents.h"
#include "base/yaml/reader.h"
#include "health_reader.h"
#include "scalars.h"
#include "secret_files.h"
#include "validate.h"

namespace spillway::model {

namespace {

using yaml::Describe;
using yaml::Excerpt;
using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxInterfaces = 64;
constexpr uint64_t kMinFlowEntries = 1 << 10, kMaxFlowEntries = 1 << 28;
constexpr uint64_t kMinRingSlots = 1009, kMaxRingSlots = 16777213;  // primes; the greater is 2^24 - 3

bool IsPrime(uint64_t n) {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return false;
  for (uint64_t d = 3; d * d <= n; d += 2)
    if (n % d == 0) return false;
  return true;
}

class Parser {
 public:
  Parser(Problems& problems, std::string file_name) : problems_(problems), file_name_(std::move(file_name)) {}

  // One file may hold several documents: their services and pools add up.
  Config Read(const std::vector<YAML::Node>& documents) {
    for (const YAML::Node& document : documents)
      if (!document.IsNull()) ReadDefaultHealth(document);
    for (const YAML::Node& document : documents)
      if (!document.IsNull()) ReadDocument(document);
    if (!has_switch_) problems_.Add("switch", "expected a map with the switch's interfaces, got nothing");
    if (!has_services_) problems_.Add("services", "expected a list of services (none: []), got nothing");
    return std::move(config_);
  }

 private:
  // Services take from it whichever document they stand in, so it is read before them. What is wrong with the
  // document as a whole is reported by ReadDocument.
  void ReadDefaultHealth(const YAML::Node& document) {
    if (!document.IsMap()) return;
    for (const auto& entry : document) {
      if (!entry.first.IsScalar() || entry.first.Scalar() != "health") continue;
      const int line = entry.first.Mark().is_null() ? 1 : entry.first.Mark().line + 1;
      if (std::exchange(has_health_, true))
        problems_.Add(line, "health", "already in another document of the file");
      else
        health_ = ReadHealthForAll(problems_, {"health", line, entry.second}, Folder());
    }
  }

  std::filesystem::path Folder() const { return std::filesystem::path(file_name_).parent_path(); }

  // Of another program's file one line says more than one for each of its keys.
  bool IsOfAnotherProgram(const YAML::Node& document) {
    constexpr std::pair<const char*, const char*> kOthers[] = {
        {"switches", "an agent's file: spillway-agent -c FILE --check"},
        {"executors", "a gateway's file: spillway-gateway -c FILE --check"},
        {"gpus", "an executor's or a node agent's file: spillway-executor or spillway-node -c FILE --check"},
        {"sim", "a simulator's file: spillway sim FILE"},
        {"testbed", "a lab's file: spillway lab run FILE"},
        {"extender", "spillway-kubernetes' file: spillway-kubernetes -c FILE --check"}};
    if (!document.IsMap()) return false;
    for (const auto& entry : document)
      for (const auto& [key, what] : kOthers)
        if (entry.first.IsScalar() && entry.first.Scalar() == key) {
          problems_.Add(entry.first.Mark().line + 1, key, fmt::format("expected a pool file, got {}", what));
          return true;
        }
    return false;
  }

  void ReadDocument(const YAML::Node& document) {
    int line = document.Mark().is_null() ? 1 : document.Mark().line + 1;
    if (IsOfAnotherProgram(document)) {
      has_switch_ = has_services_ = true;  // what else lacks need not be said
      return;
    }
    MapReader map(problems_, {"", line, document}, {"switch", "health", "services", "pools"});
    if (const Field* field = map.Find("switch")) {
      if (has_switch_)
        problems_.Add(field->line, "switch", "already in another document of the file");
      else
        ReadSwitch(*field);
      has_switch_ = true;
    }
    if (const Field* field = map.Find("services")) {
      has_services_ = true;
      for (const Field& entry : ReadList(problems_, *field, "a list of services")) {
        if (problems_.flooded() || ports_ > SPW_MAX_SERVICES) break;
        ReadService(entry);
      }
    }
    if (const Field* field = map.Find("pools")) ReadPools(*field);
  }

  void ReadSwitch(const Field& field) {
    SwitchConfig& out = config_.data_plane;
    MapReader map(problems_, field, {"interfaces", "attach", "report", "flow_table", "seed_file"});
    if (const Field* interfaces = map.Need("interfaces", "a list of interfaces")) ReadInterfaces(*interfaces);
    if (const Field* attach = map.Find("attach"))
      out.attach = ReadWord(problems_, *attach, ParseAttachMode, 3).value_or(out.attach);
    if (const Field* report = map.Find("report")) {
      MapReader report_map(problems_, *report, {"address", "port", "silent_after"});
      ReportAddress read;
      if (const Field* address = report_map.Need("address", "the address that agents send load reports to"))
        read.address = ReadAddress(problems_, *address).value_or(Address{});
      if (const Field* port = report_map.Find("port"))
        read.port = static_cast<uint16_t>(ReadInteger(problems_, *port, 1, 65535).value_or(read.port));
      if (const Field* silent = report_map.Find("silent_after"))
        if (auto duration = ReadDuration(problems_, *silent, milliseconds(10), hours(1)))
          read.silent_after_ms = static_cast<uint32_t>(duration->count());
      out.report = read;
    }
    if (const Field* flow_table = map.Find("flow_table")) {
      MapReader table_map(problems_, *flow_table, {"entries"});
      if (const Field* entries = table_map.Find("entries"))
        if (auto count = ReadInteger(problems_, *entries, kMinFlowEntries, kMaxFlowEntries)) {
          if ((*count & (*count - 1)) != 0)
            problems_.Add(entries->line, entries->path,
                          fmt::format("expected a power of two, got \"{}\"", *count));
          out.flow_table_entries = *count;
        }
    }
    Take(out.seed_file, map.Find("seed_file"),
         [&](const Field& f) { return ReadPath(problems_, f, "the path of a seed file", Folder()); });
    if (out.seed_file.empty()) return;
    if (const auto seed = ReadSeedFile(out.seed_file); !seed)
      problems_.Add(map.Find("seed_file")->line, "switch.seed_file",
                    "expected a file of 96 hex digits, or none, to be made; got " + seed.error().message);
  }

  void ReadInterfaces(const Field& field) {
    auto& interfaces = config_.data_plane.interfaces;
    auto entries = ReadList(problems_, field, "a list of interfaces");
    if (field.node.IsSequence() && (entries.empty() || entries.size() > kMaxInterfaces))
      problems_.Add(field.line, field.path,
                    fmt::format("expected 1 to {} interfaces, got {}", kMaxInterfaces, entries.size()));
    for (const Field& entry : entries) {
      auto name = ReadText(problems_, entry, "the name of an interface");
      if (!name) continue;
      if (!IsInterfaceName(*name))
        problems_.Add(entry.line, entry.path, "expected the name of an interface, got " + Excerpt(*name));
      else if (std::find(interfaces.begin(), interfaces.end(), *name) != interfaces.end())
        problems_.Add(entry.line, entry.path, fmt::format("duplicate interface \"{}\"", *name));
      else
        interfaces.push_back(*name);
    }
  }

  // The name in `map`, unless it is bad or already one of `taken`: nothing can then be said of the entry.
  std::optional<std::string> ReadOwnName(const MapReader& map, std::set<std::string>& taken) {
    const Field* field = map.Need("name", "a name");
    if (field == nullptr) return std::nullopt;
    auto name = ReadName(problems_, *field);
    if (!name) return std::nullopt;
    if (!taken.insert(*name).second) {
      problems_.Add(field->line, field->path, fmt::format("duplicate name \"{}\"", *name));
      return std::nullopt;
    }
    return name;
  }

  void ReadService(const Field& field) {
    MapReader map(problems_, field,
                  {"name", "vip", "ports", "pool", "mode", "affinity", "server_policy", "unit_policy", "idle",
                   "health"});
    auto name = ReadOwnName(map, service_names_);
    Service service;
    if (const Field* vip = map.Need("vip", "the service's address"))
      service.vip = ReadAddress(problems_, *vip).value_or(Address{});
    if (const Field* ports = map.Need("ports", "a list of ports such as [udp/53]"))
      ReadPorts(*ports, service);
    if (const Field* pool = map.Need("pool", "the name of a pool"))
      service.pool = ReadName(problems_, *pool).value_or("");
    if (const Field* mode = map.Find("mode"))
      service.mode = ReadWord(problems_, *mode, ParseMode, 2).value_or(service.mode);
    if (const Field* affinity = map.Find("affinity"))
      service.affinity = ReadWord(problems_, *affinity, ParseAffinity, 2).value_or(service.affinity);
    if (const Field* policy = map.Find("server_policy"))
      service.server_policy = ReadWord(problems_, *policy, ParseServerPolicy, SPW_SERVER_POLICIES)
                                  .value_or(service.server_policy);
    if (const Field* policy = map.Find("unit_policy"))
      service.unit_policy =
          ReadWord(problems_, *policy, ParseUnitPolicy, SPW_UNIT_POLICIES).value_or(service.unit_policy);
    if (const Field* idle = map.Find("idle")) ReadIdle(*idle, service);
    const Field* health = map.Find("health");
    service.health = CheckOf(problems_, field.path + ".health",
                             health == nullptr ? health_ : ReadHealth(problems_, *health, health_, Folder()),
                             service.ports);
    if (!name) return;
    service.name = *name;
    config_.services.push_back(std::move(service));
  }

  void ReadIdle(const Field& field, Service& service) {
    auto idle = ReadDuration(problems_, field, seconds(1), seconds(kMaxIdleSeconds));
    if (!idle) return;
    if (idle->count() % 1000 != 0)
      problems_.Add(field.line, field.path, "expected whole seconds, got " + Describe(field.node));
    service.idle_s = static_cast<uint32_t>(idle->count() / 1000);
  }

  void ReadPorts(const Field& field, Service& service) {
    auto entries = ReadList(problems_, field, "a list of ports such as [udp/53]");
    if (field.node.IsSequence() && entries.empty())
      problems_.Add(field.line, field.path, "expected at least one port, got an empty list");
    for (const Field& entry : entries) {
      if (problems_.flooded()) return;
      auto port = ReadServicePort(problems_, entry);
      if (!port) continue;
      if (std::find(service.ports.begin(), service.ports.end(), *port) != service.ports.end()) {
        problems_.Add(entry.line, entry.path, fmt::format("duplicate port \"{}\"", ToString(*port)));
        continue;
      }
      if (++ports_ == SPW_MAX_SERVICES + 1)
        problems_.Add(
            entry.line, entry.path,
            fmt::format("expected at most {} ports of services in all, got more", SPW_MAX_SERVICES));
      if (ports_ > SPW_MAX_SERVICES) return;
      problems_.Note(fmt::format("{}[{}]", field.path, ToString(*port)), entry.line);
      service.ports.push_back(*port);
    }
  }

  void ReadPools(const Field& field) {
    if (!field.node.IsMap()) {
      problems_.Add(field.line, field.path, "expected a map of pools, got " + Describe(field.node));
      return;
    }
    for (const auto& entry : field.node) {
      if (problems_.flooded() || servers_ > SPW_MAX_SERVERS) return;
      int line = entry.first.Mark().is_null() ? field.line : entry.first.Mark().line + 1;
      if (!entry.first.IsScalar() || !yaml::IsName(entry.first.Scalar())) {
        problems_.Add(line, field.path,
                      "expected a pool's name of 1 to 64 letters, digits, '.', '_' or '-', the first a "
                      "letter or digit, got " +
                          Describe(entry.first));
        continue;
      }
      std::string name = entry.first.Scalar();
      Field pool_field{"pools." + name, line, entry.second};
      Pool pool = ReadPool(pool_field);
      pool.name = name;
      if (pool_names_.insert(name).second)
        config_.pools.push_back(std::move(pool));
      else
        problems_.Add(line, pool_field.path, fmt::format("duplicate name \"{}\"", name));
    }
  }

  Pool ReadPool(const Field& field) {
    MapReader map(problems_, field, {"servers", "ring_slots"});
    Pool pool;
    if (const Field* slots = map.Find("ring_slots")) {
      auto count = ReadInteger(problems_, *slots, kMinRingSlots, kMaxRingSlots);
      if (count && !IsPrime(*count))
        problems_.Add(slots->line, slots->path, fmt::format("expected a prime number, got \"{}\"", *count));
      pool.ring_slots = static_cast<uint32_t>(count.value_or(0));
    }
    const Field* servers = map.Need("servers", "a list of servers");
    if (servers == nullptr) return pool;
    auto entries = ReadList(problems_, *servers, "a list of servers");
    if (servers->node.IsSequence() && entries.empty())
      problems_.Add(servers->line, servers->path, "expected at least one server, got an empty list");
    std::set<std::string> names;
    for (const Field& entry : entries) {
      if (++servers_ == SPW_MAX_SERVERS + 1)
        problems_.Add(entry.line, entry.path,
                      fmt::format("expected at most {} servers in all, got more", SPW_MAX_SERVERS));
      if (servers_ > SPW_MAX_SERVERS || problems_.flooded()) break;
      ReadServer(entry, names, pool);
    }
    return pool;
  }

  void ReadServer(const Field& field, std::set<std::string>& names, Pool& pool) {
    MapReader map(problems_, field, {"name", "key_file", "code", "units"});
    auto name = ReadOwnName(map, names);
    Server server;
    if (const Field* key_file = map.Find("key_file")) ReadServerKey(*key_file, server);
    if (const Field* code = map.Find("code")) {
      auto number = ReadInteger(problems_, *code, 0, SPW_MAX_SERVERS - 1);
      if (number) server.code = static_cast<uint32_t>(*number);
    }
    if (const Field* units = map.Need("units", "a list of units")) {
      auto entries = ReadList(problems_, *units, "a list of units");
      if (units->node.IsSequence() && (entries.empty() || entries.size() > SPW_UNITS_PER_SERVER))
        problems_.Add(units->line, units->path,
                      fmt::format("expected 1 to {} units, got {}", SPW_UNITS_PER_SERVER, entries.size()));
      if (entries.size() > SPW_UNITS_PER_SERVER) entries.resize(SPW_UNITS_PER_SERVER);
      std::set<std::string> unit_names;
      for (const Field& entry : entries) ReadUnit(entry, unit_names, server);
    }
    if (!name) return;
    server.name = *name;
    pool.servers.push_back(std::move(server));
  }

  void ReadServerKey(const Field& field, Server& server) {
    const auto path = ReadPath(problems_, field, "the path of a key file", Folder());
    if (!path) return;
    server.key_file = *path;
    auto key = ReadKeyFile(server.key_file);
    if (key)
      server.key = *key;
    else
      problems_.Add(field.line, field.path,
                    "expected a file of 32 hex digits, made by `openssl rand -hex 16 > FILE`, got " +
                        key.error().message);
  }

  void ReadUnit(const Field& field, std::set<std::string>& names, Server& server) {
    MapReader map(problems_, field, {"name", "kind", "address", "capacity", "drain"});
    auto name = ReadOwnName(map, names);
    Unit unit;
    if (const Field* kind = map.Need("kind", "cpu, smartnic, gpu, fpga, ssd or other"))
      unit.kind = ReadWord(problems_, *kind, ParseUnitKind, SPW_KIND_OTHER + 1).value_or(unit.kind);
    if (const Field* address = map.Need("address", "the unit's address"))
      unit.address = ReadAddress(problems_, *address).value_or(Address{});
    if (const Field* capacity = map.Find("capacity"))
      unit.capacity = ReadPositive(problems_, *capacity).value_or(unit.capacity);
    if (const Field* drain = map.Find("drain")) unit.drain = ReadBool(problems_, *drain).value_or(false);
    if (!name) return;
    unit.name = *name;
    server.units.push_back(std::move(unit));
  }

  Problems& problems_;
  std::string file_name_;
  Config config_;
  bool has_switch_ = false, has_services_ = false, has_health_ = false;
  HealthBlock health_;  // for all services
  std::set<std::string> service_names_, pool_names_;
  size_t servers_ = 0, ports_ = 0;  // in all
};

}  // namespace

Error PoolFile::At(const Error& error) const {
  const size_t colon = error.message.find(": ");
  if (error.code != ErrorCode::kBadInput || colon == error.message.npos) return error;
  Problems problems = keys;
  problems.Add(error.message.substr(0, colon), error.message.substr(colon + 2));
  return problems.ToError();
}

Result<PoolFile> ParsePoolFile(std::string_view yaml, const std::string& file_name) {
  PoolFile file{{}, Problems(file_name)};
  ReadDocuments(file.keys, std::string(yaml), [&](const std::vector<YAML::Node>& documents) {
    file.config = Parser(file.keys, file_name).Read(documents);
    if (!file.keys.flooded()) CheckWhole(file.config, file.keys);
  });
  if (!file.keys.none()) return tl::make_unexpected(file.keys.ToError());
  return file;
}

Result<PoolFile> LoadPoolFile(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParsePoolFile(*text, path);
}

Result<Config> ParseConfig(std::string_view yaml, const std::string& file_name) {
  return ParsePoolFile(yaml, file_name).map([](PoolFile file) { return std::move(file.config); });
}

Result<Config> LoadConfig(const std::string& path) {
  return LoadPoolFile(path).map([](PoolFile file) { return std::move(file.config); });
}

}  // namespace spillway::model
