// SPDX-License-Identifier: Apache-2.0
#include "state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/yaml/scalars.h"
#include "report/file.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json ToJson(const ProcessId& id) { return {{"pid", id.pid}, {"start", id.start}}; }
ProcessId IdOf(const json& value) {
  return {value.at("pid").get<pid_t>(), value.at("start").get<uint64_t>()};
}

std::string StateFile(const std::string& name) { return fmt::format("{}/{}.json", kStateFolder, name); }

// What a testbed of that name makes, and nothing else: the file says what is removed by root.
bool IsOfTestbed(const State& state, const std::string& name) {
  const auto is_own = [&](const std::string& netns) {
    return netns.starts_with(fmt::format("spw-{}-", name)) && netns.find('/') == netns.npos;
  };
  return yaml::IsName(name) && state.name == name &&
         std::all_of(state.namespaces.begin(), state.namespaces.end(), is_own) &&
         (state.cgroups.empty() || state.cgroups.ends_with("/spillway-lab-" + name)) &&
         (state.instance.empty() || yaml::IsName(state.instance));
}

}  // namespace

std::string TestbedFolder(const std::string& name) { return fmt::format("{}/{}", kStateFolder, name); }

Result<void> SaveState(const State& state) {
  json processes = json::array();
  for (const RunningProcess& p : state.processes)
    processes.push_back({{"label", p.label}, {"netns", p.netns}, {"process", ToJson(p.id)}});
  const json document = {
      {"name", state.name},     {"owner", ToJson(state.owner)}, {"namespaces", state.namespaces},
      {"processes", processes}, {"cgroups", state.cgroups},     {"instance", state.instance}};
  return report::WriteFile(StateFile(state.name), document.dump(2) + "\n");
}

std::optional<State> LoadState(const std::string& name) {
  std::ifstream in(StateFile(name));
  const json document = json::parse(in, nullptr, false);
  if (document.is_discarded()) return std::nullopt;
  try {
    State state;
    state.name = document.at("name").get<std::string>();
    state.owner = IdOf(document.at("owner"));
    state.namespaces = document.at("namespaces").get<std::vector<std::string>>();
    for (const json& p : document.at("processes"))
      state.processes.push_back(
          {p.at("label").get<std::string>(), p.at("netns").get<std::string>(), IdOf(p.at("process"))});
    state.cgroups = document.at("cgroups").get<std::string>();
    state.instance = document.at("instance").get<std::string>();
    if (!IsOfTestbed(state, name)) return std::nullopt;
    return state;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kStateFolder, ignored))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

void RemoveState(const std::string& name) {
  std::error_code ignored;
  fs::remove_all(TestbedFolder(name), ignored);
  fs::remove(StateFile(name), ignored);
}

bool IsLeftover(const State& state) {
  if (state.owner.pid != 0) return !IsAlive(state.owner);
  return std::none_of(state.processes.begin(), state.processes.end(),
                      [](const RunningProcess& p) { return IsAlive(p.id); });
}

}  // namespace spillway::lab
