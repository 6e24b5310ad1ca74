// SPDX-License-Identifier: Apache-2.0
// spillway apply, set, drain.
#include "verbs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/changes.h"
#include "base/paths.h"
#include "base/print.h"
#include "base/yaml/documents.h"
#include "cli/client_output.h"
#include "command/exit_code.h"
#include "model/parse.h"

namespace spillway::command {
namespace {

using nlohmann::json;

void PrintNotes(const json& answer) {
  for (const auto& note : answer.value("notes", json::array()))
    base::Print("note: {}\n", note.get<std::string>());
}

void PrintChanges(const json& answer, bool dry_run) {
  const auto& changes = answer.at("changes");
  for (const auto& change : changes) base::Print("{}\n", change.get<std::string>());
  PrintNotes(answer);
  const std::string count = Counted(changes.size(), "change");
  if (dry_run)
    base::Print("{}, not applied\n", count);
  else
    base::Print("{} applied, {} of {} ring slots moved\n", count, answer.at("slots_moved").get<uint64_t>(),
                answer.at("slots_total").get<uint64_t>());
}

// The daemon resolves key_file paths against the file's own folder, wherever it was started. Without a file,
// that is the current folder; then messages must not name a file that is not there.
struct AppliedFile {
  explicit AppliedFile(const std::string& path)
      : is_stdin(path == "-"), name(base::AbsolutePath(is_stdin ? "stdin" : path)) {}
  Error Named(Error error) const {
    for (size_t at = 0; is_stdin && (at = error.message.find(name + ":", at)) != std::string::npos;)
      error.message.replace(at, name.size(), "stdin");
    return error;
  }

