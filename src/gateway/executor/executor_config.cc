// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/executor_config.h"

#include <fmt/format.h>

#include <array>

#include "base/socket_address.h"
#include "gateway/document.h"
#include "gateway/protocol/token.h"

namespace spillway::gateway {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

constexpr char kOnlyCuda[] = "allowed only with engine: cuda";

// A slice's own keys over its GPU's.
void ReadPlace(Problems& problems, const MapReader& map, bool cuda, CudaPlace& place) {
  const Field* device = map.Find("device");
  const Field* percent = map.Find("sm_percent");
  if (!cuda) map.Refuse({"device", "sm_percent"}, kOnlyCuda);
  constexpr const char* kForms = "an index as in nvidia-smi, GPU-UUID or MIG-UUID";
  Take(place.device, device, [&](const Field& f) {
    const auto text = yaml::ReadText(problems, f, kForms);
    if (text && !IsCudaDevice(*text))
      problems.Add(f.line, f.path, fmt::format("expected {}, got {}", kForms, yaml::Describe(f.node)));
    return text;
  });
  Take(place.sm_percent, percent, [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, 100); });
}

void ReadGpus(Problems& problems, const Field& field, const std::string& file_name, const SliceOffer& cell,
              ExecutorConfig& config) {
  size_t gpus = 0;
  for (const Field& entry : yaml::ReadList(problems, field, "a list of GPUs")) {
    MapReader map(problems, entry, {"name", "device", "sm_percent", "slices"});
    CudaPlace whole;
    whole.device = std::to_string(gpus++);
    ReadPlace(problems, map, config.cuda, whole);
    std::string gpu;
    Take(gpu, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
    for (const SliceOffer& other : config.options.slices)
      if (other.gpu == gpu && !gpu.empty()) {
        problems.Add(entry.line, entry.path, "duplicate name");
        break;
      }
    const Field* list = map.Need("slices", "a list of slices");
    if (list == nullptr) continue;
    const size_t first = config.options.slices.size();
    for (const Field& part : yaml::ReadList(problems, *list, "a list of slices")) {
      MapReader one(problems, part, {"name", "gflop_per_s", "cells", "device", "sm_percent"});
      SliceOffer slice = cell;
      slice.gpu = gpu;
      Take(slice.name, one.Need("name", "a name"),
           [&](const Field& f) { return yaml::ReadName(problems, f); });
      Take(slice.gflop_per_s, one.Need("gflop_per_s", "GFLOP/s"),
           [&](const Field& f) { return yaml::ReadNumber(problems, f, 1e-3, 1e9); });
      Take(slice.cells, one.Find("cells"),
           [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, kMaxCells); });
      for (size_t i = first; i < config.options.slices.size(); i++)
        if (config.options.slices[i].name == slice.name && !slice.name.empty())
          problems.Add(part.line, part.path, "duplicate name within its GPU");
      CudaPlace place = whole;
      place.gpu = gpu;
      place.slice = slice.name;
      place.where = fmt::format("{}:{}: {}", file_name, part.line, part.path);
      ReadPlace(problems, one, config.cuda, place);
      if (config.cuda) config.places.push_back(place);
      config.options.slices.push_back(slice);
    }
    if (config.options.slices.size() == first)
      problems.Add(list->line, list->path, "expected at least one slice");
  }
  if (gpus == 0 || config.options.slices.size() > kMaxSlicesPerExecutor)
    problems.Add(field.line, field.path,
                 fmt::format("expected 1 to {} slices in all", kMaxSlicesPerExecutor));
}

void ReadMemory(Problems& problems, const Field* field, ExecutorConfig& config) {
  if (config.cuda) config.options.memory = InputMemory::kAuto;
  if (field == nullptr) return;
  const auto word = yaml::ReadChoice(problems, *field, {"auto", "gpu", "host"});
  if (!word) return;
  if (!config.cuda) return problems.Add(field->line, field->path, kOnlyCuda);
  config.options.memory = std::array{InputMemory::kAuto, InputMemory::kGpu, InputMemory::kHost}[*word];
  if (config.options.memory == InputMemory::kGpu && !config.options.gateway.address.starts_with(kRdmaPrefix))
    problems.Add(
        field->line, field->path,
        "gpu: expected gateway: rdma:ADDRESS:PORT, a gateway of this machine writes the host's memory alone");
}

}  // namespace

