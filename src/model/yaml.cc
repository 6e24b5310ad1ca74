// SPDX-License-Identifier: Apache-2.0
#include "yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace spillway::model {

namespace {

// In double quotes unless every YAML reader takes it as the same text without.
std::string Scalar(const std::string& text) {
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  bool plain = !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  });
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}) {
    std::string lower = text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (lower == word) plain = false;
  }
  if (plain) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// Addresses hold colons, which flow maps would take for keys at the end ("::").
std::string Quoted(const Address& address) {
  return address.family == 4 ? address.ToString() : fmt::format("\"{}\"", address.ToString());
}

std::string Duration(uint64_t ms) {
  return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000) : fmt::format("{}ms", ms);
}

// As ParseBytes of health_reader.cc reads it.
std::string Bytes(const std::string& bytes) {
  const bool printable =
      std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
  if (printable && !bytes.starts_with("hex:")) return Scalar(bytes);
  std::string text = "hex:";
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return Scalar(text);
}

// A list's entries between commas.
template <class Entries, class Write>
std::string Joined(const Entries& entries, Write write) {
  std::string text;
  for (const auto& entry : entries) text += (text.empty() ? "" : ", ") + write(entry);
  return text;
}

std::string KindKeys(const HealthCheck& check) {
  std::string text;
  const auto add = [&text](const char* key, const std::string& value) {
    text += fmt::format(", {}: {}", key, value);
  };
  switch (check.kind) {
    case CheckKind::kTcp:
      break;
    case CheckKind::kTls:
    case CheckKind::kHttp:
    case CheckKind::kHttps:
      if (!check.host.empty()) add("host", Scalar(check.host));
      if (!check.ca_file.empty()) add("ca_file", Scalar(check.ca_file));
      if (check.kind == CheckKind::kTls) break;
      add("path", Scalar(check.path));
      add("status", fmt::format("[{}]", Joined(check.statuses, [](const auto& range) {
                                  return range.first == range.second
                                             ? fmt::format("{}", range.first)
                                             : fmt::format("{}-{}", range.first, range.second);
                                })));
      if (!check.body.empty()) add("body", Bytes(check.body));
      break;
    case CheckKind::kDns:
      add("query", Scalar(check.query));
      add("type", check.type);
      add("rcode", check.rcode);
      break;
    case CheckKind::kUdp:
      add("payload", Bytes(check.payload));
      if (!check.expect.empty()) add("expect", Bytes(check.expect));
      break;
    case CheckKind::kExec:
      add("command", fmt::format("[{}]", Joined(check.command, Scalar)));
      add("exit_status", fmt::format("{}", check.exit_status));
      break;
  }
  return text;
}

class Writer {
 public:
  std::string Write(const Config& config) {
    WriteSwitch(config.data_plane);
    Line("{}", config.services.empty() ? "services: []" : "services:");
    for (const Service& service : config.services) WriteService(service);
    Line("{}", config.pools.empty() ? "pools: {}" : "pools:");
    for (const Pool& pool : config.pools) WritePool(pool);
    return std::move(text_);
  }

 private:
  template <class... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void WriteSwitch(const SwitchConfig& data_plane) {
    std::string interfaces;
    for (const std::string& name : data_plane.interfaces)
      interfaces += (interfaces.empty() ? "" : ", ") + Scalar(name);
    Line("switch:");
    Line("  interfaces: [{}]", interfaces);
    Line("  attach: {}", ToString(data_plane.attach));
    if (data_plane.report)
      Line("  report: {{address: {}, port: {}, silent_after: {}}}", Quoted(data_plane.report->address),
           data_plane.report->port, Duration(data_plane.report->silent_after_ms));
    Line("  flow_table: {{entries: {}}}", data_plane.flow_table_entries);
    if (!data_plane.seed_file.empty()) Line("  seed_file: {}", Scalar(data_plane.seed_file));
  }

  void WriteService(const Service& service) {
    std::string ports;
    for (const ServicePort& port : service.ports) ports += (ports.empty() ? "" : ", ") + ToString(port);
    Line("  - name: {}", Scalar(service.name));
    Line("    vip: {}", Quoted(service.vip));
    Line("    ports: [{}]", ports);
    Line("    pool: {}", Scalar(service.pool));
    Line("    mode: {}", ToString(service.mode));
    Line("    affinity: {}", ToString(service.affinity));
    Line("    server_policy: {}", ToString(service.server_policy));
    Line("    unit_policy: {}", ToString(service.unit_policy));
    if (service.idle_s != 0) Line("    idle: {}s", service.idle_s);
    if (service.health) Line("    health: {}", ToYaml(*service.health));
  }

  void WritePool(const Pool& pool) {
    Line("  {}:", Scalar(pool.name));
    if (pool.ring_slots != 0) Line("    ring_slots: {}", pool.ring_slots);
    Line("    servers:");
    for (const Server& server : pool.servers) {
      Line("      - name: {}", Scalar(server.name));
      if (server.code) Line("        code: {}", *server.code);
      if (!server.key_file.empty()) Line("        key_file: {}", Scalar(server.key_file));
      Line("        units:");
      for (const Unit& unit : server.units)
        Line("          - {{name: {}, kind: {}, address: {}, capacity: {}{}}}", Scalar(unit.name),
             ToString(unit.kind), Quoted(unit.address), unit.capacity, unit.drain ? ", drain: true" : "");
    }
  }

  std::string text_;
};

}  // namespace

std::string ToYaml(const Config& config) { return Writer().Write(config); }

std::string ToYaml(const HealthCheck& check) {
  return fmt::format(
      "{{check: {}, port: {}, interval: {}, timeout: {}, rise: {}, fall: {}, jitter: {}, dampening: {}, "
      "dampening_limit: {}, on_fail: {}{}}}",
      ToString(check.kind), check.port, Duration(check.interval_ms), Duration(check.timeout_ms), check.rise,
      check.fall, check.jitter, Duration(check.dampening_ms), Duration(check.dampening_limit_ms),
      ToString(check.on_fail), KindKeys(check));
}

}  // namespace spillway::model