  bool is_stdin;
  std::string name;
};

int Apply(const std::string& path, bool dry_run, const Context& context) {
  const auto text = yaml::ReadInput(path);
  if (!text) return Complain(text.error());
  const AppliedFile file(path);
  api::Client client(context.api);
  const auto answer = PostJson(
      client, fmt::format("/v1/apply?name={}{}", api::Client::Encode(file.name), dry_run ? "&dry_run=1" : ""),
      *text);
  if (!answer) {
    // Nobody there to judge the file: what is wrong with it is known all the same. (With a daemon its word
    // counts, as it may read key files that this user may not.)
    if (answer.error().code == ErrorCode::kUnavailable)
      if (const auto config = model::ParseConfig(*text, file.name); !config)
        return Complain(file.Named(config.error()));
    return Complain(file.Named(answer.error()));
  }
  if (context.json)
    PrintJson(*answer);
  else
    PrintChanges(*answer, dry_run);
  return kExitOk;
}

Result<double> ParseNumber(const std::string& key, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Fail(ErrorCode::kBadInput, fmt::format("{}={}: expected a number", key, text));
  return value;
}

// Few enough to be a number of seconds.
bool IsDigits(const std::string& text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// key=value words -> the JSON body of a change.
Result<json> ParseAssignments(const std::vector<std::string>& words) {
  json body = json::object();
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      return Fail(ErrorCode::kBadInput, fmt::format("{}: expected KEY=VALUE", word));
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (body.contains(key)) return Fail(ErrorCode::kBadInput, fmt::format("{}: given twice", key));
    if (value == "true" || value == "false") {
      body[key] = value == "true";
    } else if (key == "capacity" || (key == "idle" && IsDigits(value))) {
      const auto number = ParseNumber(key, value);
      if (!number) return tl::make_unexpected(number.error());
      if (key == "idle")
        body[key] = static_cast<uint64_t>(*number);
      else
        body[key] = *number;
    } else {
      body[key] = value;
    }
  }
  return body;
}

std::string UnitLine(const json& unit) {
  return fmt::format("{}/{}/{}: {}, capacity {}\n", unit.at("pool").get<std::string>(),
                     unit.at("server").get<std::string>(), unit.at("unit").get<std::string>(),
                     unit.at("status").get<std::string>(), unit.at("capacity").get<double>());
}

int ChangeUnit(const std::string& name, const Result<json>& body, const Context& context) {
  const auto target = UnitTarget(name);
  if (!target) return Complain(target.error());
  if (!body) return Complain(body.error());
  if (const auto good = api::ParseUnitChange(body->dump()); !good) return Complain(good.error());
  api::Client client(context.api);
  const auto answer = PostJson(client, *target, body->dump());
  if (!answer) return Complain(answer.error());
  if (context.json) {
    PrintJson(*answer);
    return kExitOk;
  }
  base::Print("{}", UnitLine(*answer));
  PrintNotes(*answer);
  return kExitOk;
}

int ChangeService(const std::string& name, const Result<json>& body, const Context& context) {
  if (!body) return Complain(body.error());
  if (const auto good = api::ParseServiceChange(body->dump()); !good) return Complain(good.error());
  api::Client client(context.api);
  const auto answer = PostJson(client, "/v1/services/" + api::Client::Encode(name), body->dump());
  if (!answer) return Complain(answer.error());
  if (context.json)
    PrintJson(*answer);
  else
    PrintChanges(*answer, false);
  return kExitOk;
}

struct ChangeWords {
  std::string name;
  std::vector<std::string> assignments;
  bool flag = false;  // --dry-run, --undo
};

void AddApply(CLI::App& app, Context& context) {
  auto change = std::make_shared<ChangeWords>();
  CLI::App* apply = app.add_subcommand("apply", "Apply a pool file to the running daemon, all or nothing");
  apply->add_option("FILE", change->name, "Pool file, - for stdin")->required();
  apply->add_flag("--dry-run", change->flag, "Print what would change, and change nothing");
  apply->callback([change, &context] {
    context.action = [change, &context] { return Apply(change->name, change->flag, context); };
  });
}

void AddSet(CLI::App& app, Context& context) {
  CLI::App* set =
      app.add_subcommand("set", "Change a running unit or service; `spillway set unit --help` has the keys");
  set->require_subcommand(1);
  auto change = std::make_shared<ChangeWords>();

  CLI::App* unit = set->add_subcommand(
      "unit",
      "One or more of status=up|draining|down (outlives apply), capacity=NUMBER (until the next apply), "
      "forget_reports=true (for an agent whose clock was set back)");
  unit->add_option("UNIT", change->name, "POOL/SERVER/UNIT")->required();
  unit->add_option("KEY=VALUE", change->assignments, "What to change")->required()->expected(1, -1);
  unit->callback([change, &context] {
    context.action = [change, &context] {
      return ChangeUnit(change->name, ParseAssignments(change->assignments), context);
    };
  });

  CLI::App* service = set->add_subcommand("service", "unit_policy=WORD server_policy=WORD idle=DURATION");
  service->add_option("SERVICE", change->name, "The service's name")->required();
  service->add_option("KEY=VALUE", change->assignments, "What to change")->required()->expected(1, -1);
  service->callback([change, &context] {
    context.action = [change, &context] {
      return ChangeService(change->name, ParseAssignments(change->assignments), context);
    };
  });
}

void AddDrain(CLI::App& app, Context& context) {
  auto change = std::make_shared<ChangeWords>();
  CLI::App* drain = app.add_subcommand("drain", "Stop sending new flows to a unit; established flows stay");
  drain->add_option("UNIT", change->name, "POOL/SERVER/UNIT")->required();
  drain->add_flag("--undo", change->flag, "Return the unit to service");
  drain->callback([change, &context] {
    context.action = [change, &context] {
      return ChangeUnit(change->name, json{{"status", change->flag ? "up" : "draining"}}, context);
    };
  });
}

}  // namespace

void AddChangeVerbs(CLI::App& app, Context& context) {
  AddApply(app, context);
  AddSet(app, context);
  AddDrain(app, context);
}

}  // namespace spillway::command
