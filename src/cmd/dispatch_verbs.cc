// SPDX-License-Identifier: Apache-2.0
#include "dispatch_verbs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "cmd/exit_code.h"
#include "lab/testbed/testbed.h"

namespace spillway::cmd {
namespace {

// Returns only if the program cannot be started.
int Become(const std::string& program, std::string typed, std::vector<std::string> words) {
  const std::string path = lab::ProgramFolder() + "/" + program;
  words.insert(words.begin(), std::move(typed));  // its argv[0]: help names it
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  const int error = errno;
  // ./demo builds only what it runs.
  fmt::print(stderr, "spillway: cannot start {}: {}{}\n", path, std::strerror(error),
             error == ENOENT ? "; `cmake --build` of the whole project makes it" : "");
  return kExitFailed;
}

void AddVerb(CLI::App& group, const char* name, const char* about, const char* program, const char* own_name,
             Context& context) {
  CLI::App* verb = group.add_subcommand(name, about);
  verb->set_help_flag();
  verb->fallthrough(false);
  verb->allow_extras();
  verb->callback([verb, program, own_name, &context] {
    context.action = [verb, program, own_name, &context] {
      std::vector<std::string> words = verb->remaining();
      if (context.json) words.insert(words.begin(), "--json");
      words.insert(words.begin(), own_name);
      return Become(program, fmt::format("spillway {} {}", verb->get_parent()->get_name(), verb->get_name()),
                    std::move(words));
    };
  });
}

}  // namespace

void AddDispatchVerbs(CLI::App& bench, CLI::App& lab, Context& context) {
  AddVerb(bench, "dispatch", "Events a second through the dispatcher, its latency, its peers",
          "spillway-dispatch", "bench", context);
  AddVerb(lab, "kvs", "A key-value server behind rss, steal, dispatch and remote", "spillway-dispatch", "kvs",
          context);
  AddVerb(bench, "gateway", "Requests through the four designs, with an idle and a busy host",
          "spillway-executor", "bench", context);
}

}  // namespace spillway::cmd
