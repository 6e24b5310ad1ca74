// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/program_folder.h"
#include "base/version.h"
#include "command/exit_code.h"
#include "command/json_flag.h"
#include "command/parse_arguments.h"

namespace spillway::command {

int RunCommandLine(int argc, char** argv, const AddVerbs& add, const CheckOptions& check) {
  Context context;
  CLI::App app("Spillway: an accelerator-aware layer 4 load balancer.", "spillway");
  app.set_version_flag("--version", base::VersionLine("spillway"));
  app.add_flag("--json", context.json, kJsonHelp);
  app.add_option("--api", context.api, "The daemon's UNIX socket")
      ->type_name("PATH=/run/spillway/api.sock")
      ->envname("SPILLWAY_API");
  app.require_subcommand(1);
  app.fallthrough();  // --json and --api may follow the verb
  app.footer(kExitCodes);
  app.failure_message([](const CLI::App*, const CLI::Error& e) { return UsageError("spillway", e.what()); });
  add(app, context);

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
  if (check) {
    if (const auto ended = check(context)) return *ended;
  }
  return context.action();
}

int RunVerbProgram(int argc, char** argv, const char* verb, const AddVerbs& add) {
  std::vector<char*> words(argv, argv + argc);
  std::string group = verb;
  if (argc == 0 || std::filesystem::path(argv[0]).filename() != "spillway")
    words.insert(words.begin() + std::min(argc, 1), group.data());
  words.push_back(nullptr);
  return RunCommandLine(static_cast<int>(words.size()) - 1, words.data(), add);
}

int BecomeVerbProgram(const std::string& verb, int argc, char** argv) {
  const std::string path = fmt::format("{}/spillway-{}", base::ProgramFolder(), verb);
  std::string name = "spillway";  // what the user typed, for the help and for RunVerbProgram
  std::vector<char*> words(argv, argv + argc);
  words.front() = name.data();
  words.push_back(nullptr);
  execv(path.c_str(), words.data());
  const int error = errno;
  fmt::print(
      stderr, "spillway: cannot start {}: {}{}\n", path, std::strerror(error),
      error == ENOENT ? fmt::format("; it comes with the build target or package spillway-{}", verb) : "");
  return kExitFailed;
}

}  // namespace spillway::command
