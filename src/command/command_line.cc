// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/near_word.h"
#include "base/paths.h"
#include "base/print.h"
#include "base/version.h"
#include "command/exit_code.h"
#include "command/json_flag.h"
#include "command/output.h"
#include "command/parse_arguments.h"

namespace spillway::command {
namespace {

// The verb that the words chose, and its name, "lab up: "; the program itself, and nothing, where they chose
// none.
std::pair<const CLI::App*, std::string> ChosenVerb(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string name;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().back();
    name += (name.empty() ? "" : " ") + at->get_name();
  }
  return {at, name.empty() ? "" : name + ": "};
}

int BadUsage(const CLI::App& app, const CLI::ParseError& thrown) {
  Error error = UsageError(thrown);
  error.message.insert(0, ChosenVerb(app).second);
  return Complain(error);
}

// " (did you mean show?)", or nothing.
std::string Meant(const std::string& word, const std::vector<std::string>& verbs) {
  const std::string_view near = base::NearWord(word, {verbs.begin(), verbs.end()});
  return near.empty() ? "" : fmt::format(" (did you mean {}?)", near);
}

// CLI11 says that a verb is missing, not that it does not know the one it was given.
std::optional<int> VerbMissing(CLI::App& app) {
  const auto [at, name] = ChosenVerb(app);
  if (at->get_require_subcommand_min() == 0) return std::nullopt;
  const auto words = app.remaining(true);
  if (!words.empty() && words[0].starts_with('-'))
    return Complain({ErrorCode::kBadInput, fmt::format("unknown option {}", words[0])});
  std::vector<std::string> verbs;
  for (const CLI::App* verb : at->get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  return Complain(
      {ErrorCode::kBadInput, fmt::format("{}expected a verb ({}), got {}", name, fmt::join(verbs, ", "),
                                         words.empty() ? "none" : words[0] + Meant(words[0], verbs))});
}

// As RunCommandLine, but for output that is lost.
int Run(int argc, char** argv, const AddVerbs& add, const CheckOptions& check) {
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
  add(app, context);

  ShowJsonFlag(app, context.json);
  PrintErrorsAsJson(AsksForJson(argc, argv));
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::RequiredError& e) {
    const auto ended = VerbMissing(app);
    return ended ? *ended : BadUsage(app, e);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? PrintAsked(app, e) : BadUsage(app, e);
  }
  if (check) {
    if (const auto ended = check(context)) return *ended;
  }
  try {
    return context.action();
  } catch (const nlohmann::json::exception& e) {
    // What answered is no daemon of ours, or one of another version.
    return Complain({ErrorCode::kSystem, std::string("unexpected answer: ") + e.what()});
  } catch (const std::bad_alloc&) {
    return Complain({ErrorCode::kSystem, "out of memory"});
  }
}

}  // namespace

int RunCommandLine(int argc, char** argv, const AddVerbs& add, const CheckOptions& check) {
  base::HoldStandardStreams();
  return EndOutput(Run(argc, argv, add, check));
}

int RunVerbProgram(int argc, char** argv, const char* verb, const AddVerbs& add) {
  std::vector<char*> words(argv, argv + argc);
  std::string group = verb;
  if (argc == 0 || std::filesystem::path(argv[0]).filename() != "spillway")
    words.insert(words.begin() + std::min(argc, 1), group.data());
  words.push_back(nullptr);
  return RunCommandLine(static_cast<int>(words.size()) - 1, words.data(), add);
}

int BecomeVerbProgram(const std::string& verb, const std::string& component, int argc, char** argv) {
  const std::string path = fmt::format("{}/spillway-{}", base::ProgramFolder(), verb);
  std::string name = "spillway";  // what the user typed, for the help and for RunVerbProgram
  std::vector<char*> words(argv, argv + argc);
  words.front() = name.data();
  words.push_back(nullptr);
  execv(path.c_str(), words.data());
  const int error = errno;
  return Complain(
      {ErrorCode::kUnavailable,
       fmt::format(
           "cannot start {}: {}{}", path, std::strerror(error),
           error == ENOENT
               ? fmt::format("; the build target spillway-{} makes it, cmake --install --component {} "
                             "installs it",
                             verb, component)
               : "")});
}

}  // namespace spillway::command
