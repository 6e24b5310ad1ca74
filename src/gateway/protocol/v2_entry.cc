// SPDX-License-Identifier: Apache-2.0
#include "gateway/protocol/v2_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/yaml/problems.h"

namespace spillway::gateway {

using nlohmann::json;

tl::unexpected<Error> Wrong(const std::string& text) { return Fail(ErrorCode::kBadInput, text); }

std::string Shown(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string Shown(const json& value) {
  constexpr size_t kMaxExtents = 8;  // more are no shape, and a list of data says little
  if (value.is_array()) {
    const bool flat =
        std::all_of(value.begin(), value.end(), [](const json& one) { return one.is_number(); });
    return flat && value.size() <= kMaxExtents ? value.dump() : fmt::format("a list of {}", value.size());
  }
  if (value.is_object()) return "an object";
  return value.is_string() ? yaml::Excerpt(value.get_ref<const std::string&>()) : value.dump();
}

std::string Got(const json& from, const char* key) {
  return from.contains(key) ? Shown(from[key]) : "nothing";
}

std::string NamesOf(const std::vector<TensorCard>& cards) {
  std::string names;
  for (const TensorCard& card : cards) names += (names.empty() ? "" : ", ") + card.name;
  return names;
}

Result<size_t> InputOf(const ModelCard& model, const json& entry) {
  if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string())
    return Wrong("inputs: expected a tensor with a name, got " +
                 (entry.is_object() ? "name " + Got(entry, "name") : Shown(entry)));
  const auto& name = entry["name"].get_ref<const std::string&>();
  for (size_t i = 0; i < model.inputs.size(); i++)
    if (model.inputs[i].name == name) return i;
  return Wrong(fmt::format("inputs: model {} has no input {}, expected {}", model.name, yaml::Excerpt(name),
                           NamesOf(model.inputs)));
}

Result<std::vector<const json*>> FindInputs(const ModelCard& model, const json& request) {
  if (!request.contains("inputs") || !request["inputs"].is_array())
    return Wrong("inputs: expected a list of tensors, got " + Got(request, "inputs"));
  std::vector<const json*> found(model.inputs.size(), nullptr);
  for (const json& entry : request["inputs"]) {
    const auto input = InputOf(model, entry);
    if (!input) return tl::make_unexpected(input.error());
    const size_t i = *input;
    if (found[i] != nullptr)
      return Wrong(fmt::format("input {}: expected once, got it twice", model.inputs[i].name));
    found[i] = &entry;
  }
  for (size_t i = 0; i < found.size(); i++)
    if (found[i] == nullptr)
      return Wrong(
          fmt::format("input {}: missing, expected inputs {}", model.inputs[i].name, NamesOf(model.inputs)));
  return found;
}

Result<int64_t> RowsOf(const ModelCard& model, const TensorCard& card, const json& entry) {
  if (!entry.contains("datatype") || entry["datatype"] != ToString(card.type))
    return Wrong(fmt::format("input {}: expected datatype {}, got {}", card.name, ToString(card.type),
                             Got(entry, "datatype")));
  const auto wrong = [&] {
    return Wrong(fmt::format("input {}: expected shape {}{}, got {}", card.name, Shown(card.shape),
                             card.batched() ? fmt::format(" with 1 to {} rows", model.most_rows) : "",
                             Got(entry, "shape")));
  };
  if (!entry.contains("shape") || !entry["shape"].is_array() || entry["shape"].size() != card.shape.size())
    return wrong();
  int64_t rows = 1;
  for (size_t i = 0; i < card.shape.size(); i++) {
    const json& extent = entry["shape"][i];
    if (!extent.is_number_integer()) return wrong();
    const auto value = extent.get<int64_t>();
    if (card.shape[i] == -1) {
      if (value < 1 || value > model.most_rows) return wrong();
      rows = value;
    } else if (value != card.shape[i]) {
      return wrong();
    }
  }
  return rows;
}

}  // namespace spillway::gateway
