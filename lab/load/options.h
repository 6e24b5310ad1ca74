// SPDX-License-Identifier: Apache-2.0
// spillway-load's command line, and what it says of a run. Pure but for CLI11's own help text.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrivals.h"
#include "base/socket_address.h"

namespace CLI {
class App;
}

namespace spillway::load {

enum class Protocol { kUdp, kTcp, kHttp, kHttps };

struct PortRange {
  std::uint16_t low = 0, high = 0;  // inclusive
};

struct Settings {
  base::SocketAddress target;
  Protocol protocol = Protocol::kUdp;
  std::string path = "/";  // of http and https
  Process arrivals = Process::kPoisson;
  double rate = 1000;                                           // requests per second
  std::chrono::nanoseconds duration{std::chrono::seconds(10)};  // measured
  std::chrono::nanoseconds warmup{0};                           // before it: sent, not measured
  std::chrono::nanoseconds timeout{std::chrono::seconds(1)};    // after it a request counts as lost
  std::uint64_t seed = 1;

  // Each request from the next of a pool of UDP sockets, or over a TCP connection of its own.
  bool flow_per_request = false;
  std::size_t flows = 0;  // sockets or connections; 0: 64, or with flow_per_request as many as sensible
  std::vector<base::SocketAddress> sources;  // addresses to send from, in turn; none: the kernel's choice
  std::optional<PortRange> source_ports;     // none: the kernel's choice
  bool reset_close = false;  // TCP per request: end with RST, which leaves no TIME_WAIT behind

  std::uint32_t payload_bytes = 0;
  std::uint32_t cost_milli = 1000;
  std::chrono::nanoseconds interval{0};  // also figures per interval of this length; 0: none

  [[nodiscard]] double ExpectedRequests() const {
    return rate * std::chrono::duration<double>(warmup + duration).count();
  }
};

struct Options {
  Settings settings;
  std::string samples_path;  // empty: none
  bool samples_csv = false;  // else binary
  bool realtime = false;     // the program asks for real-time priority
  bool quiet = false;        // no progress on stderr
};

// Declares spillway-load's options on `app`; `options` is filled when it parses and outlives it.
void AddOptions(CLI::App& app, Options& options);

}  // namespace spillway::load
