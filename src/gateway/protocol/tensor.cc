// SPDX-License-Identifier: Apache-2.0
#include "gateway/protocol/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace spillway::gateway {
namespace {

struct TypeFacts {
  std::string_view word;
  size_t bytes;
};
constexpr std::array<TypeFacts, kDataTypes> kTypes = {{{"BOOL", 1},
                                                       {"UINT8", 1},
                                                       {"UINT16", 2},
                                                       {"UINT32", 4},
                                                       {"UINT64", 8},
                                                       {"INT8", 1},
                                                       {"INT16", 2},
                                                       {"INT32", 4},
                                                       {"INT64", 8},
                                                       {"FP16", 2},
                                                       {"BF16", 2},
                                                       {"FP32", 4},
                                                       {"FP64", 8}}};

constexpr size_t kMaxTensors = 16;
constexpr size_t kMaxRank = 8;
constexpr int64_t kMaxExtent = int64_t{1} << 31;
constexpr uint64_t kMaxRowBytes = uint64_t{1} << 34;

nlohmann::json CardsToJson(const std::vector<TensorCard>& cards) {
  nlohmann::json list = nlohmann::json::array();
  for (const TensorCard& card : cards)
    list.push_back({{"name", card.name}, {"datatype", ToString(card.type)}, {"shape", card.shape}});
  return list;
}

Result<std::vector<TensorCard>> ParseCards(const nlohmann::json& json, const std::string& what) {
  const auto wrong = [&](const std::string& text) { return Fail(ErrorCode::kBadInput, what + ": " + text); };
  if (!json.is_array() || json.empty() || json.size() > kMaxTensors)
    return wrong(fmt::format("expected a list of 1 to {} tensors", kMaxTensors));
  std::vector<TensorCard> cards;
  for (const auto& entry : json) {
    TensorCard card;
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !IsTensorName(entry["name"].get_ref<const std::string&>()))
      return wrong("expected a tensor's name");
    card.name = entry["name"];
    const auto type = entry.contains("datatype") && entry["datatype"].is_string()
                          ? ParseDataType(entry["datatype"].get_ref<const std::string&>())
                          : std::nullopt;
    if (!type) return wrong(card.name + ": expected a datatype such as FP32");
    card.type = *type;
    if (!entry.contains("shape") || !entry["shape"].is_array() || entry["shape"].empty() ||
        entry["shape"].size() > kMaxRank)
      return wrong(fmt::format("{}: expected a shape of 1 to {} extents", card.name, kMaxRank));
    uint64_t bytes = BytesOf(card.type);
    for (const auto& extent : entry["shape"]) {
      const bool first = card.shape.empty();
      const int64_t value = extent.is_number_integer() ? extent.get<int64_t>() : 0;
      if (!(value >= 1 && value <= kMaxExtent) && !(first && value == -1))
        return wrong(card.name + ": expected extents of 1 or more, or -1 for the first");
      card.shape.push_back(value);
      // Both factors stay below 2^34 and 2^31: no overflow.
      if (value > 0) bytes *= static_cast<uint64_t>(value);
      if (bytes > kMaxRowBytes) return wrong(card.name + ": a row is larger than 16 GiB");
    }
    cards.push_back(std::move(card));
  }
  return cards;
}

uint64_t SumFor(const std::vector<TensorCard>& cards, int64_t rows) {
  uint64_t bytes = 0;
  for (const TensorCard& card : cards) bytes = Aligned(bytes) + card.BytesFor(rows);
  return bytes;
}

}  // namespace

std::string_view ToString(DataType type) { return kTypes[static_cast<size_t>(type)].word; }
size_t BytesOf(DataType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::optional<DataType> ParseDataType(std::string_view word) {
  for (size_t i = 0; i < kTypes.size(); i++)
    if (kTypes[i].word == word) return static_cast<DataType>(i);
  return std::nullopt;
}

bool IsTensorName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::vector<int64_t> TensorCard::ShapeOf(int64_t rows) const {
  std::vector<int64_t> extents = shape;
  if (batched()) extents[0] = rows;
  return extents;
}

uint64_t TensorCard::BytesFor(int64_t rows) const {
  uint64_t bytes = BytesOf(type);
  for (int64_t extent : shape) bytes *= static_cast<uint64_t>(extent == -1 ? rows : extent);
  return bytes;
}

uint64_t ModelCard::InputBytes(int64_t rows) const { return SumFor(inputs, rows); }
uint64_t ModelCard::OutputBytes(int64_t rows) const { return SumFor(outputs, rows); }

nlohmann::json ToJson(const ModelCard& card) {
  return {{"name", card.name},
          {"version", card.version},
          {"platform", card.platform},
          {"inputs", CardsToJson(card.inputs)},
          {"outputs", CardsToJson(card.outputs)},
          {"most_rows", card.most_rows},
          {"gflop", card.gflop},
          {"gflop_per_row", card.gflop_per_row}};
}

Result<ModelCard> ParseModelCard(const nlohmann::json& json) {
  const auto wrong = [](const std::string& text) { return Fail(ErrorCode::kBadInput, "model: " + text); };
  if (!json.is_object()) return wrong("expected an object");
  ModelCard card;
  const auto text = [&](const char* key, std::string& into) {
    if (!json.contains(key) || !json[key].is_string() ||
        !IsTensorName(json[key].get_ref<const std::string&>()))
      return false;
    into = json[key];
    return true;
  };
  if (!text("name", card.name)) return wrong("expected a name");
  if (!text("version", card.version)) return wrong(card.name + ": expected a version");
  if (!text("platform", card.platform)) return wrong(card.name + ": expected a platform");
  const auto number = [&](const char* key, double& into) {
    if (!json.contains(key) || !json[key].is_number()) return false;
    into = json[key];
    return into >= 0 && into <= 1e12;
  };
  double rows = 0;
  if (!number("gflop", card.gflop) || !number("gflop_per_row", card.gflop_per_row))
    return wrong(card.name + ": expected gflop and gflop_per_row of 0 or more");
  if (!number("most_rows", rows) || rows < 1 || rows > 1e6)
    return wrong(card.name + ": expected most_rows, 1 to 1000000");
  card.most_rows = static_cast<int64_t>(rows);
  auto inputs = ParseCards(json.value("inputs", nlohmann::json()), card.name + ".inputs");
  if (!inputs) return tl::make_unexpected(inputs.error());
  auto outputs = ParseCards(json.value("outputs", nlohmann::json()), card.name + ".outputs");
  if (!outputs) return tl::make_unexpected(outputs.error());
  card.inputs = std::move(*inputs);
  card.outputs = std::move(*outputs);
  if (std::none_of(card.inputs.begin(), card.inputs.end(), [](const TensorCard& t) { return t.batched(); }))
    card.most_rows = 1;
  return card;
}

}  // namespace spillway::gateway
