// SPDX-License-Identifier: Apache-2.0
#include "agent/config.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "agent/config_reader.h"
#include "core/types.h"
#include "model/documents.h"
#include "model/key_file.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

constexpr char kStateFolder[] = "/var/lib/spillway-agent";

std::vector<Endpoint> ReadSwitches(const MapReader& top) {
  constexpr char kExpected[] = "a list of ADDRESS:PORT, such as [192.0.2.1:9870]";
  const YAML::Node list = top.Require("switches", kExpected);
  if (!list.IsSequence() || list.size() == 0) FailAt(list, "switches", std::string("expected ") + kExpected);
  std::vector<Endpoint> switches;
  for (const auto& item : list) {
    const std::string text = ScalarText(item, "switches", kExpected);
    const auto endpoint = Endpoint::Parse(text);
    if (!endpoint)
      FailAt(
          item, "switches",
          fmt::format("expected ADDRESS:PORT, such as 192.0.2.1:9870 or [2001:db8::1]:9870, not '{}'", text));
    switches.push_back(*endpoint);
  }
  return switches;
}

std::vector<ServicePort> ReadServices(const MapReader& top) {
  constexpr char kExpected[] = "a list of udp/PORT and tcp/PORT, such as [udp/53, tcp/53]";
  const YAML::Node list = top.Require("services", kExpected);
  if (!list.IsSequence() || list.size() == 0) FailAt(list, "services", std::string("expected ") + kExpected);
  std::vector<ServicePort> services;
  for (const auto& item : list) {
    const std::string text = ScalarText(item, "services", kExpected);
    ServicePort service{.tcp = text.starts_with("tcp/")};
    const char* end = text.data() + text.size();
    const bool proto = service.tcp || text.starts_with("udp/");
    if (!proto || std::from_chars(text.data() + 4, end, service.port).ptr != end || service.port == 0)
      FailAt(item, "services",
             fmt::format("expected udp/PORT or tcp/PORT with a port 1..65535, not '{}'", text));
    if (std::find(services.begin(), services.end(), service) != services.end())
      FailAt(item, "services", fmt::format("expected each service once, found '{}' twice", text));
    services.push_back(service);
  }
  return services;
}

MeterConfig ReadMeter(const MapReader& top) {
  MeterConfig meter;
  if (!top.Has("meter")) return meter;
  const MapReader map =
      top.Map("meter", {"kind", "source", "protocol", "timeout", "window", "pending", "cgroup"});
  meter.kind = map.OneOf("kind", meter.kind, {{"latency", MeterKind::kLatency}, {"cpu", MeterKind::kCpu}});
  meter.source = map.OneOf(
      "source", meter.source,
      {{"auto", MeterSource::kAuto}, {"bpf", MeterSource::kBpf}, {"af_packet", MeterSource::kAfPacket}});
  meter.dns = map.OneOf("protocol", false, {{"none", false}, {"dns", true}});
  meter.timeout = map.Time("timeout", meter.timeout, 1ms, 600s);
  meter.window = map.Time("window", meter.window, 1ms, 60s);
  meter.pending = map.Integer("pending", meter.pending, 64, 1 << 24);
  if (!std::has_single_bit(meter.pending)) map.FailAt("pending", "expected a power of two");
  meter.cgroup = map.Text("cgroup", "");
  if (meter.kind == MeterKind::kCpu) {
    for (const char* key : {"source", "protocol", "timeout", "pending"})
      if (map.Has(key)) map.FailAt(key, "expected only with kind: latency");
  } else if (map.Has("cgroup")) {
    map.FailAt("cgroup", "expected only with kind: cpu");
  }
  return meter;
}

void RefuseMeterOf(const MapReader& top, MeterKind kind) {
  if (kind != MeterKind::kCpu) {
    constexpr char kExpected[] = "expected cpu: the measure is a share of what the program has";
    if (!top.Has("meter")) top.FailAt("meter", std::string(kExpected) + ", in meter.kind");
    top.Map("meter", {"kind", "source", "protocol", "timeout", "window", "pending", "cgroup"})
        .FailAt("kind", kExpected);
  }
  const MapReader map = top.Map("meter", {"kind", "window", "cgroup"});
  for (const char* key : {"window", "cgroup"})
    if (map.Has(key))
      map.FailAt(key, "expected in an agent's file only: the program itself is the meter here");
}

