// SPDX-License-Identifier: Apache-2.0
// spillway model.
#include "verbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/print.h"
#include "base/socket_address.h"
#include "base/yaml/documents.h"
#include "cli/client_output.h"
#include "command/exit_code.h"
#include "command/option_checks.h"

namespace spillway::command {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr const char* kDefaultSocket = "/run/spillway-gateway/control.sock";
constexpr auto kLookEvery = 50ms;

struct Options {
  std::string gateway = kDefaultSocket, name, to;
  bool wait = false;
  int limit_s = 60;
};

// Node agents come by TCP, with a token; operators by the socket.
std::string CheckGateway(const std::string& text) {
  constexpr const char* kForm = "expected the path of the gateway's controller.socket";
  if (text.starts_with("unix:"))
    return fmt::format("{}, got {}; write the path without unix:", kForm, base::Printable(text));
  if (text.starts_with("tcp:") || text.find("://") != text.npos ||
      (text.find('/') == text.npos && base::SocketAddress::Parse(text)))
    return fmt::format("{}, got {}; over TCP the gateway speaks to node agents alone", kForm,
                       base::Printable(text));
  return "";
}

api::Service ServiceOf(const Options& options) {
  return {.address = options.gateway,
          .program = "spillway-gateway",
          .hint = "--gateway sets another path (controller.socket in gateway.yaml)"};
}

// "host1/gpu0"; in brackets its MIG profile, where it has one, and what it is about: "host1/gpu0 (3g,
// draining)"
std::string PlaceOf(const json& instance) {
  std::string notes = instance.value("profile", "");
  if (const std::string phase = instance.at("phase"); phase != "ready")
    notes += (notes.empty() ? "" : ", ") + phase;
  return instance.at("gpu").get<std::string>() + (notes.empty() ? "" : " (" + notes + ")");
}

// "2 of 2 ready on host1/gpu0, host2/gpu1"; "being removed, on host1/gpu0 (draining)"; and of those that are
// lost with their host or GPU: "; to be stopped once they are back: host3/gpu0"
std::string StateOf(const json& model) {
  std::string places, lost;
  for (const auto& one : model.at("instances")) {
    if (one.value("stranded", false))
      lost +=
          (lost.empty() ? "; to be stopped once they are back: " : ", ") + one.at("gpu").get<std::string>();
    else
      places += (places.empty() ? " on " : ", ") + PlaceOf(one);
  }
  const int replicas = model.at("replicas");
  const std::string state = model.value("removing", false)
                                ? "being removed" + std::string(places.empty() ? "" : ",")
                                : fmt::format("{} of {} ready", model.at("ready").get<int>(), replicas);
  return fmt::format("{}{}{}{}", state, places, lost,
                     model.contains("trouble") ? "; " + model["trouble"].get<std::string>() : "");
}

std::string LineOf(const json& model) {
  return fmt::format("{}: {}\n", model.at("name").get<std::string>(), StateOf(model));
}

// All replicas serve, nothing of it moves, starts or ends; but for what is to end on a host or a GPU that is
// lost, and does so when that is back, if ever.
bool IsSettled(const json& model) {
  for (const auto& one : model.at("instances"))
    if (one.at("phase") != "ready" && !one.value("stranded", false)) return false;
  return !model.at("moving").get<bool>() && model.at("ready") == model.at("replicas");
}

// The instance that a move began, by the answer to it.
uint64_t MoverOf(const json& model) {
  uint64_t mover = 0;
  for (const auto& one : model.at("instances"))
    if (one.contains("replaces")) mover = std::max(mover, one.at("id").get<uint64_t>());
  return mover;
}

// The model is served on where it was if its new instance ends before its time.
bool HasMoveFailed(const json& model, uint64_t mover) {
  if (model.contains("removed")) return true;
  for (const auto& one : model.at("instances"))
    if (one.at("id") == mover) return one.at("phase") == "stopping";
  return true;
}

// Looks until it is as it is to be. An error: it was not within the limit, or a move failed; names what is in
// the way. `mover`: the instance that is to take another's place; 0: none is.
Result<json> AwaitModel(api::Client& client, const Options& options, const std::string& name,
                        uint64_t mover) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.limit_s);
  std::string told;  // what is in the way
  for (;;) {
    const auto fleet = GetJson(client, "/v1/models");
    if (!fleet) return fleet;
    json found = {{"name", name}, {"removed", true}};
    for (const auto& model : fleet->at("models"))
      if (model.at("name") == name) found = model;
    if (mover != 0 && HasMoveFailed(found, mover))
      return Fail(
          ErrorCode::kUnavailable,
          fmt::format("model {}: not moved{}: {}", name, options.to.empty() ? "" : " to " + options.to,
                      found.contains("removed") ? "it was removed" : StateOf(found)));
    if (found.contains("removed") || IsSettled(found)) return found;
    if (const std::string trouble = found.value("trouble", ""); !trouble.empty() && trouble != told) {
      base::PrintError("{}: waiting for at most {} s: {}\n", name, options.limit_s, trouble);
      told = trouble;
    }
    if (std::chrono::steady_clock::now() > end)
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("model {}: not done within {} s: {}", name, options.limit_s, StateOf(found)));
    std::this_thread::sleep_for(kLookEvery);
  }
}

