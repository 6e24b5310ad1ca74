// SPDX-License-Identifier: Apache-2.0
#include "gateway/config.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/un.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

#include "base/print.h"
#include "base/socket_address.h"
#include "gateway/document.h"
#include "gateway/protocol/token.h"

namespace spillway::gateway {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using namespace std::chrono_literals;

constexpr size_t kMaxTenants = 1024;
constexpr uint64_t kByShare = UINT64_MAX;  // a reserve that the file does not say

// A user's or a group's number, by its name or as it is.
std::optional<uint32_t> ReadId(Problems& problems, const Field& field, bool group) {
  const auto text = yaml::ReadText(problems, field, group ? "a group" : "a user");
  if (!text) return std::nullopt;
  uint32_t id = 0;
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), id);
  if (error == std::errc() && rest == text->data() + text->size()) return id;
  if (group) {
    if (const auto* entry = getgrnam(text->c_str())) return entry->gr_gid;
  } else if (const auto* entry = getpwnam(text->c_str())) {
    return entry->pw_uid;
  }
  problems.Add(field.line, field.path,
               fmt::format("expected a {} of this machine or a number, got {}", group ? "group" : "user",
                           yaml::Describe(field.node)));
  return std::nullopt;
}

// A path alone, or a map with who may come.
void ReadExecutors(Problems& problems, const Field& field, const std::string& file_name,
                   GatewayConfig& config) {
  if (!field.node.IsMap()) {
    yaml::NotePlace(config.places, file_name, field);
    if (auto path = ReadSocketPath(problems, field)) config.executors = *path;
    return;
  }
  MapReader map(problems, field, {"socket", "users", "group", "token_file"});
  ExecutorTrust& trust = config.executor_trust;
  if (const Field* f = map.Find("socket")) {
    yaml::NotePlace(config.places, file_name, *f);
    config.places["executors"] = config.places[f->path];
  }
  Take(config.executors, map.Need("socket", "the path of a UNIX socket"),
       [&](const Field& f) { return ReadSocketPath(problems, f); });
  if (const Field* f = map.Find("users")) {
    trust.users.clear();
    for (const Field& entry : yaml::ReadList(problems, *f, "a list of users"))
      if (auto user = ReadId(problems, entry, false)) trust.users.push_back(*user);
  }
  if (const Field* f = map.Find("group")) trust.group = ReadId(problems, *f, true);
  if (const Field* f = map.Find("token_file"))
    trust.token = ReadToken(problems, *f, file_name, "the executors' token");
}

