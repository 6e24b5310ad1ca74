// SPDX-License-Identifier: Apache-2.0
#include "daemon_options.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "api/listen.h"
#include "base/paths.h"
#include "base/version.h"
#include "command/exit_code.h"
#include "command/output.h"
#include "command/parse_arguments.h"

namespace spillway::command {
namespace {

std::string CheckInstance(const std::string& name) {
  const bool good = !name.empty() && name.size() <= 32 && name.front() != '.' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) || c == '.' || c == '_' || c == '-';
                    });
  return good ? "" : "expected 1 to 32 letters, digits, '.', '_' or '-', not starting with '.', got " + name;
}

std::string CheckMetrics(const std::string& text) {
  const auto good = api::CheckEndpoint(text);
  return good ? "" : good.error().message;
}

std::string CheckApi(const std::string& text) {
  const auto path = api::ParseApiOption(text);
  return path ? "" : path.error().message;
}

}  // namespace

std::string DefaultApi(const DaemonOptions& options) {
  return options.run_dir + (options.instance == "default" ? "/api.sock" : "/" + options.instance + ".sock");
}

std::string DefaultStateDir(const DaemonOptions& options) {
  return options.run_dir == DaemonOptions().run_dir ? "/var/lib/spillway" : options.run_dir;
}

std::variant<DaemonOptions, int> ParseDaemonOptions(int argc, char** argv) {
  DaemonOptions o;
  CLI::App app(
      "Spillway's daemon: loads the switch into the kernel, keeps it configured and reports its state.",
      "spillwayd");
  app.set_version_flag("--version", base::VersionLine("spillwayd"));
  app.add_option("-c,--config", o.config, "Pool file (YAML), see docs/pool-file.md")->type_name("FILE");
  app.add_option("--instance", o.instance, "Names pins, lock and saved state; one per network namespace")
      ->type_name("NAME")
      ->capture_default_str()
      ->check(CLI::Validator(CheckInstance, ""));
  app.add_option("--api", o.api,
                 "UNIX socket of the API [RUN_DIR/api.sock; of a named instance RUN_DIR/NAME.sock]")
      ->type_name("PATH")
      ->check(CLI::Validator(CheckApi, ""));
  app.add_option("--metrics", o.metrics, "Serve /metrics, and nothing else, on this TCP address too [off]")
      ->type_name("ADDRESS:PORT")
      ->check(CLI::Validator(CheckMetrics, ""));
  app.add_option("--bpffs", o.bpffs, "BPF file system, mounted if it is not")
      ->type_name("PATH")
      ->capture_default_str();
  app.add_option("--run-dir", o.run_dir, "Lock, saved state and sockets")
      ->type_name("PATH")
      ->capture_default_str();
  app.add_option(
         "--state-dir", o.state_dir,
         "What survives a reboot: the flow hash's seed, the last reports received [/var/lib/spillway; with "
         "--run-dir PATH, there]")
      ->type_name("PATH");
  app.add_option("--log-level", o.log_level, "What to log, to stderr")
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  auto* keep = app.add_flag("--keep", o.keep,
                            "Leave the data plane in place at exit, to be adopted by the next start");
  auto* remove = app.add_flag("--remove", o.remove, "Remove what the instance left behind, then exit");
  auto* check = app.add_flag("--check", o.check, "Check the pool file, print what is wrong, then exit");
  remove->excludes(keep)->excludes(check);
  app.footer(
      "SIGHUP re-reads FILE, all or nothing. SIGTERM and SIGINT remove the data plane unless --keep.\n" +
      std::string(kDaemonExitCodes));
  try {
    app.parse(argc, argv);
    if (o.config.empty() && !o.remove)
      throw CLI::RequiredError("-c FILE (a pool file, docs/pool-file.md), or --remove,");
    if (!o.api.empty()) o.api = *api::ParseApiOption(o.api);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? PrintAsked(app, e) : Complain(UsageError(e), "spillwayd");
  }
  if (!o.config.empty()) o.config = base::AbsolutePath(o.config);  // as `apply` names files
  if (o.api.empty()) o.api = DefaultApi(o);
  if (o.state_dir.empty()) o.state_dir = DefaultStateDir(o);
  return o;
}

}  // namespace spillway::command
