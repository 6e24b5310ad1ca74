// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/paths.h"
#include "report/percentile.h"

namespace spillway::lab {
namespace {

// The number after the last space of a line.
std::optional<double> LastNumber(std::string_view line) {
  const size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  double value = 0;
  auto [end, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

bool RunsKnot(const TestbedSpec& spec) {
  for (const ServerSpec& server : spec.servers)
    for (const UnitSpec& unit : server.units)
      if (unit.runs == Workload::kKnot) return true;
  return false;
}

std::vector<std::string> DnsperfCommand(const Testbed& testbed, const LoadRun& run) {
  std::vector<std::string> argv = {"dnsperf",
                                   "-s",
                                   run.target.ToString(),
                                   "-p",
                                   fmt::format("{}", run.port.port),
                                   "-m",
                                   run.port.protocol == model::Protocol::kTcp ? "tcp" : "udp",
                                   "-d",
                                   testbed.plan().folder + "/queries.txt",
                                   "-l",
                                   fmt::format("{:.3f}", run.seconds),
                                   "-t",
                                   fmt::format("{:.3f}", run.timeout_s),
                                   "-c",
                                   fmt::format("{}", kDnsperfSockets),
                                   "-S",
                                   "100000",
                                   "-v"};
  // Open loop: no wait for answers, up to all that a timeout's worth of silence can leave open.
  const auto open = static_cast<uint64_t>(std::min(run.rate * run.timeout_s * 1.5 + 100, 1e6));
  argv.insert(argv.end(), {"-q", fmt::format("{}", run.rate > 0 ? open : run.outstanding)});
  if (run.rate > 0) argv.insert(argv.end(), {"-Q", fmt::format("{:.0f}", run.rate)});
  if (RunsKnot(testbed.spec())) argv.push_back("-D");  // ask for the signatures
  return argv;
}

const UnitSpec* RunsNginx(const TestbedSpec& spec) {
  for (const ServerSpec& server : spec.servers)
    for (const UnitSpec& unit : server.units)
      if (unit.runs == Workload::kNginx) return &unit;
  return nullptr;
}

std::string ProtocolOf(const ExperimentSpec& spec, const LoadRun& run) {
  if (const UnitSpec* nginx = RunsNginx(spec.testbed)) return nginx->nginx.tls ? "https" : "http";
  return run.port.protocol == model::Protocol::kTcp ? "tcp" : "udp";
}

// Each request is a flow of its own, as in P4Mite's experiments (ICNP 2022).
std::vector<std::string> SpillwayLoadCommand(const ExperimentSpec& spec, const LoadRun& run,
                                             const std::string& samples) {
  std::string host = run.target.ToString();
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  std::vector<std::string> argv = {base::ProgramFolder() + "/spillway-load",
                                   "--target",
                                   fmt::format("{}:{}", host, run.port.port),
                                   "--protocol",
                                   ProtocolOf(spec, run),
                                   "--rate",
                                   fmt::format("{:.3f}", run.rate),
                                   "--duration",
                                   fmt::format("{:.0f}us", run.seconds * 1e6),
                                   "--timeout",
                                   fmt::format("{:.0f}us", run.timeout_s * 1e6),
                                   "--arrivals",
                                   ToString(spec.arrivals),
                                   "--seed",
                                   fmt::format("{}", run.seed),
                                   "--flow-per-request",
                                   "--quiet",
                                   "--samples",
                                   samples,
                                   "--samples-format",
                                   "csv"};
  if (RunsNginx(spec.testbed) != nullptr) argv.insert(argv.end(), {"--path", spec.path});
  return argv;
}

}  // namespace

Result<Sample> ParseDnsperf(std::istream& out) {
  Sample sample;
  std::string line;
  bool complete = false;
  while (std::getline(out, line)) {
    if (line.starts_with("> ")) {
      if (!line.starts_with("> NOERROR ")) continue;
      if (auto seconds = LastNumber(line)) sample.latencies_ms.push_back(*seconds * 1e3);
    } else if (line.find("Queries sent:") != std::string::npos) {
      if (auto n = LastNumber(line)) sample.sent = static_cast<uint64_t>(*n);
    } else if (line.find("Run time (s):") != std::string::npos) {
      if (auto s = LastNumber(line)) sample.seconds = *s;
      complete = true;
    }
  }
  if (!complete || sample.seconds <= 0)
    return Fail(ErrorCode::kSystem, "dnsperf: its output ends before the statistics");
  if (sample.latencies_ms.size() > sample.sent)
    return Fail(ErrorCode::kSystem, "dnsperf: more answers than queries in its output");
  std::sort(sample.latencies_ms.begin(), sample.latencies_ms.end());
  return sample;
}

Result<Sample> ParseSamples(std::istream& csv) {
  constexpr int kIntended = 0, kSent = 1, kReceived = 2, kMeasured = 5, kFields = 6;
  Sample sample;
  std::vector<double> late_ms;
  std::string line;
  if (!std::getline(csv, line) || !line.starts_with("intended_ns,sent_ns,received_ns,"))
    return Fail(ErrorCode::kSystem, "spillway-load: it wrote no samples");
  while (std::getline(csv, line)) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
    if (fields.size() != kFields)
      return Fail(ErrorCode::kSystem, fmt::format("spillway-load: not a sample: {}", line));
    if (fields[kMeasured] != "1") continue;
    sample.sent++;
    const auto since_intended_ms = [&](int field) {
      const auto at = [&](int index) { return std::strtod(fields[index].c_str(), nullptr); };
      return (at(field) - at(kIntended)) / 1e6;
    };
    if (!fields[kSent].empty()) late_ms.push_back(since_intended_ms(kSent));
    if (!fields[kReceived].empty()) sample.latencies_ms.push_back(since_intended_ms(kReceived));
  }
  if (!late_ms.empty()) sample.late_p99_ms = report::PercentileOf(std::move(late_ms), 99);
  std::sort(sample.latencies_ms.begin(), sample.latencies_ms.end());
  return sample;
}

Result<Sample> RunLoad(const ExperimentSpec& spec, const Testbed& testbed, const LoadRun& run) {
  const bool is_dnsperf = spec.client == LoadClient::kDnsperf;
  const std::string samples = testbed.plan().folder + "/samples.csv";
  StartOptions o;
  o.argv = is_dnsperf ? DnsperfCommand(testbed, run) : SpillwayLoadCommand(spec, run, samples);
  o.netns = testbed.plan().client_netns;
  o.cpus = testbed.spec().cpus.client;
  if (!testbed.common_group().empty()) o.cgroup_procs = {testbed.common_group()};
  // A file in memory: a pipe would make the client wait for its reader.
  o.stdout_file = testbed.plan().folder + "/client.out";
  o.stderr_file = testbed.plan().folder + "/client.log";
  auto status = Start(o).and_then([](const ProcessId& id) { return Wait(id); });
  if (!status) return tl::make_unexpected(status.error());
  if (*status != 0)
    return Fail(ErrorCode::kSystem,
                fmt::format("{}: exit {}: {}", o.argv[0], *status, LastLine(o.stderr_file)));
  std::ifstream out(is_dnsperf ? o.stdout_file : samples);
  auto sample = is_dnsperf ? ParseDnsperf(out) : ParseSamples(out);
  // The run lasts until the last answer or timeout; queries were sent for run.seconds of it.
  if (sample) sample->seconds = run.seconds;
  if (sample) sample->asked = run.rate * run.seconds;
  return sample;
}

double LatencyPercentile(const Sample& sample, double percent, double timeout_s) {
  if (sample.sent == 0) return std::nan("");
  const auto rank =
      static_cast<size_t>(std::max(1.0, std::ceil(percent / 100 * static_cast<double>(sample.sent))));
  return rank <= sample.latencies_ms.size() ? sample.latencies_ms[rank - 1] : timeout_s * 1e3;
}

double AnsweredPct(const Sample& sample, double limit_ms) {
  if (sample.sent == 0) return std::nan("");
  const auto in_time = std::upper_bound(sample.latencies_ms.begin(), sample.latencies_ms.end(), limit_ms);
  return 100.0 * static_cast<double>(in_time - sample.latencies_ms.begin()) /
         static_cast<double>(sample.sent);
}

}  // namespace spillway::lab