bool IsSocketPath(std::string_view path) {
  return !path.empty() && path.size() < sizeof(sockaddr_un::sun_path) &&
         std::all_of(path.begin(), path.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

void ReadFrames(Problems& problems, const Field& field, const std::string& file_name, GatewayConfig& config) {
  constexpr const char* kForms =
      "ADDRESS:PORT, such as 127.0.0.1:9100 or [::1]:9100, or unix:PATH, of at most 107 characters";
  constexpr std::string_view kUnix = "unix:";
  for (const Field& entry : yaml::ReadList(problems, field, "a list of ADDRESS:PORT or unix:PATH")) {
    const auto text = yaml::ReadText(problems, entry, kForms);
    if (!text) continue;
    yaml::NotePlace(config.places, file_name, entry);
    const bool is_unix = text->starts_with(kUnix);
    if (is_unix ? !IsSocketPath(text->substr(kUnix.size())) : !base::SocketAddress::Parse(*text))
      yaml::Refuse(problems, entry, kForms);
    else if (is_unix && text->substr(kUnix.size()) == config.executors)
      problems.Add(entry.line, entry.path, "expected a path other than that of `executors`");
    else if (std::count(config.frames.begin(), config.frames.end(), *text) > 0)
      problems.Add(entry.line, entry.path, "duplicate address");
    config.frames.push_back(*text);
  }
}

// Half of the windows' memory is tenants' in equal parts, a quarter of requests' where the file says nothing;
// where requests come by two ways, an eighth is each way's.
void ShareReserves(Problems& problems, const Field& root, GatewayConfig& config) {
  BrokerOptions& broker = config.broker;
  const size_t tenants = std::max<size_t>(broker.tenants.size(), 1);
  uint64_t all = 0;
  for (TenantLimits& tenant : broker.tenants) {
    if (tenant.reserve == kByShare) tenant.reserve = tenants == 1 ? 0 : broker.memory / 4 / tenants;
    tenant.windows_reserve = tenants == 1 ? 0 : broker.windows / 2 / tenants;
    all += tenant.reserve;
  }
  if (!config.http.empty() && !config.frames.empty()) broker.front_reserves.fill(broker.memory / 8);
  if (all > broker.memory - broker.memory / 4)
    problems.Add(root.line, "tenants",
                 fmt::format("expected reserves of at most three quarters of limits.memory, {} bytes, got {}",
                             broker.memory - broker.memory / 4, all));
}

void ReadTenants(Problems& problems, const Field& field, const std::string& file_name,
                 GatewayConfig& config) {
  for (const Field& entry : yaml::ReadList(problems, field, "a list of tenants")) {
    MapReader map(problems, entry, {"name", "token_file", "queue", "reserve"});
    TenantLimits tenant;
    Take(tenant.name, map.Need("name", "a name"),
         [&](const Field& f) { return yaml::ReadName(problems, f); });
    Take(tenant.queue, map.Find("queue"),
         [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 1'000'000); });
    tenant.reserve = kByShare;
    Take(tenant.reserve, map.Find("reserve"),
         [&](const Field& f) { return ReadBytes(problems, f, 0, uint64_t{1} << 40); });
    std::string token;
    if (const Field* f = map.Find("token_file"))
      token = ReadToken(problems, *f, file_name, "the tenant's token");
    for (size_t i = 0; i < config.broker.tenants.size(); i++) {
      if (config.broker.tenants[i].name == tenant.name && !tenant.name.empty())
        problems.Add(entry.line, entry.path, "duplicate name");
      if (!token.empty() && config.tokens[i] == token)
        problems.Add(entry.line, entry.path, "same token as tenant " + config.broker.tenants[i].name);
    }
    config.broker.tenants.push_back(tenant);
    config.tokens.push_back(token);
  }
  if (config.broker.tenants.empty() || config.broker.tenants.size() > kMaxTenants)
    problems.Add(field.line, field.path, fmt::format("expected 1 to {} tenants", kMaxTenants));
}

void ReadRdma(Problems& problems, const Field& field, const std::string& file_name, GatewayConfig& config) {
  MapReader map(problems, field, {"listen", "token_file", "memory", "clients"});
  RdmaOptions& rdma = config.rdma;
  const auto address = [&](const Field& f) {
    yaml::NotePlace(config.places, file_name, f);
    return ReadEndpoint(problems, f);
  };
  Take(rdma.clients, map.Find("clients"), address);
  // Of executors, who need not come by RDMA because clients do.
  const bool has_executors = map.Find("listen") != nullptr || map.Find("clients") == nullptr;
  if (has_executors) Take(rdma.listen, map.Need("listen", "ADDRESS:PORT"), address);
  const Field* token =
      has_executors ? map.Need("token_file", "a file with the executors' token") : map.Find("token_file");
  if (token != nullptr) rdma.token = ReadToken(problems, *token, file_name, "the executors' token");
  Take(rdma.memory, map.Find("memory"),
       [&](const Field& f) { return ReadBytes(problems, f, 1 << 20, uint64_t{1} << 40); });
}

void ReadLimits(Problems& problems, const Field& field, GatewayConfig& config) {
  MapReader map(problems, field,
                {"request", "memory", "windows", "connections", "deadline", "longest_deadline", "stuck_after",
                 "idle", "receive", "start"});
  Take(config.most_request, map.Find("request"),
       [&](const Field& f) { return ReadBytes(problems, f, 64, uint64_t{1} << 30); });
  Take(config.broker.memory, map.Find("memory"),
       [&](const Field& f) { return ReadBytes(problems, f, 1 << 10, uint64_t{1} << 40); });
  Take(config.broker.windows, map.Find("windows"),
       [&](const Field& f) { return ReadBytes(problems, f, 0, uint64_t{1} << 40); });
  Take(config.connections, map.Find("connections"),
       [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 10'000); });
  const auto time = [&](Duration& into, const char* key, Duration least, Duration most) {
    Take(into, map.Find(key), [&](const Field& f) { return yaml::ReadTime(problems, f, least, most); });
  };
  time(config.broker.default_deadline, "deadline", 1ms, 1h);
  time(config.broker.longest_deadline, "longest_deadline", 1ms, 1h);
  time(config.broker.stuck_after, "stuck_after", 10ms, 1h);
  time(config.idle, "idle", 100ms, 24h);
  time(config.receive, "receive", 100ms, 24h);
  time(config.start, "start", 100ms, 24h);
  if (config.most_request > config.broker.memory) {
    if (const Field* request = map.Find("request"))
      problems.Add(request->line, request->path,
                   fmt::format("expected no more than limits.memory, {} bytes, got {}", config.broker.memory,
                               config.most_request));
    else
      problems.Add(field.line, field.path + ".memory",
                   fmt::format("expected at least limits.request, {} bytes, got {}", config.most_request,
                               config.broker.memory));
  }
  if (config.broker.default_deadline > config.broker.longest_deadline)
    problems.Add(field.line, field.path + ".deadline", "expected no more than limits.longest_deadline");
}

}  // namespace

std::optional<uint64_t> ReadBytes(Problems& problems, const Field& field, uint64_t least, uint64_t most) {
  const auto text = yaml::ReadText(problems, field, "a size in bytes, KiB, MiB or GiB");
  if (!text) return std::nullopt;
  uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, value);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  int shift = -1;
  if (unit.empty()) shift = 0;
  if (unit == "KiB") shift = 10;
  if (unit == "MiB") shift = 20;
  if (unit == "GiB") shift = 30;
  if (error == std::errc() && shift >= 0 && value <= (UINT64_MAX >> shift)) {
    value <<= shift;
    if (value >= least && value <= most) return value;
  }
  problems.Add(field.line, field.path,
               fmt::format("expected {} to {} bytes (or KiB, MiB, GiB), got {}", least, most,
                           yaml::Describe(field.node)));
  return std::nullopt;
}

std::optional<std::string> ReadSocketPath(Problems& problems, const Field& field) {
  const std::string expected =
      fmt::format("the path of a UNIX socket, 1 to {} characters", sizeof(sockaddr_un::sun_path) - 1);
  const auto text = yaml::ReadText(problems, field, expected);
  if (!text || IsSocketPath(*text)) return text;
  problems.Add(field.line, field.path,
               fmt::format("expected {}, got {}", expected, yaml::Describe(field.node)));
  return std::nullopt;
}

std::optional<std::string> ReadEndpoint(Problems& problems, const Field& field) {
  constexpr const char* kForm = "ADDRESS:PORT, such as 127.0.0.1:9100 or [::1]:9100";
  const auto text = yaml::ReadText(problems, field, kForm);
  if (!text || base::SocketAddress::Parse(*text)) return text;
  return yaml::Refuse(problems, field, kForm);
}

Result<GatewayConfig> ParseGatewayConfig(const std::string& yaml, const std::string& file_name) {
  GatewayConfig config;
  const auto read = yaml::ReadDocument(yaml, file_name, [&](Problems& problems, const Field& root) {
    MapReader top(problems, root,
                  {"http", "health", "frames", "executors", "rdma", "controller", "isolation", "limits",
                   "drain", "tenants", "spin"});
    for (auto [into, key] : {std::pair(&config.http, "http"), {&config.health, "health"}})
      Take(*into, top.Find(key), [&](const Field& f) {
        yaml::NotePlace(config.places, file_name, f);
        return ReadEndpoint(problems, f);
      });
    if (const Field* f = top.Find("executors")) ReadExecutors(problems, *f, file_name, config);
    if (const Field* f = top.Find("frames")) ReadFrames(problems, *f, file_name, config);
    if (const Field* f = top.Find("rdma")) ReadRdma(problems, *f, file_name, config);
    // A map `rdma` with problems of its own has them named there.
    const bool is_clients_alone = !config.rdma.clients.empty() && config.rdma.listen.empty();
    if (top.Find("executors") == nullptr && (top.Find("rdma") == nullptr || is_clients_alone) &&
        root.node.IsMap())
      problems.Add(root.line, "", "expected executors or rdma.listen; without one no executor can connect");
    if (const Field* f = top.Find("isolation"))
      if (auto word = yaml::ReadChoice(problems, *f, {"none", "fraction", "gpu"}))
        config.broker.isolation = static_cast<scheduler::Isolation>(*word);
    if (const Field* f = top.Find("controller")) {
      config.controller = ReadController(problems, *f, file_name);
      config.controller->options.rules.isolation = config.broker.isolation;
      const std::string& socket = config.controller->socket;
      if (!socket.empty() && socket == config.executors)
        problems.Add("controller.socket", "expected a path other than that of `executors`");
      if (std::count(config.frames.begin(), config.frames.end(), "unix:" + socket) > 0)
        problems.Add("controller.socket", "expected a path that is not in `frames`");
    }
    Take(config.spin, top.Find("spin"),
         [&](const Field& f) { return yaml::ReadTime(problems, f, 0ns, 10ms); });
    if (const Field* f = top.Find("limits")) ReadLimits(problems, *f, config);
    if (const Field* f = top.Find("drain")) {
      MapReader drain(problems, *f, {"serve", "finish"});
      for (auto [into, key] : {std::pair(&config.drain_serve, "serve"), {&config.drain_finish, "finish"}})
        Take(*into, drain.Find(key), [&](const Field& g) { return yaml::ReadTime(problems, g, 0ns, 1h); });
    }
    if (const Field* f = top.Find("tenants")) {
      ReadTenants(problems, *f, file_name, config);
    } else {
      config.broker.tenants = {{"default"}};
      config.tokens = {""};
    }
    if (!config.rdma.clients.empty() &&
        std::none_of(config.frames.begin(), config.frames.end(),
                     [](const std::string& address) { return !address.starts_with("unix:"); }))
      problems.Add(root.line, "rdma.clients",
                   "expected an ADDRESS:PORT in frames, by which clients ask for their windows");
    if (config.http.empty() && config.frames.empty() && problems.Sound("http") && root.node.IsMap())
      problems.Add(root.line, "", "expected http or frames; without one no client can connect");
    ShareReserves(problems, root, config);
  });
  if (!read) return tl::make_unexpected(read.error());
  return config;
}

Result<GatewayConfig> LoadGatewayConfig(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseGatewayConfig(*text, path);
}

std::optional<uint32_t> Authenticate(const GatewayConfig& config, std::string_view name,
                                     std::string_view token) {
  if (name.empty()) return AuthenticateByToken(config, token);
  for (uint32_t i = 0; i < config.tokens.size(); i++)
    if (config.broker.tenants[i].name == name)
      return config.tokens[i].empty() || SameToken(config.tokens[i], token) ? std::optional(i) : std::nullopt;
  return std::nullopt;
}

std::optional<uint32_t> AuthenticateByToken(const GatewayConfig& config, std::string_view token) {
  for (uint32_t i = 0; i < config.tokens.size(); i++)
    if (token.empty() ? config.tokens[i].empty() : SameToken(config.tokens[i], token)) return i;
  return std::nullopt;
}

}  // namespace spillway::gateway
