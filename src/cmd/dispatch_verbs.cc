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

void AddDispatchVerbs(CLI::App& bench, CLI::App& lab) {
  bench.add_subcommand("dispatch", "Events a second through the dispatcher, its latency, its peers");
  lab.add_subcommand("kvs", "A key-value server behind rss, steal, dispatch and remote");
}

std::optional<int> BecomeDispatchProgram(int argc, char** argv) {
  std::vector<std::string> words = {lab::ProgramFolder() + "/spillway-dispatch"};
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {  // what may stand before a verb
    const std::string option = argv[i];
    if (option == "--json")
      words.push_back(option);
    else if (option == "--api")
      i++;
    else if (!option.starts_with("--api="))
      return std::nullopt;
  }
  if (i + 1 >= argc) return std::nullopt;
  const std::string verb = std::string(argv[i]) + " " + argv[i + 1];
  if (verb == "bench dispatch")
    words.push_back("bench");
  else if (verb == "lab kvs")
    words.push_back("kvs");
  else
    return std::nullopt;
  words.insert(words.end(), argv + i + 2, argv + argc);

  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  fmt::print(stderr, "spillway: cannot start {}: {}\n", words[0], std::strerror(errno));
  return kExitFailed;
}

}  // namespace spillway::cmd
