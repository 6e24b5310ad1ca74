// SPDX-License-Identifier: Apache-2.0
#include "gateway_verb.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "base/print.h"
#include "bench/gateway/gateway_bench.h"
#include "bench/gateway/present.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "report/progress.h"

namespace spillway::command {
namespace {

int BenchGateway(const bench::GatewayBenchOptions& options, bool as_json) {
  spdlog::set_level(spdlog::level::err);
  report::Progress progress("bench gateway");
  const auto document = bench::RunGatewayBench(
      options, [&](double fraction, const std::string& message) { progress.Update(fraction, message); });
  if (!document) return Complain(document.error());
  progress.Finish("done");
  if (!options.folder.empty())
    if (const auto written = bench::WriteGatewayPage(*document, options.folder); !written)
      return Complain(written.error());
  base::Print("{}", as_json ? document->Dump() : bench::GatewayText(*document));
  return kExitOk;
}

}  // namespace

void AddGatewayVerb(CLI::App& bench, Context& context) {
  auto options = std::make_shared<bench::GatewayBenchOptions>();
  options->namespaces = geteuid() == 0;
  options->awake = bench::DefaultAwake(std::thread::hardware_concurrency());
  CLI::App* verb =
      bench.add_subcommand("gateway", "Requests through the four designs, with an idle and a busy host");
  verb->add_option("--rounds", options->rounds, "Rounds over all rows")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb->add_option_function<int>(
          "--ms", [options](int ms) { options->duration = std::chrono::milliseconds(ms); },
          "Length of one measurement in milliseconds (300)")
      ->check(InRange(5, 100'000));
  verb->add_option_function<std::vector<size_t>>(
          "--bytes",
          [options](const std::vector<size_t>& bytes) {
            options->bytes = bytes;
            for (size_t& one : options->bytes) one &= ~size_t{3};
          },
          "Bytes of a request's input, one or a list with commas (602112, an image of 224 x 224)")
      ->delimiter(',')
      ->check(InRange(size_t{64}, size_t{16} << 20));
  verb->add_option("--kernel-us", options->kernel_us,
                   "Microseconds that a slice takes per request, one or a list with commas")
      ->delimiter(',')
      ->check(InRange(1.0, 1e6))
      ->capture_default_str();
  verb->add_option("--concurrency", options->concurrency,
                   "Clients, each with one request at a time, or a list")
      ->delimiter(',')
      ->check(InRange(1U, 64U))
      ->capture_default_str();
  verb->add_option("--loads", options->loads, "Percent of the host's CPU that others take, a list")
      ->delimiter(',')
      ->check(InRange(0, 90))
      ->capture_default_str();
  verb->add_option_function<int>(
          "--spin-us", [options](int us) { options->spin = std::chrono::microseconds(us); },
          "Spin time before sleeping, microseconds (200)")
      ->check(InRange(0, 10'000));
  verb->add_option_function<std::string>(
          "--awake",
          [options](const std::string& who) {
            options->awake = who == "all"   ? bench::Awake::kAll
                             : who == "nic" ? bench::Awake::kNic
                                            : bench::Awake::kNone;
          },
          "Which side busy-polls: the gateway and the deciders on the host, the gateway alone, neither "
          "(all; none on fewer than four CPUs)")
      ->check(CLI::IsMember({"all", "nic", "none"}));
  verb->add_option_function<std::string>(
          "--engine", [options](const std::string& engine) { options->cuda = engine == "cuda"; },
          "Slices: emulated, or cuda, on the first GPU (emulated)")
      ->check(CLI::IsMember({"emulated", "cuda"}));
  verb->add_flag("--variants", options->variants,
                 "Also a gateway that sleeps while slices work, and data sent over TCP");
  verb->add_flag_callback(
      "--loopback", [options] { options->namespaces = false; },
      "All on loopback; otherwise (as root) client, NIC and host each get their own namespace");
  verb->add_flag("--quick", options->quick, "At most two rounds, a third of the time");
  verb->add_option("--out", options->folder, "Also write gateway.json, gateway.html and gateway.svg there")
      ->type_name("DIR")
      ->check(NonEmpty());
  verb->callback([options, &context] {
    context.action = [options, &context] { return BenchGateway(*options, context.json); };
  });
}

}  // namespace spillway::command
