// SPDX-License-Identifier: Apache-2.0
#include "gateway/model_spec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gateway/document.h"

namespace spillway::gateway {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using Kind = ModelSpec::Kind;

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxWeights = 1 << 28;  // of a layer: 1 GiB

void TakeSize(Problems& problems, int64_t& into, const Field* field, int64_t most) {
  Take(into, field,
       [&](const Field& f) { return yaml::ReadInteger(problems, f, 1, static_cast<uint64_t>(most)); });
}

void ReadLayers(Problems& problems, const Field& field, ModelSpec& spec) {
  for (const Field& entry : yaml::ReadList(problems, field, "a list of widths")) {
    int64_t width = 1;
    TakeSize(problems, width, &entry, kMaxWidth);
    spec.layers.push_back(width);
  }
  if (spec.layers.size() < 2 || spec.layers.size() > 64) {
    problems.Add(field.line, field.path,
                 fmt::format("expected 2 to 64 widths, the input's first, got {}", spec.layers.size()));
    spec.layers = {1, 1};
  }
  for (size_t i = 0; i + 1 < spec.layers.size(); i++)
    if (spec.layers[i] * spec.layers[i + 1] > kMaxWeights)
      problems.Add(field.line, field.path, fmt::format("expected layers of at most {} weights", kMaxWeights));
}

}  // namespace

ModelSpec ReadModelSpec(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"name", "kind", "layers", "seed", "rows", "m", "k", "n", "row_bytes"});
  ModelSpec spec;
  Take(spec.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  if (const Field* f = map.Need("kind", "one of echo, mlp, product"))
    if (auto word = yaml::ReadChoice(problems, *f, {"echo", "mlp", "product"}))
      spec.kind = static_cast<ModelSpec::Kind>(*word);
  TakeSize(problems, spec.most_rows, map.Find("rows"), 1'000'000);
  if (const Field* kind = map.Find("kind"); kind == nullptr || !problems.Sound(kind->path)) {
    spec.layers = {1, 1};  // something sound for what is read after it
    return spec;
  }
  const auto only = [&](std::initializer_list<std::string_view> keys, ModelSpec::Kind kind,
                        const char* word) {
    if (spec.kind != kind) map.Refuse(keys, fmt::format("allowed only for a model of kind {}", word));
  };
  only({"layers", "seed"}, ModelSpec::Kind::kMlp, "mlp");
  only({"m", "k", "n"}, ModelSpec::Kind::kProduct, "product");
  only({"row_bytes"}, ModelSpec::Kind::kEcho, "echo");
  switch (spec.kind) {
    case ModelSpec::Kind::kMlp:
      if (const Field* f = map.Need("layers", "a list of widths, the input's first"))
        ReadLayers(problems, *f, spec);
      else
        spec.layers = {1, 1};
      Take(spec.seed, map.Find("seed"),
           [&](const Field& f) { return yaml::ReadInteger(problems, f, 0, UINT32_MAX); });
      break;
    case ModelSpec::Kind::kProduct:
      TakeSize(problems, spec.m, map.Need("m", "the number of rows of matrix a"), kMaxWidth);
      TakeSize(problems, spec.k, map.Need("k", "the number of columns of matrix a"), kMaxWidth);
      TakeSize(problems, spec.n, map.Need("n", "the number of columns of matrix b"), kMaxWidth);
      break;
    case ModelSpec::Kind::kEcho:
      TakeSize(problems, spec.k, map.Need("row_bytes", "the number of bytes in a row"), 1 << 30);
      break;
  }
  return spec;
}

ModelCard CardOf(const ModelSpec& spec) {
  ModelCard card;
  card.name = spec.name;
  card.most_rows = spec.most_rows;
  switch (spec.kind) {
    case Kind::kEcho:
      card.platform = "spillway_echo";
      card.inputs = {{"input", DataType::kU8, {-1, spec.k}}};
      card.outputs = {{"output", DataType::kU8, {-1, spec.k}}};
      break;
    case Kind::kProduct:
      card.platform = "spillway_product";
      card.most_rows = 1;
      card.inputs = {{"a", DataType::kF32, {spec.m, spec.k}}, {"b", DataType::kF32, {spec.k, spec.n}}};
      card.outputs = {{"c", DataType::kF32, {spec.m, spec.n}}};
      card.gflop =
          2e-9 * static_cast<double>(spec.m) * static_cast<double>(spec.k) * static_cast<double>(spec.n);
      break;
    case Kind::kMlp:
      card.platform = "spillway_mlp";
      card.inputs = {{"input", DataType::kF32, {-1, spec.layers.front()}}};
      card.outputs = {{"output", DataType::kF32, {-1, spec.layers.back()}}};
      for (size_t i = 0; i + 1 < spec.layers.size(); i++)
        card.gflop_per_row +=
            2e-9 * static_cast<double>(spec.layers[i]) * static_cast<double>(spec.layers[i + 1]);
      break;
  }
  return card;
}

Result<void> CheckCell(const ModelCard& card, uint64_t input_bytes, uint64_t output_bytes) {
  const uint64_t inputs = card.InputBytes(card.most_rows), outputs = card.OutputBytes(card.most_rows);
  if (inputs <= input_bytes && outputs <= output_bytes) return {};
  return Fail(ErrorCode::kBadInput,
              fmt::format("expected {} rows to fit into a cell: {} of {} bytes of inputs, {} of {} of "
                          "outputs; fewer rows, or a larger cell",
                          card.most_rows, inputs, input_bytes, outputs, output_bytes));
}

nlohmann::json ToJson(const ModelSpec& spec) {
  nlohmann::json text{{"name", spec.name}, {"rows", spec.most_rows}};
  switch (spec.kind) {
    case ModelSpec::Kind::kEcho:
      text.update({{"kind", "echo"}, {"row_bytes", spec.k}});
      break;
    case ModelSpec::Kind::kMlp:
      text.update({{"kind", "mlp"}, {"layers", spec.layers}, {"seed", spec.seed}});
      break;
    case ModelSpec::Kind::kProduct:
      text.update({{"kind", "product"}, {"m", spec.m}, {"k", spec.k}, {"n", spec.n}});
      break;
  }
  return text;
}

}  // namespace spillway::gateway