double ReadThreshold(const MapReader& map, MeterKind kind) {
  if (kind == MeterKind::kLatency) {
    map.Require("threshold", "a time such as 100ms");
    return static_cast<double>(map.Time("threshold", 0ns, 2us, 600s).count());
  }
  const std::string expected = "a share of the CPU time, 1%..100%, such as 80%";
  const YAML::Node node = map.Require("threshold", expected);
  const std::string text = ScalarText(node, "trigger.threshold", expected);
  double percent = 0;
  const char* end = text.data() + text.size() - 1;
  if (*end != '%' || std::from_chars(text.data(), end, percent).ptr != end ||
      !(percent >= 1 && percent <= 100))
    map.FailAt("threshold", fmt::format("expected {}, not '{}'", expected, text));
  return percent / 100;
}

TriggerConfig ReadTrigger(const MapReader& top, const MeterConfig& meter) {
  TriggerConfig trigger;
  top.Require("trigger", "a mapping with key threshold");
  const MapReader map = top.Map(
      "trigger", {"threshold", "release_ratio", "second_report_after", "queue_high", "release_queue"});
  trigger.threshold = ReadThreshold(map, meter.kind);
  trigger.release_ratio = map.Number("release_ratio", trigger.release_ratio, 0.01, 1);
  trigger.second_report_after = map.Time("second_report_after", trigger.second_report_after, 0ns, 60s);
  trigger.queue_high = map.Integer("queue_high", trigger.queue_high, 0, meter.pending);
  trigger.release_queue = map.Integer("release_queue", trigger.release_queue, 0, meter.pending);
  if (meter.kind == MeterKind::kCpu) {
    for (const char* key : {"queue_high", "release_queue"})
      if (map.Has(key)) map.FailAt(key, "expected only with meter kind: latency");
  } else if (trigger.queue_high && trigger.release_queue >= trigger.queue_high) {
    map.FailAt("queue_high", fmt::format("expected more than release_queue ({})", trigger.release_queue));
  }
  if (meter.kind == MeterKind::kLatency && trigger.threshold >= static_cast<double>(meter.timeout.count()))
    map.FailAt("threshold", "expected less than meter.timeout");
  return trigger;
}

ReportConfig ReadReport(const MapReader& top) {
  ReportConfig report;
  if (!top.Has("report")) return report;
  const MapReader map = top.Map("report", {"mode", "period", "heartbeat"});
  report.mode = map.OneOf("mode", report.mode,
                          {{"periodic", ReportMode::kPeriodic}, {"on-threshold", ReportMode::kOnThreshold}});
  report.period = map.Time("period", report.period, 1ms, 10s);
  report.heartbeat = map.Time("heartbeat", report.heartbeat, 10ms, 60s);
  if (report.heartbeat < report.period)
    map.FailAt(map.Has("heartbeat") ? "heartbeat" : "period", "expected heartbeat >= period");
  return report;
}

LearnConfig ReadLearn(const MapReader& top, MeterKind kind) {
  LearnConfig learn;
  if (!top.Has("learn")) return learn;
  if (kind == MeterKind::kCpu) top.FailAt("learn", "expected only with meter kind: latency");
  learn.workers = top.Map("learn", {"workers"}).Integer("workers", learn.workers, 1, 65535);
  return learn;
}

ErrorAnswers ReadErrorAnswers(const MapReader& failing, const MeterConfig& meter) {
  constexpr char kExpected[] = "expected a list of servfail, refused and http-5xx, or [] for no answer";
  ErrorAnswers errors;
  if (!failing.Has("errors")) return errors;
  errors = {false, false, false};
  const YAML::Node list = failing.Require("errors", "");
  if (!list.IsSequence()) failing.FailAt("errors", kExpected);
  for (const auto& item : list) {
    const std::string word = item.IsScalar() ? item.Scalar() : "";
    if (word != "servfail" && word != "refused" && word != "http-5xx")
      FailAt(item, "failing.errors", kExpected);
    if (word != "http-5xx" && !meter.dns)
      FailAt(item, "failing.errors",
             fmt::format("expected meter.protocol: dns with {}: DNS is not read otherwise", word));
    (word == "servfail" ? errors.servfail : word == "refused" ? errors.refused : errors.http_5xx) = true;
  }
  return errors;
}

