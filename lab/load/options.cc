// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "command/option_checks.h"
#include "lab/unit/options.h"
#include "lab/unit/wire.h"

namespace spillway::load {

namespace {

// Ids are 32 bits wide and records are kept in memory (32 bytes each).
constexpr double kMaxRequests = 200e6;

PortRange ParsePorts(const std::string& text) {
  PortRange range;
  const char* end = text.data() + text.size();
  const auto [dash, low_error] = std::from_chars(text.data(), end, range.low);
  bool ok = low_error == std::errc() && dash != end && *dash == '-';
  if (ok) {
    const auto [rest, high_error] = std::from_chars(dash + 1, end, range.high);
    ok = high_error == std::errc() && rest == end;
  }
  if (!ok || range.low == 0 || range.low > range.high)
    throw CLI::ValidationError("--source-ports",
                               fmt::format("\"{}\": expected LOW-HIGH, e.g. 20000-39999", text));
  return range;
}

void CheckTogether(const Settings& s) {
  if (s.duration.count() == 0) throw CLI::ValidationError("--duration", "must be longer than 0");
  if (s.timeout.count() == 0) throw CLI::ValidationError("--timeout", "must be longer than 0");
  if (s.ExpectedRequests() > kMaxRequests)
    throw CLI::ValidationError("--rate", "more than 200 million requests: lower --rate or --duration");
  for (const base::SocketAddress& source : s.sources) {
    if (source.family() != s.target.family())
      throw CLI::ValidationError("--source", "not of the target's address family");
  }
  if (s.protocol == Protocol::kUdp && s.payload_bytes > unit::kMaxUdpPayloadBytes)
    throw CLI::ValidationError("--payload",
                               fmt::format("at most {} bytes over UDP", unit::kMaxUdpPayloadBytes));
  const bool http = s.protocol == Protocol::kHttp || s.protocol == Protocol::kHttps;
  if (http &&
      (!s.flow_per_request || s.flows != 0 || !s.sources.empty() || s.source_ports || s.payload_bytes != 0))
    throw CLI::ValidationError(
        "--protocol",
        "http and https take --flow-per-request, and none of --flows, --source, --source-ports, --payload");
  if (http && !s.path.starts_with('/')) throw CLI::ValidationError("--path", "must begin with /");
  if (s.reset_close && !(s.protocol == Protocol::kTcp && s.flow_per_request))
    throw CLI::ValidationError("--reset-close", "only with --protocol tcp --flow-per-request");
  if (s.protocol == Protocol::kTcp && s.flow_per_request && s.flows != 0)
    throw CLI::ValidationError("--flows", "TCP with --flow-per-request opens a connection for each request");
  if (s.flows != 0 && s.source_ports && s.protocol == Protocol::kUdp) {
    const std::size_t ports = static_cast<std::size_t>(s.source_ports->high - s.source_ports->low) + 1;
    const std::size_t sources = ports * std::max<std::size_t>(1, s.sources.size());
    if (s.flows > sources)
      throw CLI::ValidationError("--flows", fmt::format("--source-ports and --source give only {}", sources));
  }
}

// What is asked for, of whom, and when.
void AddRequestOptions(CLI::App& app, Settings& s) {
  app.add_option_function<std::string>(
         "--target",
         [&s](const std::string& text) {
           const Result<base::SocketAddress> address = base::SocketAddress::Parse(text);
           if (!address) throw CLI::ValidationError("--target", address.error().message);
           s.target = *address;
         },
         "Where requests go, e.g. 203.0.113.53:53 or [2001:db8::53]:53")
      ->type_name("ADDRESS:PORT")
      ->required();
  app.add_option_function<std::string>(
         "--protocol",
         [&s](const std::string& name) {
           s.protocol = name == "tcp"     ? Protocol::kTcp
                        : name == "http"  ? Protocol::kHttp
                        : name == "https" ? Protocol::kHttps
                                          : Protocol::kUdp;
         },
         "The units' own protocol over UDP or TCP, or HTTP/1.1 without or with TLS (certificates unchecked)")
      ->check(CLI::IsMember({"udp", "tcp", "http", "https"}))
      ->default_str("udp");
  app.add_option("--path", s.path, "What HTTP asks for");
  app.add_option("--rate", s.rate, "Requests per second, answered or not")
      ->check(command::InRange(0.001, 1e7));
  app.add_option_function<std::string>(
         "--arrivals",
         [&s](const std::string& name) {
           s.arrivals = name == "constant" ? Process::kConstant
                        : name == "bursty" ? Process::kBursty
                                           : Process::kPoisson;
         },
         "Gaps between requests: poisson (independent clients), constant, or bursty (poisson at twice the "
         "rate "
         "for 20 ms, then a pause of 20 ms)")
      ->check(CLI::IsMember({"poisson", "constant", "bursty"}))
      ->default_str("poisson");
}

// Where requests come from.
void AddFlowOptions(CLI::App& app, Settings& s) {
  app.add_option(
      "--flows", s.flows,
      "UDP sockets or TCP connections, used in turn; 0: 64, or with --flow-per-request up to 16384 "
      "UDP sockets or all of --source-ports");
  app.add_flag("--flow-per-request", s.flow_per_request,
               "Each request is a flow of its own: the next UDP socket of the pool, or a new TCP connection");
  app.add_option_function<std::vector<std::string>>(
         "--source",
         [&s](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const Result<base::SocketAddress> address = base::SocketAddress::ParseHost(text);
             if (!address) throw CLI::ValidationError("--source", address.error().message);
             s.sources.push_back(*address);
           }
         },
         "Address to send from; several are used in turn")
      ->type_name("ADDRESS");
  app.add_option_function<std::string>(
         "--source-ports", [&s](const std::string& text) { s.source_ports = ParsePorts(text); },
         "Ports to send from; ports in use are passed over")
      ->type_name("LOW-HIGH");
  app.add_flag("--reset-close", s.reset_close,
               "End a request's connection with RST: leaves no TIME_WAIT, but is not how clients end");
}

}  // namespace

