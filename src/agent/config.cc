// SPDX-License-Identifier: Apache-2.0
#include "agent/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "agent/config_section.h"
#include "base/duration.h"
#include "base/socket_address.h"
#include "base/yaml/documents.h"
#include "core/report.h"
#include "core/types.h"
#include "model/scalars.h"
#include "model/secret_files.h"

namespace spillway::agent {

namespace {

using namespace std::chrono_literals;
using yaml::Field;

constexpr char kStateFolder[] = "/var/lib/spillway-agent";
constexpr char kNeededByLatency[] = "required for `latency`";
constexpr char kOnlyLatency[] = "allowed only with meter kind: latency";

std::vector<Endpoint> ReadSwitches(const Section& top) {
  std::vector<Endpoint> switches;
  const auto list = top.List("switches", "list of ADDRESS[:PORT]", "required");
  if (!list) return switches;
  if (list->empty()) top.Add("switches", "expected a list of ADDRESS[:PORT], got an empty one");
  for (const Field& item : *list) {
    const auto endpoint = item.node.IsScalar() ? Endpoint::Parse(item.node.Scalar()) : std::nullopt;
    const auto address =
        endpoint ? model::Address::Parse(base::SocketAddress{endpoint->address, endpoint->length}.Host())
                 : std::nullopt;
    const auto is_same = [&](const Endpoint& other) {
      return other.length == endpoint->length &&
             std::memcmp(&other.address, &endpoint->address, other.length) == 0;
    };
    const bool is_host = address && model::BelongsToAHost(*address);
    if (is_host && std::ranges::any_of(switches, is_same))
      top.problems().Add(item.line, item.path, fmt::format("duplicate switch {}", item.node.Scalar()));
    else if (is_host)
      switches.push_back(*endpoint);
    else
      top.problems().Add(
          item.line, item.path,
          fmt::format(
              "expected a host's ADDRESS[:PORT], such as 192.0.2.1:9870 or [2001:db8::1]:9870, got {}",
              yaml::Describe(item.node)));
  }
  return switches;
}

std::vector<ServicePort> ReadServices(const Section& top, bool needed) {
  std::vector<ServicePort> services;
  const auto list =
      top.List("services", "list of udp/PORT, tcp/PORT", needed ? "required" : kNeededByLatency);
  if (!list) return services;
  if (list->empty()) top.Add("services", "expected a list of udp/PORT and tcp/PORT, got an empty one");
  for (const Field& item : *list) {
    const auto port = model::ReadServicePort(top.problems(), item);
    if (!port) continue;
    const ServicePort service{port->protocol == model::Protocol::kTcp, port->port};
    if (std::find(services.begin(), services.end(), service) != services.end())
      top.problems().Add(item.line, item.path, fmt::format("duplicate service {}", item.node.Scalar()));
    services.push_back(service);
  }
  return services;
}

MeterConfig ReadMeter(const Section& top, const std::string& file_name, yaml::Places& places) {
  MeterConfig meter;
  const auto map =
      top.Find("meter", {"kind", "source", "protocol", "timeout", "window", "pending", "cgroup"});
  if (!map) return meter;
  map->OneOf<MeterKind>("kind", meter.kind, {{"latency", MeterKind::kLatency}, {"cpu", MeterKind::kCpu}});
  map->OneOf<MeterSource>(
      "source", meter.source,
      {{"auto", MeterSource::kAuto}, {"bpf", MeterSource::kBpf}, {"af_packet", MeterSource::kAfPacket}});
  map->OneOf<bool>("protocol", meter.dns, {{"none", false}, {"dns", true}});
  map->Time("timeout", meter.timeout, 1ms, 600s);
  map->Time("window", meter.window, 1ms, 60s);
  map->Integer("pending", meter.pending, 64, 1 << 24);
  if (!std::has_single_bit(meter.pending))
    map->Add("pending", fmt::format("expected a power of two, got {}", meter.pending));
  map->Text("cgroup", meter.cgroup, "cpu: the machine; latency: the server's");
  map->NotePlace("cgroup", places, file_name);
  if (!map->Sound("kind")) return meter;
  if (meter.kind == MeterKind::kCpu)
    map->Refuse({"source", "protocol", "timeout", "pending"}, "allowed only with kind: latency");
  return meter;
}

// Of a program that is its own meter.
void RefuseMeterOf(const Section& top, MeterKind kind) {
  const auto map =
      top.Find("meter", {"kind", "source", "protocol", "timeout", "window", "pending", "cgroup"});
  if (kind != MeterKind::kCpu) {
    constexpr char kExpected[] = "expected cpu: the program reports its load as a share of its capacity";
    if (map)
      map->Add("kind", kExpected);
    else
      top.Add("meter", std::string(kExpected) + ", in meter.kind");
    return;
  }
  map->Refuse({"window", "cgroup"},
              "allowed only in an agent's own file: here the program itself is the meter");
}

double ReadThreshold(const Section& map, MeterKind kind) {
  const Field* field = map.Required("threshold", "time, or percent of the CPU time");
  if (field == nullptr) return 0;
  if (kind == MeterKind::kLatency) {
    const auto time = yaml::ReadTime(map.problems(), *field, 2us, 600s);
    return time ? static_cast<double>(time->count()) : 0;
  }
  const std::string text = field->node.IsScalar() ? field->node.Scalar() : "";
  double percent = 0;
  const char* end = text.data() + text.size() - 1;
  if (text.empty() || *end != '%' || std::from_chars(text.data(), end, percent).ptr != end ||
      !(percent >= 1 && percent <= 100))
    map.Add("threshold", fmt::format("expected a share of the CPU time from 1% to 100%, such as 80%, got {}",
                                     yaml::Describe(field->node)));
  return percent / 100;
}

TriggerConfig ReadTrigger(const Section& top, const MeterConfig& meter) {
  TriggerConfig trigger;
  const auto map = top.Need(
      "trigger", {"threshold", "release_ratio", "second_report_after", "queue_high", "release_queue"},
      meter.kind == MeterKind::kLatency ? "a map such as {threshold: 100ms}"
                                        : "a map such as {threshold: 80%}");
  if (!map) return trigger;
  trigger.threshold = ReadThreshold(*map, meter.kind);
  map->Number("release_ratio", trigger.release_ratio, 0.01, 1);
  map->Time("second_report_after", trigger.second_report_after, 0ns, 60s);
  map->Integer("queue_high", trigger.queue_high, 0, meter.pending);
  map->Integer("release_queue", trigger.release_queue, 0, meter.pending);
  if (meter.kind == MeterKind::kCpu) {
    map->Refuse({"queue_high", "release_queue"}, kOnlyLatency);
    return trigger;
  }
  if (trigger.queue_high && trigger.release_queue >= trigger.queue_high && map->Sound("release_queue"))
    map->Add("queue_high", fmt::format("expected 0 or more than release_queue ({}), got {}",
                                       trigger.release_queue, trigger.queue_high));
  if (trigger.threshold >= static_cast<double>(meter.timeout.count()) && top.Sound("meter.timeout"))
    map->Add(
        "threshold",
        fmt::format("expected less than meter.timeout ({}), got {}", base::DurationText(meter.timeout),
                    base::DurationText(std::chrono::nanoseconds(static_cast<int64_t>(trigger.threshold)))));
  return trigger;
}

ReportConfig ReadReport(const Section& top) {
  ReportConfig report;
  const auto map = top.Find("report", {"mode", "period", "heartbeat", "check"});
  if (!map) return report;
  map->OneOf<ReportMode>("mode", report.mode,
                         {{"periodic", ReportMode::kPeriodic}, {"on-threshold", ReportMode::kOnThreshold}});
  map->Time("period", report.period, 1ms, 10s);
  map->Time("heartbeat", report.heartbeat, 10ms, 60s);
  map->Time("check", report.check, 0ms, 10s);
  if (report.check > 0ms && report.check < 100us)
    map->Add("check", fmt::format("expected 0 or 100us and more, got {}", base::DurationText(report.check)));
  if (report.heartbeat < report.period && map->Sound("heartbeat") && map->Sound("period"))
    map->Add(map->Has("heartbeat") ? "heartbeat" : "period",
             fmt::format("expected heartbeat >= period, got {} and {}", base::DurationText(report.heartbeat),
                         base::DurationText(report.period)));
  return report;
}

LearnConfig ReadLearn(const Section& top) {
  LearnConfig learn;
  if (const auto map = top.Find("learn", {"workers"}))
    map->Integer("workers", learn.workers, 1, 65535, "not known");
  return learn;
}

ErrorAnswers ReadErrorAnswers(const Section& failing, const MeterConfig& meter) {
  constexpr char kExpected[] = "expected a list of servfail, refused and http-5xx, or [] for no answer";
  ErrorAnswers errors;
  const auto list =
      failing.List("errors", "list of servfail, refused, http-5xx", "[servfail, refused, http-5xx]");
  if (!list) return errors;
  errors = {false, false, false};
  for (const Field& item : *list) {
    const std::string word = item.node.IsScalar() ? item.node.Scalar() : "";
    if (word != "servfail" && word != "refused" && word != "http-5xx")
      failing.problems().Add(item.line, item.path,
                             fmt::format("{}, got {}", kExpected, yaml::Describe(item.node)));
    else if (word != "http-5xx" && !meter.dns)
      failing.problems().Add(
          item.line, item.path,
          fmt::format("expected meter.protocol: dns with {}: DNS is not read otherwise", word));
    (word == "servfail" ? errors.servfail : word == "refused" ? errors.refused : errors.http_5xx) = true;
  }
  return errors;
}

FailingConfig ReadFailing(const Section& top, const MeterConfig& meter) {
  FailingConfig failing;
  const auto map = top.Find("failing", {"detect", "after", "refused_share", "errors", "error_share"});
  if (!map) return failing;
  map->OneOf<bool>("detect", failing.detect, {{"true", true}, {"false", false}});
  map->Time("after", failing.after, 1ms, 600s, "by latency");
  map->Number("refused_share", failing.refused_share, 0.01, 1);
  failing.errors = ReadErrorAnswers(*map, meter);
  map->Number("error_share", failing.error_share, 0.01, 1);
  return failing;
}

// A relative path is taken from the configuration's folder.
std::string BesideFile(const std::string& file_name, const std::filesystem::path& path) {
  return path.is_absolute() ? path.string()
                            : (std::filesystem::path(file_name).parent_path() / path).string();
}

void ReadServer(const Section& top, const std::string& file_name, AgentConfig& config) {
  const auto server = top.Need("server", {"code", "key_file"});
  if (!server) return;
  server->Integer("code", config.server_code, 0, SPW_MAX_SERVERS - 1, "required");
  const Field* file = server->Required("key_file", "file of 32 hex digits");
  if (file == nullptr) return;
  const auto path = yaml::ReadText(server->problems(), *file, "a file with the server's key");
  if (!path) return;
  config.key_file = BesideFile(file_name, *path);
  if (const auto key = model::ReadKeyFile(config.key_file))
    config.key = *key;
  else
    server->Add("key_file",
                fmt::format("expected a file with 32 hex digits, made by `openssl rand -hex 16 > FILE`: {}",
                            key.error().message));
}

AgentConfig Read(yaml::Problems& problems, const Field& root, const std::string& file_name,
                 MeteredBy metered_by, std::vector<KeyInfo>* keys = nullptr) {
  const Section top(problems, root,
                    {"switches", "server", "unit", "interface", "services", "meter", "trigger", "report",
                     "learn", "failing", "state_file"},
                    keys);
  AgentConfig config;
  config.switches = ReadSwitches(top);
  ReadServer(top, file_name, config);
  top.Integer("unit", config.unit, 0, SPW_UNITS_PER_SERVER - 1, "required");
  std::string state_file = fmt::format("{}/{}-{}.boot", kStateFolder, config.server_code, config.unit);
  top.Text("state_file", state_file, fmt::format("{}/CODE-UNIT.boot", kStateFolder));
  config.state_file = BesideFile(file_name, state_file);
  config.meter = ReadMeter(top, file_name, config.places);
  if (metered_by == MeteredBy::kProgram && top.Sound("meter.kind")) RefuseMeterOf(top, config.meter.kind);
  const bool of_latency = config.meter.kind == MeterKind::kLatency;
  top.Text("interface", config.interface, kNeededByLatency);
  top.NotePlace("interface", config.places, file_name);
  if (top.Has("interface") && !model::IsInterfaceName(config.interface))
    top.Add("interface",
            fmt::format("expected an interface's name, got {}", yaml::Excerpt(config.interface)));
  config.services = ReadServices(top, of_latency && keys == nullptr);
  if (of_latency && !top.Has("interface"))
    top.Add("interface", "expected the interface on which the unit's requests arrive, got nothing");
  if (!of_latency) top.Refuse({"interface", "services", "learn", "failing"}, kOnlyLatency);
  config.trigger = ReadTrigger(top, config.meter);
  config.report = ReadReport(top);
  config.learn = ReadLearn(top);
  config.failing = ReadFailing(top, config.meter);
  return config;
}

}  // namespace

Result<AgentConfig> ParseAgentConfig(std::string_view yaml, const std::string& file_name,
                                     MeteredBy metered_by) {
  AgentConfig config;
  return yaml::ReadDocument(std::string(yaml), file_name,
                            [&](yaml::Problems& problems, const Field& root) {
                              config = Read(problems, root, file_name, metered_by);
                            })
      .map([&] { return std::move(config); });
}

std::vector<KeyInfo> AgentKeys() {
  yaml::Problems ignored("");
  std::vector<KeyInfo> keys;
  Read(ignored, {"", 1, YAML::Node(YAML::NodeType::Map)}, "", MeteredBy::kAgent, &keys);
  return keys;
}

Result<AgentConfig> LoadAgentConfig(const std::string& path, MeteredBy metered_by) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseAgentConfig(*text, path, metered_by);
}

namespace {

std::optional<uint16_t> ParsePort(const std::string& text) {
  uint16_t port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

std::optional<Endpoint> Endpoint::Parse(const std::string& text) {
  std::string host = text;
  std::optional<uint16_t> port = SPW_REPORT_PORT;
  if (!text.empty() && text[0] == '[') {
    const size_t close = text.find(']');
    if (close == std::string::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    if (close + 1 < text.size()) {
      if (text[close + 1] != ':') return std::nullopt;
      port = ParsePort(text.substr(close + 2));
    }
  } else if (const size_t colon = text.find(':');
             colon != std::string::npos && text.find(':', colon + 1) == std::string::npos) {
    host = text.substr(0, colon);
    port = ParsePort(text.substr(colon + 1));
  } else if (colon != std::string::npos) {
    return std::nullopt;  // IPv6 without brackets: is its last group the port?
  }
  auto address = base::SocketAddress::ParseHost(host);
  if (!port || !address) return std::nullopt;
  address->set_port(*port);
  Endpoint endpoint;
  endpoint.text = text;
  endpoint.address = address->storage;
  endpoint.length = address->length;
  return endpoint;
}

}  // namespace spillway::agent
