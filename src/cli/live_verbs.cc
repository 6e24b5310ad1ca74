// SPDX-License-Identifier: Apache-2.0
// spillway stats, spillway top.
#include "verbs.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/print.h"
#include "bpf/switch.h"
#include "cli/client_output.h"
#include "cli/unit_table.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "report/table.h"

namespace spillway::command {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Live {
  double interval_s = 1;
  int count = 0;  // screens; 0: until interrupted
  bool watch = false;
  bool all = false;  // counters that are 0 too
};

const char* CounterHelp(const std::string& name) {
#define SPW_PUT(field, help) \
  if (name == #field) return help;
  SPW_COUNTERS(SPW_PUT)
#undef SPW_PUT
  return "";
}

// `before` null: totals only.
std::string CountersText(const json& before, const json& after, double seconds, bool all) {
  std::vector<report::Column> columns = {{"counter", "COUNTER"}, {"total", "TOTAL"}};
  if (!before.is_null()) columns.push_back({"per_s", "PER SECOND", 1});
  columns.push_back({"meaning", "MEANING"});
  report::Table table(std::move(columns));
  for (const auto& [name, value] : after.items()) {
    if (!all && value.get<uint64_t>() == 0) continue;
    std::vector<report::Cell> cells = {name, value.get<int64_t>()};
    if (!before.is_null())
      cells.push_back((value.get<double>() - before.value(name, value).get<double>()) / seconds);
    cells.push_back(CounterHelp(name));
    table.AddRow(std::move(cells));
  }
  if (table.rows().empty()) return "nothing counted yet (--all shows the zeros)\n";
  return table.Text();
}

// Before the next screen: a terminal is cleared, a file gets an empty line.
void StartScreen(bool first) {
  if (isatty(STDOUT_FILENO))
    base::Print("\x1b[H\x1b[2J");
  else if (!first)
    base::Print("\n");
}

// Asks `target` every interval and prints what `text` makes of two answers; in JSON, one answer a line.
template <class Text>
int Repeat(const Context& context, const std::string& target, const Live& live, const Text& text) {
  api::Client client(context.api);
  auto before = GetJson(client, target);
  if (!before) return Complain(before.error());
  auto before_at = Clock::now();
  for (int screen = 0; live.count == 0 || screen < live.count; screen++) {
    std::this_thread::sleep_for(std::chrono::duration<double>(live.interval_s));
    auto after = GetJson(client, target);
    if (!after) return Complain(after.error());
    const auto now = Clock::now();
    if (context.json) {
      base::Print("{}\n", after->dump());
    } else {
      StartScreen(screen == 0);
      base::Print("{}", text(*before, *after, std::chrono::duration<double>(now - before_at).count()));
    }
    if (base::OutputError() != 0) break;  // nobody sees the next one
    before = std::move(after);
    before_at = now;
  }
  return kExitOk;
}

int Stats(const Context& context, const Live& live) {
  if (live.watch)
    return Repeat(context, "/v1/counters", live, [&](const json& before, const json& after, double seconds) {
      return CountersText(before, after, seconds, live.all);
    });
  api::Client client(context.api);
  const auto counters = GetJson(client, "/v1/counters");
  if (!counters) return Complain(counters.error());
  if (context.json)
    PrintJson(*counters);
  else
    base::Print("{}", CountersText(nullptr, *counters, 0, live.all));
  return kExitOk;
}

int Top(const Context& context, const Live& live) {
  return Repeat(context, "/v1/units", live, [](const json& before, const json& after, double seconds) {
    return UnitRateTable(before, after, seconds).Text();
  });
}

void AddLiveOptions(CLI::App& verb, Live& live) {
  verb.add_option("--interval", live.interval_s, "Seconds between refreshes")
      ->capture_default_str()
      ->check(InRange(0.05, 3600.0));
  verb.add_option("--count", live.count, "Number of refreshes; 0: until interrupted")
      ->capture_default_str()
      ->check(NonNegative<int>());
}

}  // namespace

void AddLiveVerbs(CLI::App& app, Context& context) {
  auto live = std::make_shared<Live>();
  CLI::App* stats = app.add_subcommand("stats", "Print the data plane's counters");
  stats->add_flag("--watch", live->watch, "Refresh continuously, with rates");
  stats->add_flag("--all", live->all, "Include counters that are 0");
  AddLiveOptions(*stats, *live);
  stats->callback([live, &context] { context.action = [live, &context] { return Stats(context, *live); }; });

  CLI::App* top = app.add_subcommand("top", "Live view of the units: state, load, rates");
  AddLiveOptions(*top, *live);
  top->callback([live, &context] { context.action = [live, &context] { return Top(context, *live); }; });
}

}  // namespace spillway::command
