// SPDX-License-Identifier: Apache-2.0
// spillway-agent: meters one processing unit and reports its load to the switches. Exit code: 0 ok,
// 1 failed, 2 bad usage or input.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/config.h"
#include "base/file.h"
#include "base/print.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/program.h"
#include "model/secret_files.h"

namespace spillway::command {
namespace {

int Exit(const Error& error) { return Complain(error, "spillway-agent"); }

// The whole file at once, so that a reader never sees half a document.
Result<void> WriteStats(const std::string& path, const std::string& json) {
  // Each second, between two reports: not worth waiting for the disk.
  if (path != "-") return base::WriteOutput(path, json + '\n', {.is_durable = false});
  if (base::PrintText(json + '\n')) return {};
  return Fail(ErrorCode::kSystem, fmt::format("writing the output: {}", std::strerror(base::OutputError())));
}

// What fails each second is said once.
class StatsWriter {
 public:
  explicit StatsWriter(std::string path) : path_(std::move(path)) {}
  void Write(const std::string& json) {
    const auto written = WriteStats(path_, json);
    const std::string trouble = written ? "" : written.error().message;
    if (trouble != trouble_) {
      if (written)
        spdlog::info("--stats-json: written again");
      else
        spdlog::warn("--stats-json: {}", trouble);
    }
    trouble_ = trouble;
  }

 private:
  const std::string path_;
  std::string trouble_;
};

void PrintOnce(const std::string& text, bool as_json) {
  if (as_json) {
    base::Print("{}\n", text);
    return;
  }
  // The document is flat: one line per key.
  std::string line;
  for (char c : text.substr(1, text.size() - 2)) {
    if (c == ',') {
      base::Print("{}\n", line);
      line.clear();
    } else if (c != '"') {
      line += c;
      if (c == ':') line += ' ';
    }
  }
  base::Print("{}\n", line);
}

int Main(int argc, char** argv) {
  CLI::App app("Meters one processing unit and reports its load to the switches.", "spillway-agent");
  std::string config_file, stats_file;
  bool check = false, once = false, json = false;
  app.add_option("-c,--config", config_file, "agent.yaml, see docs/agent.md")->required()->type_name("FILE");
  auto* check_flag =
      app.add_flag("--check", check, "Check the configuration file, not the machine, and exit");
  auto* once_flag = app.add_flag("--once", once, "Meter for one second, print what was seen, send nothing")
                        ->excludes(check_flag);
  app.add_flag("--json", json, "With --once: print JSON")->needs(once_flag);
  app.add_option("--stats-json", stats_file, "Write one JSON document each second; '-': standard output")
      ->type_name("FILE")
      ->check(NonEmpty())
      ->excludes(check_flag);
  if (const auto ended = ParseCommandLine(app, argc, argv)) return *ended;
  LogToStderr("spillway-agent");

  auto config = agent::LoadAgentConfig(config_file);
  if (!config) return Exit(config.error());
  const std::vector<std::string> warnings = model::KeyFileWarnings(config->key_file, config->key);
  if (check) {
    for (const std::string& warning : warnings)
      base::PrintError("spillway-agent: {}: warning: {}\n", config_file, warning);
    base::Print("{}: ok\n", config_file);
    return 0;
  }
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
  // Before anything is attached: from here a signal ends the agent only by way of its destructors.
  HoldSignals();

  auto agent = agent::Agent::Start(*config);
  if (!agent) return Exit(agent.error());
  if (once) {
    auto text = (*agent)->Once();
    if (!text) return Exit(text.error());
    PrintOnce(*text, json);
    return 0;
  }
  std::function<void(const std::string&)> on_stats;
  StatsWriter stats(stats_file);
  if (!stats_file.empty()) on_stats = [&](const std::string& text) { stats.Write(text); };
  auto ran = (*agent)->Run(on_stats);
  if (!ran) return Exit(ran.error());
  return 0;
}

}  // namespace
}  // namespace spillway::command

int main(int argc, char** argv) {
  return spillway::command::EndOutput(spillway::command::Main(argc, argv), "spillway-agent");
}