void AddOptions(CLI::App& app, Options& options) {
  Settings& s = options.settings;
  app.option_defaults()->always_capture_default();
  AddRequestOptions(app, s);
  unit::AddDuration(app, "--duration", s.duration, "Time measured");
  unit::AddDuration(app, "--warmup", s.warmup, "Time before it, sent but not measured");
  unit::AddDuration(app, "--timeout", s.timeout, "A request without an answer for so long is lost");
  AddFlowOptions(app, s);
  app.add_option("--payload", s.payload_bytes, "Bytes behind the 16-byte request, echoed in the answer")
      ->check(command::InRange(0u, unit::kMaxPayloadBytes));
  app.add_option("--cost", s.cost_milli, "Service time asked for, in thousandths of the unit's own")
      ->check(command::InRange(0u, unit::kMaxCostMilli));
  app.add_option("--seed", s.seed, "Seed of the arrivals");
  unit::AddDuration(app, "--interval", s.interval, "Also figures for each interval of this length; 0: none");
  app.add_option("--samples", options.samples_path, "Write every request's record to this file")
      ->type_name("FILE")
      ->check(command::NonEmpty());
  app.add_option_function<std::string>(
         "--samples-format", [&options](const std::string& name) { options.samples_csv = name == "csv"; },
         "Of --samples: csv, or binary (32 bytes a request)")
      ->check(CLI::IsMember({"csv", "binary"}))
      ->default_str("binary");
  app.add_flag(
      "--realtime", options.realtime,
      "Run at real-time priority, so that other programs do not delay requests (needs CAP_SYS_NICE)");
  app.add_flag("--quiet", options.quiet, "No progress on stderr");
  app.final_callback([&s] { CheckTogether(s); });
}

}  // namespace spillway::load
