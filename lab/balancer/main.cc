// SPDX-License-Identifier: Apache-2.0
// spillway-nic-balancer: a server's requests balanced over its units by a program on its SmartNIC. Statistics
// as one JSON line on stdout at the end, which SIGINT and SIGTERM bring. Exit codes: 0 done, 1 failed, 2 bad
// usage or input.
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/print.h"
#include "command/output.h"
#include "command/program.h"
#include "loop.h"
#include "model/parse.h"
#include "options.h"

namespace {

using namespace spillway;

int Complain(const Error& error) {
  base::PrintError("spillway-nic-balancer: {}\n", error.message);
  return error.code == ErrorCode::kBadInput ? 2 : 1;
}

int Balance(const balancer::Options& options) {
  const auto config = model::LoadConfig(options.pool_file);
  if (!config) return Complain(config.error());
  spw_seed seed;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) return 1;
  auto decides = balancer::ServerBalancer::Make(*config, options.choice, options.mac, seed);
  if (!decides) return Complain(decides.error());

  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int stop_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);

  auto port = balancer::FramePort::Open(options.interface, options.mac);
  if (!port) return Complain(port.error());
  const auto& report = config->data_plane.report;
  const uint16_t report_port = options.report_port != 0 ? options.report_port
                               : report                 ? report->port
                                                        : SPW_REPORT_PORT;
  // Last: whoever sees this port bound knows that requests are taken.
  const auto report_fd = balancer::OpenReportSocket(report_port);
  if (!report_fd) return Complain(report_fd.error());
  base::PrintError("spillway-nic-balancer: {} at {} on {}, {} units\n", options.choice.service,
                   options.choice.front.ToString(), options.interface, decides->unit_names().size());

  const auto traffic = balancer::Run(*decides, **port, *report_fd, stop_fd);
  close(*report_fd);
  close(stop_fd);
  if (!traffic) return Complain(traffic.error());
  base::Print("{}\n", balancer::ToJson(*decides, *traffic).dump());
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Balances one server's UDP requests over its units, in user space, on its SmartNIC.",
               "spillway-nic-balancer");
  balancer::Options options;
  balancer::AddOptions(app, options);
  if (const auto ended = command::ParseCommandLine(app, argc, argv)) return *ended;
  return Balance(options);
}

}  // namespace

int main(int argc, char** argv) { return command::EndOutput(Main(argc, argv), "spillway-nic-balancer"); }
