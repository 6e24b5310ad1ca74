// SPDX-License-Identifier: Apache-2.0
#include "gateway/control/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "gateway/document.h"
#include "gateway/model_spec.h"
#include "gateway/transport/channel.h"
#include "gateway/transport/executor_offer.h"
#include "scheduler/job.h"

namespace spillway::gateway {

using nlohmann::json;
using scheduler::ServedModel;
using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using namespace std::chrono_literals;

namespace {

constexpr const char* kDefaultTenant = "default";

// A program's tensors are its own to say.
void ReadProgram(Problems& problems, const MapReader& top, const Field& field, ServedModel& served) {
  top.Refuse({"model", "cell", "cells"}, "not allowed with `program`");
  Take(served.host_program, &field, [&](const Field& f) { return yaml::ReadName(problems, f); });
  served.name = served.host_program;
  Take(served.name, top.Find("name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
}

std::optional<std::string> ReadTenant(Problems& problems, const Field& field,
                                      const std::vector<std::string>& tenants) {
  const auto name = yaml::ReadName(problems, field);
  if (!name || tenants.empty() || std::count(tenants.begin(), tenants.end(), *name) > 0) return name;
  problems.Add(field.line, field.path,
               fmt::format("expected a tenant of the gateway's `controller.quotas` or `tenants`, got {}, {}",
                           yaml::Excerpt(*name), yaml::Suggest(*name, {tenants.begin(), tenants.end()})));
  return std::nullopt;
}

}  // namespace

std::vector<std::string> KnownTenants(const GatewayConfig& config) {
  std::vector<std::string> known;
  if (!config.controller) return known;
  const auto& quotas = config.controller->options.gpu_quotas;
  if (quotas.empty() || quotas.contains("*")) return known;
  for (const auto& [name, gpus] : quotas) known.push_back(name);
  for (const auto& tenant : config.broker.tenants) known.push_back(tenant.name);
  known.emplace_back(kDefaultTenant);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return known;
}

Result<ServedModel> ParseModelFile(const std::string& yaml, const std::string& file_name,
                                   const std::vector<std::string>& tenants) {
  ServedModel served;
  const auto read = yaml::ReadDocument(yaml, file_name, [&](Problems& problems, const Field& root) {
    MapReader top(
        problems, root,
        {"model", "program", "name", "tenant", "replicas", "share", "memory", "slo", "cell", "cells"});
    served.tenant = kDefaultTenant;
    Take(served.tenant, top.Find("tenant"), [&](const Field& f) { return ReadTenant(problems, f, tenants); });
    Take(served.replicas, top.Find("replicas"),
         [&](const Field& f) { return yaml::ReadInteger(problems, f, 0, 1000); });
    if (const Field* f = top.Find("share"))
      if (const auto share = yaml::ReadNumber(problems, *f, 0.001, 1))
        served.milli = static_cast<int>(std::lround(*share * scheduler::kWholeGpu));
    if (const Field* f = top.Find("memory"))
      if (const auto bytes = ReadBytes(problems, *f, 1 << 20, uint64_t{1} << 40))
        served.memory_mib = static_cast<int>((*bytes + (1 << 20) - 1) >> 20);
    if (const Field* f = top.Find("slo"))
      if (const auto time = yaml::ReadDuration(problems, *f, 1ms, 1h)) served.slo_ms = time->count();
    if (const Field* f = top.Find("program")) return ReadProgram(problems, top, *f, served);
    top.Refuse({"name"}, "allowed only with `program`; `model` has a name of its own");
    uint64_t input = 1 << 20, output = 256 << 10, cells = 4;
    if (const Field* f = top.Find("cell")) {
      MapReader cell(problems, *f, {"input", "output"});
      Take(input, cell.Find("input"),
           [&](const Field& g) { return ReadBytes(problems, g, 64, kMaxCellBytes); });
      Take(output, cell.Find("output"),
           [&](const Field& g) { return ReadBytes(problems, g, kMaxMessage, kMaxCellBytes); });
    }
    Take(cells, top.Find("cells"),
         [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, kMaxCells); });
    const Field* entry =
        top.Need("model", "a map like an entry of `models` in executor.yaml, or `program` instead");
    if (entry == nullptr) return;
    const ModelSpec spec = ReadModelSpec(problems, *entry);
    if (const auto fits = CheckCell(CardOf(spec), input, output); !fits)
      problems.Add(entry->line, entry->path, fits.error().message);
    served.name = spec.name;
    served.program = json{{"cell", {{"input", input}, {"output", output}}},
                          {"cells", cells},
                          {"models", json::array({ToJson(spec)})}}
                         .dump();
  });
  if (!read) return tl::make_unexpected(read.error());
  return served;
}

}  // namespace spillway::gateway
