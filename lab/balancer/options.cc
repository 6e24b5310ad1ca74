// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <CLI/CLI.hpp>

#include "command/option_checks.h"
#include "frame_port.h"

namespace spillway::balancer {

void AddOptions(CLI::App& app, Options& options) {
  app.add_option("--pool", options.pool_file, "The pool file of the switch")->type_name("FILE")->required();
  app.add_option("--service", options.choice.service, "Service of the pool file; of its ports, those of UDP")
      ->type_name("NAME")
      ->required();
  app.add_option("--server", options.choice.server, "The server whose requests come here")
      ->type_name("NAME")
      ->required();
  app.add_option("--interface", options.interface, "Interface on which requests arrive and leave")
      ->type_name("NAME")
      ->required();
  app.add_option_function<std::string>(
         "--front",
         [&options](const std::string& text) {
           const auto address = model::Address::Parse(text);
           if (!address)
             throw CLI::ValidationError("--front", "expected an IPv4 or IPv6 address, got " + text);
           options.choice.front = *address;
         },
         "The address that requests are sent to; no interface here may have it")
      ->type_name("ADDRESS")
      ->required();
  app.add_option_function<std::string>(
         "--mac",
         [&options](const std::string& text) {
           const auto mac = ParseMac(text);
           if (!mac) throw CLI::ValidationError("--mac", mac.error().message);
           options.mac = *mac;
         },
         "The front's MAC address; not the interface's own, so that the host's stack ignores its frames")
      ->type_name("MAC")
      ->required();
  app.add_option_function<std::string>(
         "--unit-policy",
         [&options](const std::string& word) {
           options.choice.policy = model::ParseUnitPolicy(word);
           if (!options.choice.policy) throw CLI::ValidationError("--unit-policy", "unknown: " + word);
         },
         "Instead of the service's own")
      ->type_name("POLICY");
  app.add_option("--report-port", options.report_port,
                 "UDP port for load reports (default: as the pool file says)")
      ->check(command::InRange(1, 65535));
}

}  // namespace spillway::balancer