void ReadGatewayAddress(Problems& problems, const MapReader& top, const std::string& file_name,
                        GatewayAddress& address) {
  constexpr const char* kForms = "the path of the gateway's socket for executors, or rdma:ADDRESS:PORT";
  const Field* token = top.Find("token_file");
  const Field* gateway = top.Need("gateway", kForms);
  if (token != nullptr) address.token = ReadToken(problems, *token, file_name, "the executors' token");
  if (gateway == nullptr) return;
  const auto text = yaml::ReadText(problems, *gateway, kForms);
  if (!text) return;
  const auto refuse = [&](const char* why) {
    problems.Add(gateway->line, gateway->path,
                 fmt::format("expected {}, got {}{}", kForms, yaml::Describe(gateway->node), why));
  };
  const bool rdma = text->starts_with(kRdmaPrefix);
  if (text->starts_with("tcp:")) return refuse("");  // that is what a controller's address may be
  if (text->starts_with("unix:")) return refuse("; write the path without unix:");
  if (!rdma && base::SocketAddress::Parse(*text)) return refuse(" without rdma:");
  if (!rdma) {
    Take(address.address, gateway, [&](const Field& f) { return ReadSocketPath(problems, f); });
    return;
  }
  address.address = *text;
  const auto endpoint = base::SocketAddress::Parse(std::string_view(*text).substr(kRdmaPrefix.size()));
  if (!endpoint || endpoint->port() == 0) refuse("");
  if (rdma && token == nullptr)
    problems.Add(gateway->line, "token_file",
                 "expected a file with the gateway's token for executors, got nothing");
}

Result<ExecutorConfig> ParseExecutorConfig(const std::string& yaml, const std::string& file_name) {
  ExecutorConfig config;
  const auto read = yaml::ReadDocument(yaml, file_name, [&](Problems& problems, const Field& root) {
    MapReader top(problems, root,
                  {"gateway", "token_file", "name", "engine", "memory", "cell", "gpus", "models"});
    ReadGatewayAddress(problems, top, file_name, config.options.gateway);
    Take(config.options.name, top.Need("name", "a name"),
         [&](const Field& f) { return yaml::ReadName(problems, f); });
    if (const Field* f = top.Find("engine"))
      if (auto word = yaml::ReadChoice(problems, *f, {"emulated", "cuda"})) config.cuda = *word == 1;
    ReadMemory(problems, top.Find("memory"), config);
    SliceOffer cell;
    cell.cells = 4;
    cell.input_bytes = 1 << 20;
    cell.output_bytes = 256 << 10;
    if (const Field* f = top.Find("cell")) {
      MapReader map(problems, *f, {"input", "output"});
      Take(cell.input_bytes, map.Find("input"),
           [&](const Field& g) { return ReadBytes(problems, g, 64, kMaxCellBytes); });
      Take(cell.output_bytes, map.Find("output"),
           [&](const Field& g) { return ReadBytes(problems, g, kMaxMessage, kMaxCellBytes); });
    }
    if (const Field* f = top.Need("gpus", "a list of GPUs")) ReadGpus(problems, *f, file_name, cell, config);
    const Field* models = top.Need("models", "a list of models");
    if (models == nullptr) return;
    for (const Field& entry : yaml::ReadList(problems, *models, "a list of models")) {
      const ModelSpec spec = ReadModelSpec(problems, entry);
      if (const auto fits = CheckCell(CardOf(spec), cell.input_bytes, cell.output_bytes); !fits)
        problems.Add(entry.line, entry.path, fits.error().message);
      for (const ModelSpec& other : config.models)
        if (other.name == spec.name && !spec.name.empty())
          problems.Add(entry.line, entry.path, "duplicate name");
      config.models.push_back(spec);
    }
    if (config.models.empty()) problems.Add(models->line, models->path, "expected at least one model");
  });
  if (!read) return tl::make_unexpected(read.error());
  return config;
}

Result<ExecutorConfig> LoadExecutorConfig(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseExecutorConfig(*text, path);
}

}  // namespace spillway::gateway
