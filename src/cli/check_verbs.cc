// SPDX-License-Identifier: Apache-2.0
#include "check_verbs.h"

#include <fmt/format.h>

#include <memory>

#include "cli/client_output.h"
#include "command/exit_code.h"
#include "extender/extender_check.h"
#include "model/key_file.h"
#include "model/parse.h"

namespace spillway::command {
namespace {

int Check(const std::string& path, bool as_json) {
  const std::string name = path == "-" ? "stdin" : path;
  const auto config = ReadInput(path)
                          .and_then([&](const std::string& text) { return model::ParseConfig(text, name); })
                          .and_then([&](model::Config read) {
                            return extender::CheckExtender(name, read).map([&] { return std::move(read); });
                          });
  if (!config) {
    if (as_json) PrintJson({{"file", path}, {"valid", false}, {"error", config.error().message}});
    return Complain(config.error());
  }
  for (const std::string& warning : model::SecretWarnings(*config))
    fmt::print(stderr, "{}: warning: {}\n", path, warning);
  size_t servers = 0, units = 0;
  for (const model::Pool& pool : config->pools) {
    servers += pool.servers.size();
    for (const model::Server& server : pool.servers) units += server.units.size();
  }
  if (as_json)
    PrintJson({{"file", path},
               {"valid", true},
               {"services", config->services.size()},
               {"pools", config->pools.size()},
               {"servers", servers},
               {"units", units},
               {"extender", config->extender.has_value()}});
  else
    fmt::print("{}: ok ({} services, {} pools, {} servers, {} units{})\n", path, config->services.size(),
               config->pools.size(), servers, units, config->extender ? ", an extender" : "");
  return kExitOk;
}

}  // namespace

void AddCheckVerbs(CLI::App& app, Context& context) {
  auto path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("check", "Say what is wrong with a pool file; needs no daemon");
  verb->add_option("FILE", *path, "Pool file, - for stdin")->required();
  verb->callback(
      [path, &context] { context.action = [path, &context] { return Check(*path, context.json); }; });
}

}  // namespace spillway::command
