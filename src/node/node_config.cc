// SPDX-License-Identifier: Apache-2.0
#include "node/node_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/listen.h"
#include "base/machine_boot.h"
#include "base/paths.h"
#include "gateway/document.h"
#include "gateway/executor/executor_config.h"
#include "gateway/executor/nvml.h"
#include "gateway/protocol/token.h"
#include "node/patient_mig.h"
#include "scheduler/controller/host_message.h"

namespace spillway::node {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

constexpr std::string_view kTcp = "tcp:";
constexpr const char* kDevice = "an index as in nvidia-smi or GPU-UUID";

// Executors have folders of their own: whatever their file names is seen from here.
std::string Absolute(const std::string& path, const std::string& file_name) {
  const std::filesystem::path given(path);
  if (given.is_absolute()) return path;
  return base::AbsolutePath(std::filesystem::path(file_name).parent_path() / given);
}

void ReadControllerAddress(Problems& problems, const Field& field, const Field* token,
                           const std::string& file_name, api::Service& service) {
  constexpr const char* kForms = "the path of the gateway's controller.socket, or tcp:ADDRESS:PORT";
  const auto text = yaml::ReadText(problems, field, kForms);
  if (!text) return;
  if (!text->starts_with(kTcp)) {
    if (text->starts_with("unix:"))
      return problems.Add(
          field.line, field.path,
          fmt::format("expected {}, got {}; write the path without unix:", kForms, yaml::Excerpt(*text)));
    if (text->find('/') == text->npos && api::CheckEndpoint(*text))
      return problems.Add(field.line, field.path,
                          fmt::format("expected {}, got {} without tcp:", kForms, yaml::Excerpt(*text)));
    if (const auto path = gateway::ReadSocketPath(problems, field)) service.address = *path;
    return;
  }
  service.is_tcp = true;
  service.address = text->substr(kTcp.size());
  if (const auto good = api::CheckEndpoint(service.address); !good)
    problems.Add(field.line, field.path, fmt::format("expected {}: {}", kForms, good.error().message));
  if (token == nullptr)
    problems.Add(field.line, "controller_token_file",
                 "expected a file with the controller's token, got nothing");
  else
    service.token = gateway::ReadToken(problems, *token, file_name, "the controller's token");
}

void ReadGpus(Problems& problems, const Field& field, const std::string& file_name, NodeConfig& config) {
  for (const Field& entry : yaml::ReadList(problems, field, "a list of GPUs")) {
    MapReader map(problems, entry, {"name", "device", "model", "memory", "gflop_per_s", "mig"});
    scheduler::Gpu gpu;
    Take(gpu.id, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
    if (gpu.id.size() > scheduler::kMaxGpuName)
      problems.Add(entry.line, entry.path + ".name",
                   fmt::format("expected at most {} characters", scheduler::kMaxGpuName));
    gpu.model = "emulated";
    for (const char* key : {"device", "mig"}) {
      const Field* f = map.Find(key);
      const int line = f != nullptr ? f->line : entry.line;
      yaml::NotePlace(config.places, file_name, {fmt::format("gpus[{}].{}", gpu.id, key), line, {}});
    }
    if (const Field* f = map.Find("device"))
      if (const auto text = yaml::ReadText(problems, *f, kDevice)) {
        if (!gateway::IsCudaDevice(*text) || text->starts_with("MIG-"))
          problems.Add(f->line, f->path,
                       fmt::format("expected {}, got {}", kDevice, yaml::Describe(f->node)));
        config.devices[gpu.id] = *text;
        gpu.model = "unknown";
      }
    Take(gpu.model, map.Find("model"), [&](const Field& f) { return yaml::ReadName(problems, f); });
    if (const Field* f = map.Find("memory"))
      if (const auto bytes = gateway::ReadBytes(problems, *f, 1 << 20, uint64_t{1} << 42))
        gpu.memory_mib = static_cast<int>(*bytes >> 20);
    Take(gpu.can_divide, map.Find("mig"), [&](const Field& f) { return yaml::ReadBool(problems, f); });
    double speed = 1;
    Take(speed, map.Need("gflop_per_s", "GFLOP/s of all of it"),
         [&](const Field& f) { return yaml::ReadNumber(problems, f, 1e-3, 1e9); });
    if (!gpu.id.empty() && !config.gflop_per_s.emplace(gpu.id, speed).second)
      problems.Add(entry.line, entry.path, "duplicate name");
    config.gpus.push_back(gpu);
  }
  if (!config.devices.empty() && config.devices.size() < config.gflop_per_s.size())
    problems.Add(field.line, field.path,
                 "expected `device` of every GPU or of none, which are emulated then");
  if (config.gpus.empty() || config.gpus.size() > scheduler::kMaxGpusOfHost)
    problems.Add(field.line, field.path, fmt::format("expected 1 to {} GPUs", scheduler::kMaxGpusOfHost));
}

std::vector<std::string> ReadWords(Problems& problems, const Field& field) {
  constexpr const char* kForm = "a list: the absolute path of a program, and its arguments";
  std::vector<std::string> words;
  if (!field.node.IsSequence()) {
    yaml::Refuse(problems, field, kForm);
    return words;
  }
  for (const Field& entry : yaml::ReadList(problems, field, kForm)) {
    const auto word = yaml::ReadText(problems, entry, "an argument");
    if (!word) return {};
    if (word->find('\0') != std::string::npos) problems.Add(entry.line, entry.path, "expected no NUL in it");
    words.push_back(*word);
  }
  if (words.empty() || !words.front().starts_with('/'))
    problems.Add(field.line, field.path,
                 fmt::format("expected {}, got {}", kForm,
                             words.empty() ? "an empty one" : yaml::Excerpt(words.front()) + " first"));
  return words;
}

void ReadPrograms(Problems& problems, const Field& field, const std::string& file_name, NodeConfig& config) {
  for (const Field& entry : yaml::ReadList(problems, field, "a list of programs that serve models")) {
    MapReader map(problems, entry, {"name", "run"});
    std::string name;
    Take(name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
    const Field* run = map.Need("run", "the program's path and arguments");
    if (run == nullptr || name.empty()) continue;
    yaml::NotePlace(config.places, file_name, {fmt::format("programs[{}].run", name), run->line, {}});
    if (!config.programs.emplace(name, ReadWords(problems, *run)).second)
      problems.Add(entry.line, entry.path, "duplicate name");
  }
  if (config.programs.size() > scheduler::kMaxProgramsOfHost)
    problems.Add(field.line, field.path,
                 fmt::format("expected at most {} programs", scheduler::kMaxProgramsOfHost));
}

}  // namespace

Result<NodeConfig> ParseNodeConfig(const std::string& yaml, const std::string& file_name) {
  NodeConfig config;
  const auto read = yaml::ReadDocument(yaml, file_name, [&](Problems& problems, const Field& root) {
    MapReader top(problems, root,
                  {"name", "controller", "controller_token_file", "state", "gateway", "token_file", "gpus",
                   "programs"});
    Take(config.name, top.Need("name", "a name of this host"),
         [&](const Field& f) { return yaml::ReadName(problems, f); });
    if (config.name.size() > 31)
      problems.Add("name", fmt::format("expected at most 31 characters, got {}", config.name.size()));
    const Field* token = top.Find("controller_token_file");
    if (const Field* f = top.Need("controller", "the gateway's controller.socket, or tcp:ADDRESS:PORT"))
      ReadControllerAddress(problems, *f, token, file_name, config.controller);
    const auto path = [&](std::string& into, const Field* field, const char* expected) {
      Take(into, field, [&](const Field& f) {
        auto text = yaml::ReadText(problems, f, expected);
        if (text && text->empty()) problems.Add(f.line, f.path, std::string("expected ") + expected);
        return text;
      });
      if (!into.empty()) into = Absolute(into, file_name);
    };
    if (const Field* f = top.Find("state")) yaml::NotePlace(config.places, file_name, *f);
    path(config.state, top.Need("state", "a folder that the program writes to"), "the path of a folder");
    path(config.token_file, top.Find("token_file"), "a file with the executors' token");
    gateway::GatewayAddress executors;  // refused here rather than by each executor
    gateway::ReadGatewayAddress(problems, top, file_name, executors);
    config.gateway = executors.address;
    if (const Field* f = top.Need("gpus", "a list of GPUs")) ReadGpus(problems, *f, file_name, config);
    if (const Field* f = top.Find("programs")) ReadPrograms(problems, *f, file_name, config);
  });
  if (!read) return tl::make_unexpected(read.error());
  config.controller.program = "spillway-gateway";
  config.controller.hint = "check `controller` in node.yaml";
  config.controller.patience = std::chrono::seconds(5);
  config.controller.max_reply = 16 << 20;  // thousands of instances, of some KiB each
  return config;
}

Result<std::unique_ptr<Slices>> SlicesOf(const NodeConfig& config, const std::string& nvml,
                                         GpuWatchTimes times) {
  if (config.devices.empty()) return MakeEmulatedSlices(config.gpus);
  const auto there = gateway::ListNvmlDevices(nvml);
  if (!there)
    return tl::make_unexpected(
        yaml::At(config.places, fmt::format("gpus[{}].device", config.gpus.front().id), there.error()));
  std::map<std::string, std::string> uuids;
  std::unique_ptr<Mig> mig;
  for (const scheduler::Gpu& gpu : config.gpus) {
    const std::string& device = config.devices.at(gpu.id);
    const auto bad = [&](const char* key, const std::string& what) {
      return tl::make_unexpected(
          yaml::At(config.places, fmt::format("gpus[{}].{}", gpu.id, key), {ErrorCode::kBadInput, what}));
    };
    const auto one = std::find_if(there->begin(), there->end(), [&](const gateway::CudaDevice& it) {
      return !it.is_instance() && (it.uuid == device || std::to_string(it.index) == device);
    });
    if (gpu.can_divide && !mig) {
      auto opened = Mig::Open(nvml);
      if (!opened) return tl::make_unexpected(opened.error());
      mig = MakePatientMig(std::move(*opened));
    }
    if (one == there->end() && device.starts_with("GPU-")) {
      uuids[gpu.id] = device;  // the watch says that it is lost
      continue;
    }
    if (one == there->end()) return bad("device", fmt::format("this machine has no GPU {}", device));
    if (one->in_instances != gpu.can_divide)
      return bad("mig",
                 fmt::format("expected {}, the current MIG mode of GPU {} (nvidia-smi -mig changes it)",
                             one->in_instances, device));
    for (const auto& [other, uuid] : uuids)
      if (uuid == one->uuid)
        return bad("device",
                   fmt::format("expected a GPU that no other entry names, got the one of {}", other));
    uuids[gpu.id] = one->uuid;
  }
  auto watch = GpuWatch::Open(uuids, nvml, times);
  if (!watch) return tl::make_unexpected(watch.error());
  return MakeGpuSlices(config.gpus, std::move(uuids), std::move(mig), std::move(*watch), base::BootId());
}

Result<NodeConfig> LoadNodeConfig(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseNodeConfig(*text, path);
}

}  // namespace spillway::node
