// SPDX-License-Identifier: Apache-2.0
// spillway: the command line. Each verb group adds its own; this file wires.
#include <CLI/CLI.hpp>

#include "api/client.h"
#include "api/listen.h"
#include "cli/verbs.h"
#include "command/command_line.h"
#include "command/output.h"

namespace spillway::command {
namespace {

struct Program {
  const char* verb;
  const char* about;
  const char* component;  // of the installation, by which it comes
};

// Verbs with a program of their own, spillway-VERB.
constexpr Program kPrograms[] = {
    {"bench", "Measure on this machine; needs no daemon", "lab"},
    {"lab", "Testbeds in network namespaces, and experiments on them", "lab"},
    {"sim", "Simulate policies on modelled units, with the data plane's own decisions", "sim"},
    {"plan", "Which hardware to buy: servers, SmartNICs, how many of which", "planner"},
    {"sched", "The scheduler of GPU slices on its own; needs no daemon and no GPU", "scheduler"},
};

void AddProgram(CLI::App& app, Context& context, const Program& program, int argc, char** argv) {
  CLI::App* verb = app.add_subcommand(program.verb, program.about);
  // That program reads all words itself.
  verb->set_help_flag();
  verb->fallthrough(false);
  verb->prefix_command();
  verb->callback([&context, &program, argc, argv] {
    context.action = [&program, argc, argv] {
      return BecomeVerbProgram(program.verb, program.component, argc, argv);
    };
  });
}

std::optional<int> CheckApi(Context& context) {
  if (context.api.empty()) context.api = api::kDefaultSocket;
  const auto socket = api::ParseApiOption(context.api);
  if (!socket) return Complain({socket.error().code, "--api: " + socket.error().message});
  context.api = *socket;
  return std::nullopt;
}

int Main(int argc, char** argv) {
  const auto add = [argc, argv](CLI::App& app, Context& context) {
    AddCheckVerbs(app, context);
    AddShowVerbs(app, context);
    AddChangeVerbs(app, context);
    AddLiveVerbs(app, context);
    AddModelVerbs(app, context);
    AddDoctorVerbs(app, context);
    for (const Program& program : kPrograms) AddProgram(app, context, program, argc, argv);
  };
  return RunCommandLine(argc, argv, add, CheckApi);
}

}  // namespace
}  // namespace spillway::command

int main(int argc, char** argv) { return spillway::command::Main(argc, argv); }
