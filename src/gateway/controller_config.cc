// SPDX-License-Identifier: Apache-2.0
#include "gateway/controller_config.h"

#include <map>
#include <optional>
#include <string>

#include "gateway/document.h"
#include "gateway/protocol/token.h"

namespace spillway::gateway {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using namespace std::chrono_literals;

namespace {

void ReadQuotas(Problems& problems, const Field& field, std::map<std::string, double>& quotas) {
  constexpr double kMost = 1e6;
  for (const Field& entry : yaml::ReadList(problems, field, "a list of quotas")) {
    MapReader map(problems, entry, {"tenant", "gpus"});
    std::optional<std::string> tenant;
    std::optional<double> gpus;
    const Field* name = map.Need("tenant", "a tenant of models");
    if (name != nullptr) tenant = yaml::ReadText(problems, *name, "a tenant of models");
    if (const Field* f = map.Need("gpus", "GPUs' worth of compute"))
      gpus = yaml::ReadNumber(problems, *f, 0, kMost);
    if (!tenant || !gpus) continue;
    if (!quotas.emplace(*tenant, *gpus).second)
      problems.Add(name->line, name->path, "duplicate tenant " + *tenant);
  }
}

}  // namespace

ControllerConfig ReadController(Problems& problems, const Field& field, const std::string& file_name) {
  ControllerConfig config;
  scheduler::ControllerOptions& options = config.options;
  MapReader map(problems, field,
                {"socket", "state", "listen", "token_file", "policy", "sharing", "moves", "moves_per_hour",
                 "start", "drain", "settle", "silent_after", "quotas", "connections_per_address"});
  for (const char* key : {"socket", "state", "listen"})
    if (const Field* f = map.Find(key)) yaml::NotePlace(config.places, file_name, *f);
  Take(config.socket, map.Need("socket", "the path of a UNIX socket"),
       [&](const Field& f) { return ReadSocketPath(problems, f); });
  Take(config.state, map.Need("state", "a file that the controller writes"), [&](const Field& f) {
    auto path = yaml::ReadText(problems, f, "the path of a file");
    if (path && path->empty()) yaml::Refuse(problems, f, "the path of a file");
    return path;
  });
  const Field* listen = map.Find("listen");
  const Field* token = map.Find("token_file");
  Take(config.listen, listen, [&](const Field& f) { return ReadEndpoint(problems, f); });
  if (token != nullptr) config.token = ReadToken(problems, *token, file_name, "the controller's token");
  if (listen != nullptr && token == nullptr)
    problems.Add(listen->line, listen->path, "requires the key token_file beside it");
  Take(config.connections_per_address, map.Find("connections_per_address"),
       [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 10'000); });
  if (const Field* f = map.Find("policy")) {
    constexpr scheduler::Policy kChoices[] = {scheduler::Policy::kSpillway, scheduler::Policy::kBestFit,
                                              scheduler::Policy::kFirstFit};
    std::vector<std::string> words;
    for (const scheduler::Policy choice : kChoices) words.emplace_back(ToString(choice));
    if (const auto word = yaml::ReadChoice(problems, *f, words)) options.policy = kChoices[*word];
  }
  if (const Field* f = map.Find("quotas")) ReadQuotas(problems, *f, options.gpu_quotas);
  const auto yes = [&](const Field& f) { return yaml::ReadBool(problems, f); };
  Take(options.rules.is_sharing, map.Find("sharing"), yes);
  Take(options.is_moving, map.Find("moves"), yes);
  Take(options.moves_per_hour, map.Find("moves_per_hour"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 0, 1e6); });
  for (auto [into, key, least] : {std::tuple(&options.start_limit, "start", 1000ms),
                                  {&options.drain_limit, "drain", 0ms},
                                  {&options.settle, "settle", 0ms}})
    if (const Field* f = map.Find(key))
      if (const auto time = yaml::ReadDuration(problems, *f, least, 1h)) *into = time->count();
  Take(config.silent_after, map.Find("silent_after"),
       [&](const Field& f) { return yaml::ReadDuration(problems, f, 100ms, 1h); });
  return config;
}

}  // namespace spillway::gateway