FailingConfig ReadFailing(const MapReader& top, const MeterConfig& meter) {
  FailingConfig failing;
  if (!top.Has("failing")) return failing;
  if (meter.kind == MeterKind::kCpu) top.FailAt("failing", "expected only with meter kind: latency");
  const MapReader map = top.Map("failing", {"detect", "after", "refused_share", "errors", "error_share"});
  failing.detect = map.OneOf("detect", failing.detect, {{"true", true}, {"false", false}});
  failing.after = map.Time("after", failing.after, 1ms, 600s);
  failing.refused_share = map.Number("refused_share", failing.refused_share, 0.01, 1);
  failing.errors = ReadErrorAnswers(map, meter);
  failing.error_share = map.Number("error_share", failing.error_share, 0.01, 1);
  return failing;
}

// A relative path is taken from the configuration's folder.
std::string BesideFile(const std::string& file_name, const std::filesystem::path& path) {
  return path.is_absolute() ? path.string()
                            : (std::filesystem::path(file_name).parent_path() / path).string();
}

AgentConfig Read(const YAML::Node& root, const std::string& file_name, MeteredBy metered_by) {
  const MapReader top(root, "",
                      {"switches", "server", "unit", "interface", "services", "meter", "trigger", "report",
                       "learn", "failing", "state_file"});
  AgentConfig config;
  config.switches = ReadSwitches(top);
  top.Require("server", "a mapping with keys code, key_file");
  const MapReader server = top.Map("server", {"code", "key_file"});
  server.Require("code", "the server's code in the pool, 0..4095");
  config.server_code = server.Integer("code", 0, 0, SPW_MAX_SERVERS - 1);
  server.Require("key_file", "a file with the server's key, 32 hex digits");
  config.key_file = BesideFile(file_name, server.Text("key_file", ""));
  const auto key = model::ReadKeyFile(config.key_file);
  if (!key) server.FailAt("key_file", "expected a file with 32 hex digits: " + key.error().message);
  config.key = *key;
  top.Require("unit", "the unit's index within its server, 0..7");
  config.unit = static_cast<uint8_t>(top.Integer("unit", 0, 0, SPW_UNITS_PER_SERVER - 1));
  config.state_file = BesideFile(
      file_name,
      top.Text("state_file", fmt::format("{}/{}-{}.boot", kStateFolder, config.server_code, config.unit)));
  config.meter = ReadMeter(top);
  if (metered_by == MeteredBy::kProgram) RefuseMeterOf(top, config.meter.kind);
  config.interface = top.Text("interface", "");
  if (config.interface.size() >= IFNAMSIZ) top.FailAt("interface", "expected an interface's name");
  if (config.meter.kind == MeterKind::kLatency) {
    top.Require("interface", "the interface that the unit's requests come in by");
    config.services = ReadServices(top);
  } else {
    for (const char* name : {"interface", "services"})
      if (top.Has(name)) top.FailAt(name, "expected only with meter kind: latency");
  }
  config.trigger = ReadTrigger(top, config.meter);
  config.report = ReadReport(top);
  config.learn = ReadLearn(top, config.meter.kind);
  config.failing = ReadFailing(top, config.meter);
  return config;
}

}  // namespace

Result<AgentConfig> ParseAgentConfig(std::string_view yaml, const std::string& file_name,
                                     MeteredBy metered_by) {
  try {
    return Read(YAML::Load(std::string(yaml)), file_name, metered_by);
  } catch (const ConfigError& error) {
    return Fail(ErrorCode::kBadInput, fmt::format("{}:{}: {}", file_name, error.line, error.message));
  } catch (const YAML::Exception& error) {
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}:{}: expected YAML: {}", file_name, error.mark.line + 1, error.msg));
  } catch (const std::exception& error) {  // yaml-cpp lets some of the standard library's through
    return Fail(ErrorCode::kBadInput, fmt::format("{}:1: expected YAML: {}", file_name, error.what()));
  }
}

Result<AgentConfig> LoadAgentConfig(const std::string& path, MeteredBy metered_by) {
  const auto text = model::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseAgentConfig(*text, path, metered_by);
}

}  // namespace spillway::agent
