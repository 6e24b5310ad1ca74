// SPDX-License-Identifier: Apache-2.0
// spillway check.
#include "verbs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/print.h"
#include "base/yaml/documents.h"
#include "cli/client_output.h"
#include "command/exit_code.h"
#include "model/parse.h"
#include "model/warnings.h"

namespace spillway::command {
namespace {

// What one file's check found: its document, and its lines on stderr, with a text on stdout where that is
// wanted.
int CheckFile(const std::string& path, bool as_json, nlohmann::json& document) {
  const std::string name = yaml::InputName(path);
  const auto config =
      yaml::ReadInput(path).and_then([&](const std::string& text) { return model::ParseConfig(text, name); });
  if (!config) {
    document = {{"file", path},
                {"valid", false},
                {"error", config.error().message},
                {"code", CodeWord(config.error().code)}};
    return ComplainAfterData(config.error());
  }
  const std::vector<std::string> warnings = model::Warnings(*config);
  for (const std::string& warning : warnings) base::PrintError("spillway: {}: warning: {}\n", path, warning);
  size_t servers = 0, units = 0;
  for (const model::Pool& pool : config->pools) {
    servers += pool.servers.size();
    for (const model::Server& server : pool.servers) units += server.units.size();
  }
  document = {{"file", path},
              {"valid", true},
              {"services", config->services.size()},
              {"pools", config->pools.size()},
              {"servers", servers},
              {"units", units},
              {"warnings", warnings}};
  if (!as_json)
    base::Print("{}: ok ({}, {}, {}, {})\n", path, Counted(config->services.size(), "service"),
                Counted(config->pools.size(), "pool"), Counted(servers, "server"), Counted(units, "unit"));
  return kExitOk;
}

// All files, whatever is wrong with the first. Of one, its document is the answer; of several, a list of
// them.
int Check(const std::vector<std::string>& paths, bool as_json) {
  int worst = kExitOk;
  nlohmann::json documents = nlohmann::json::array();
  for (const std::string& path : paths) {
    documents.emplace_back();
    worst = std::max(worst, CheckFile(path, as_json, documents.back()));
  }
  if (as_json) PrintJson(documents.size() == 1 ? documents[0] : documents);
  return worst;
}

}  // namespace

void AddCheckVerbs(CLI::App& app, Context& context) {
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand("check", "Check pool files for errors; needs no daemon");
  verb->add_option("FILE", *paths, "Pool files, - for stdin")->required();
  verb->callback(
      [paths, &context] { context.action = [paths, &context] { return Check(*paths, context.json); }; });
}

}  // namespace spillway::command