// Asks for a change; what came of it, at once or when it is done.
int Change(const Options& options, const std::string& target, const std::string& body, const Context& context,
           bool is_move = false) {
  api::Client client(ServiceOf(options));
  auto answer = PostJson(client, target, body);
  if (answer && options.wait) {
    const uint64_t mover = is_move ? MoverOf(*answer) : 0;
    answer = AwaitModel(client, options, answer->at("name"), mover);
  }
  if (!answer) return Complain(answer.error());
  if (context.json)
    PrintJson(*answer);
  else if (answer->contains("removed"))
    base::Print("{}: removed\n", answer->at("name").get<std::string>());
  else
    base::Print("{}", LineOf(*answer));
  return kExitOk;
}

int Add(const Options& options, const Context& context) {
  const auto text = yaml::ReadInput(options.name);
  if (!text) return Complain(text.error());
  const std::string file = yaml::InputName(options.name);
  return Change(options, "/v1/models?name=" + api::Client::Encode(file), *text, context);
}

int Move(const Options& options, const Context& context) {
  const std::string query = options.to.empty() ? "" : "?to=" + api::Client::Encode(options.to);
  return Change(options, "/v1/models/" + api::Client::Encode(options.name) + "/move" + query, "", context,
                true);
}

int Remove(const Options& options, const Context& context) {
  return Change(options, "/v1/models/" + api::Client::Encode(options.name) + "/remove", "", context);
}

int List(const Options& options, const Context& context) {
  api::Client client(ServiceOf(options));
  const auto fleet = GetJson(client, "/v1/models");
  if (!fleet) return Complain(fleet.error());
  if (context.json) {
    PrintJson(*fleet);
    return kExitOk;
  }
  for (const auto& model : fleet->at("models")) base::Print("{}", LineOf(model));
  for (const auto& host : fleet->at("hosts")) {
    const bool is_stopped = host.at("gpus").empty();
    base::Print("host {}{}", host.at("name").get<std::string>(),
                is_stopped                  ? ": stopped"
                : host.at("up").get<bool>() ? ":"
                                            : " (lost):");
    for (const auto& gpu : host.at("gpus")) {
      const std::string trouble = gpu.value("trouble", ""), lost = gpu.value("lost", "");
      const std::string word = lost.empty() ? trouble : "lost: " + lost;
      const auto profiles = gpu.value("profiles", std::vector<std::string>());
      base::Print(" {} {:.0f} %{}{}", gpu.at("id").get<std::string>(),
                  gpu.at("share_used").get<double>() * 100,
                  profiles.empty() ? "" : fmt::format(" ({})", fmt::join(profiles, ", ")),
                  word.empty() ? "" : " (" + word + ")");
    }
    base::Print("\n");
  }
  const auto& moves = fleet->at("moves");
  base::Print("{} on, {:.3f} GPU-hours, {} done, {} failed\n",
              Counted(fleet->at("gpus_on").get<size_t>(), "GPU"), fleet->at("gpu_hours").get<double>(),
              Counted(moves.at("done").get<size_t>(), "move"), moves.at("failed").get<int>());
  return kExitOk;
}

using Action = int (*)(const Options&, const Context&);

CLI::App* AddVerb(CLI::App& group, Context& context, const std::shared_ptr<Options>& options,
                  const char* name, const char* about, Action action) {
  CLI::App* verb = group.add_subcommand(name, about);
  verb->add_option("--gateway", options->gateway, "The gateway's controller.socket")
      ->type_name("PATH")
      ->check(CLI::Validator(CheckGateway, ""))
      ->capture_default_str();
  verb->callback([options, &context, action] {
    context.action = [options, &context, action] { return action(*options, context); };
  });
  return verb;
}

void AddWait(CLI::App* verb, const std::shared_ptr<Options>& options) {
  verb->add_flag("--wait", options->wait, "Wait until the change is complete");
  verb->add_option("--limit", options->limit_s, "Seconds to wait at most")
      ->check(InRange(1, 86400))
      ->capture_default_str();
}

}  // namespace

void AddModelVerbs(CLI::App& app, Context& context) {
  CLI::App* group =
      app.add_subcommand("model", "Models that a gateway's controller places on GPU hosts; docs/models.md");
  group->require_subcommand(1);
  const auto options = std::make_shared<Options>();
  CLI::App* add =
      AddVerb(*group, context, options, "add", "Serve this model, or change how many serve it", Add);
  add->add_option("FILE", options->name, "Model file, - for stdin")->required();
  AddWait(add, options);
  AddVerb(*group, context, options, "list", "Models, their instances, GPUs, GPU-hours", List);
  CLI::App* move = AddVerb(*group, context, options, "move",
                           "Move one of its instances without interrupting requests", Move);
  move->add_option("NAME", options->name, "The model")->required();
  move->add_option("--to", options->to, "HOST/GPU; default: where it is placed best")->type_name("HOST/GPU");
  AddWait(move, options);
  CLI::App* remove = AddVerb(*group, context, options, "remove", "Stop serving a model", Remove);
  remove->add_option("NAME", options->name, "The model")->required();
  AddWait(remove, options);
}

}  // namespace spillway::command
