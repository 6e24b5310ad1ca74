// SPDX-License-Identifier: Apache-2.0
// spillway: the command line. Each verb group adds its own; this file wires.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "api/listen.h"
#include "cmd/bench_verbs.h"
#include "cmd/change_verbs.h"
#include "cmd/check_verbs.h"
#include "cmd/client_output.h"
#include "cmd/context.h"
#include "cmd/dispatch_verbs.h"
#include "cmd/doctor_verbs.h"
#include "cmd/exit_code.h"
#include "cmd/json_flag.h"
#include "cmd/lab_verbs.h"
#include "cmd/live_verbs.h"
#include "cmd/parse_arguments.h"
#include "cmd/plan_verbs.h"
#include "cmd/sched_verbs.h"
#include "cmd/show_verbs.h"
#include "cmd/sim_verbs.h"
#include "cmd/typed_name.h"

namespace spillway::cmd {
namespace {

int Main(int argc, char** argv) {
  Context context;
  CLI::App app("Spillway: an accelerator-aware layer 4 load balancer.", "spillway");
  app.set_version_flag("--version", "spillway " SPILLWAY_VERSION);
  app.add_flag("--json", context.json, kJsonHelp);
  app.add_option("--api", context.api, "The daemon's UNIX socket")
      ->type_name("PATH")
      ->envname("SPILLWAY_API")
      ->capture_default_str();
  app.require_subcommand(1);
  app.fallthrough();  // --json and --api may follow the verb
  app.footer(kExitCodes);
  app.failure_message([](const CLI::App*, const CLI::Error& e) { return UsageError("spillway", e.what()); });

  AddCheckVerbs(app, context);
  AddShowVerbs(app, context);
  AddChangeVerbs(app, context);
  AddLiveVerbs(app, context);
  AddDoctorVerbs(app, context);
  AddBenchVerbs(app, context);
  AddLabVerbs(app, context);
  AddSimVerbs(app, context);
  AddPlanVerbs(app, context);
  AddSchedVerbs(app, context);
  AddSchedBench(*app.get_subcommand("bench"), context);
  AddDispatchVerbs(*app.get_subcommand("bench"), *app.get_subcommand("lab"), context);

  ShowJsonFlag(app, context.json);
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::RequiredError& e) {
    // CLI11 says that a verb is missing, not that it does not know the one it was given.
    const CLI::App* at = &app;
    std::string path = "spillway";
    while (!at->get_subcommands().empty()) {
      at = at->get_subcommands().back();
      path += " " + at->get_name();
    }
    if (at->get_require_subcommand_min() > 0) {
      const auto words = app.remaining(true);
      if (words.empty())
        fmt::print(stderr, "spillway: {}: expected a verb; `{} --help` lists them\n", path, path);
      else
        fmt::print(stderr, "spillway: unknown {} {}; `{} --help` lists them\n",
                   words[0].starts_with('-') ? "option" : "verb", words[0], path);
      return kExitBadInput;
    }
    return app.exit(e) == 0 ? kExitOk : kExitBadInput;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitOk : kExitBadInput;
  }
  const auto socket = api::ParseApiOption(context.api);
  if (!socket) return Complain(socket.error());
  context.api = *socket;
  return context.action();
}

}  // namespace
}  // namespace spillway::cmd

int main(int argc, char** argv) { return spillway::cmd::Main(argc, argv); }
