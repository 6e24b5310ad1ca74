// SPDX-License-Identifier: Apache-2.0
// agent.yaml in memory, and its parser. Errors are kBadInput with a line per problem, "file:line: key: what
// was expected". Plain values; no threads, no clock.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/yaml/reader.h"
#include "model/pool.h"

namespace spillway::agent {

// Where a switch listens: IPv4 or IPv6 address and UDP port.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
  std::string text;  // as it was written

  // "192.0.2.1:9870", "[2001:db8::1]:9870"; without a port, the report port's default.
  static std::optional<Endpoint> Parse(const std::string& text);
};

using Duration = std::chrono::nanoseconds;

struct ServicePort {
  bool tcp = false;
  uint16_t port = 0;  // host order
  bool operator==(const ServicePort&) const = default;
};

enum class MeterKind { kLatency, kCpu };
enum class MeterSource { kAuto, kBpf, kAfPacket };

inline constexpr const char* kNoCgroup = "none";

struct MeterConfig {
  MeterKind kind = MeterKind::kLatency;
  MeterSource source = MeterSource::kAuto;
  bool dns = false;                                  // UDP services speak DNS
  Duration timeout = std::chrono::seconds(10);       // a request unanswered for longer is given up
  Duration window = std::chrono::milliseconds(100);  // time constant of the smoothing
  uint32_t pending = 16384;                          // entries of the pending table, a power of two
  // The unit's control group. kind cpu: empty: the whole machine. kind latency: whose CPU quota is read;
  // empty: that of who serves the unit's services; kNoCgroup: none is read.
  std::string cgroup;
  bool operator==(const MeterConfig&) const = default;
};

struct TriggerConfig {
  double threshold = 0;             // kind latency: ns; kind cpu: share of the CPU time, 0..1
  double release_ratio = 0.5;       // available again below threshold * release_ratio
  Duration second_report_after{0};  // 0: off; else pulse mode
  uint32_t queue_high = 0;          // 0: no limit
  uint32_t release_queue = 1;       // a unit with no more requests than this has drained
  bool operator==(const TriggerConfig&) const = default;
};

enum class ReportMode { kPeriodic, kOnThreshold };

struct ReportConfig {
  ReportMode mode = ReportMode::kPeriodic;
  Duration period = std::chrono::milliseconds(20);  // of looking at the meter; periodic: of reports too
  Duration heartbeat = std::chrono::seconds(1);     // on-threshold: a report at least this often
  // periodic: of asking, in between, whether the switch still knows the unit; 0: never
  Duration check = std::chrono::milliseconds(1);

  bool Checks() const { return mode == ReportMode::kPeriodic && check > Duration{0} && check < period; }
  // Of a change until the switch is told.
  Duration ToldWithin() const {
    if (Checks()) return check;
    return mode == ReportMode::kPeriodic ? period : heartbeat;
  }
  bool operator==(const ReportConfig&) const = default;
};

// Answers that say that the server failed. Of DNS only with MeterConfig::dns.
struct ErrorAnswers {
  bool servfail = true, refused = true;
  bool http_5xx = true;
  bool operator==(const ErrorAnswers&) const = default;
};

// When the agent says that its unit fails: failure_detector.h.
struct FailingConfig {
  bool detect = true;
  Duration after{0};           // without an answer; 0: by the latency to be expected
  double refused_share = 0.5;  // of the requests and connections
  ErrorAnswers errors;
  double error_share = 0.5;  // of the answers
  bool operator==(const FailingConfig&) const = default;
};

struct LearnConfig {
  uint32_t workers = 0;  // that the unit works on at once; 0: not known
  bool operator==(const LearnConfig&) const = default;
};

using model::Key;

struct AgentConfig {
  std::vector<Endpoint> switches;
  uint16_t server_code = 0;
  std::string key_file;
  Key key{};
  uint8_t unit = 0;
  std::string state_file;  // keeps the boot id, reporter.h
  std::string interface;
  std::vector<ServicePort> services;
  MeterConfig meter;
  TriggerConfig trigger;
  ReportConfig report;
  LearnConfig learn;
  FailingConfig failing;
  yaml::Places places;  // of `interface` and `meter.cgroup`
};

// Who takes the readings: the agent, by its meter, or the program that reports itself, for which of `meter`
// only `kind: cpu` says something.
enum class MeteredBy { kAgent, kProgram };

// `file_name` appears in messages and is the base of a relative key_file. Reads the key file.
[[nodiscard]] Result<AgentConfig> ParseAgentConfig(std::string_view yaml, const std::string& file_name,
                                                   MeteredBy metered_by = MeteredBy::kAgent);
[[nodiscard]] Result<AgentConfig> LoadAgentConfig(const std::string& path,
                                                  MeteredBy metered_by = MeteredBy::kAgent);

// A key as docs/agent.md lists it.
struct KeyInfo {
  std::string path;      // "meter.timeout"
  std::string takes;     // "1ms..10m", "latency, cpu", "text"
  std::string fallback;  // "10s", "required"
};

// Every key of the file, in the order in which it is read.
std::vector<KeyInfo> AgentKeys();

}  // namespace spillway::agent
