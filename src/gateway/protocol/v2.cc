// SPDX-License-Identifier: Apache-2.0
#include "gateway/protocol/v2.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "gateway/protocol/v2_body.h"
#include "gateway/protocol/v2_entry.h"

namespace spillway::gateway {
namespace {

using nlohmann::json;

constexpr size_t kMaxId = 128;
// Of an answer's text, names and shapes in bounds, and an id whose every byte is escaped.
constexpr uint64_t kMostHead = 2048, kMostEntryHead = 512;
constexpr int64_t kMaxTimeoutUs = 3'600'000'000;  // an hour

// `parameters` of the request or of a tensor, or nullptr without. `where`: "" or as "input a: ".
Result<const json*> Parameters(const json& from, const std::string& where) {
  if (!from.contains("parameters")) return nullptr;
  if (!from["parameters"].is_object())
    return Wrong(fmt::format("{}parameters: expected an object, got {}", where, Shown(from["parameters"])));
  return &from["parameters"];
}

Result<bool> Flag(const json& from, const std::string& where, const char* key, bool fallback) {
  const auto parameters = Parameters(from, where);
  if (!parameters) return tl::make_unexpected(parameters.error());
  if (*parameters == nullptr || !(*parameters)->contains(key)) return fallback;
  const json& flag = (**parameters)[key];
  if (!flag.is_boolean())
    return Wrong(fmt::format("{}parameters.{}: expected true or false, got {}", where, key, Shown(flag)));
  return flag.get<bool>();
}

Result<void> TakeOutputs(const ModelCard& model, const json& request, V2Request& into) {
  const auto all_binary = Flag(request, "", "binary_data_output", false);
  if (!all_binary) return tl::make_unexpected(all_binary.error());
  if (!request.contains("outputs")) {
    for (size_t i = 0; i < model.outputs.size(); i++) into.outputs.push_back({i, *all_binary});
  } else {
    if (!request["outputs"].is_array() || request["outputs"].size() > model.outputs.size())
      return Wrong(fmt::format("outputs: expected a list of the model's outputs, {}, got {}",
                               NamesOf(model.outputs), Shown(request["outputs"])));
    for (const json& entry : request["outputs"]) {
      size_t i = 0;
      const bool named = entry.is_object() && entry.contains("name");
      while (i < model.outputs.size() && (!named || entry["name"] != model.outputs[i].name)) i++;
      if (i == model.outputs.size())
        return Wrong(fmt::format("outputs: model {} has no output {}, expected {}", model.name,
                                 named ? Shown(entry["name"]) : "without a name", NamesOf(model.outputs)));
      if (std::any_of(into.outputs.begin(), into.outputs.end(), [&](const auto& o) { return o.index == i; }))
        return Wrong(fmt::format("outputs: expected each once, got {} twice", model.outputs[i].name));
      const auto binary =
          Flag(entry, fmt::format("output {}: ", model.outputs[i].name), "binary_data", *all_binary);
      if (!binary) return tl::make_unexpected(binary.error());
      into.outputs.push_back({i, *binary});
    }
  }
  for (const auto& output : into.outputs) {
    const TensorCard& card = model.outputs[output.index];
    if (!output.binary && (card.type == DataType::kF16 || card.type == DataType::kBf16))
      return Wrong(fmt::format("output {}: {} has no JSON form, expected binary_data: true", card.name,
                               ToString(card.type)));
  }
  return {};
}

// One behind the other, as tensor.h says.
std::vector<std::byte> Laid(const std::vector<std::span<const std::byte>>& tensors, uint64_t all_bytes) {
  std::vector<std::byte> laid(all_bytes);
  uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    offset = Aligned(offset);
    std::copy(tensor.begin(), tensor.end(), laid.begin() + static_cast<ptrdiff_t>(offset));
    offset += tensor.size();
  }
  return laid;
}

Result<std::string> IdOf(const json& request) {
  if (!request.contains("id")) return std::string();
  if (!request["id"].is_string() || request["id"].get_ref<const std::string&>().size() > kMaxId)
    return Wrong(
        fmt::format("id: expected a text of up to {} characters, got {}", kMaxId, Shown(request["id"])));
  return request["id"].get<std::string>();
}

Result<std::optional<std::chrono::microseconds>> TimeoutOf(const json& request) {
  const auto parameters = Parameters(request, "");
  if (!parameters) return tl::make_unexpected(parameters.error());
  if (*parameters == nullptr || !(*parameters)->contains("timeout")) return std::nullopt;
  const json& timeout = (**parameters)["timeout"];
  if (!timeout.is_number_integer() || timeout.get<int64_t>() < 0 || timeout.get<int64_t>() > kMaxTimeoutUs)
    return Wrong(fmt::format("parameters.timeout: expected a whole number of microseconds, 0 to {}, got {}",
                             kMaxTimeoutUs, Shown(timeout)));
  if (timeout.get<int64_t>() == 0) return std::nullopt;
  return std::chrono::microseconds(timeout.get<int64_t>());
}

// That all inputs have which are of rows; 1 where none is. `entries`: of the model's inputs, in its order.
Result<int64_t> CommonRows(const ModelCard& model, const std::vector<const json*>& entries) {
  std::optional<int64_t> common;
  for (size_t i = 0; i < model.inputs.size(); i++) {
    const auto rows = RowsOf(model, model.inputs[i], *entries[i]);
    if (!rows) return tl::make_unexpected(rows.error());
    if (!model.inputs[i].batched()) continue;
    if (common && *rows != *common)
      return Wrong(fmt::format("input {}: expected {} rows, as the inputs before it have, got {}",
                               model.inputs[i].name, *common, *rows));
    common = *rows;
  }
  return common.value_or(1);
}

// The binary tensors, of the model's inputs in its order; without data where an input is not binary. They
// follow the JSON in the request's own order, which need not be the model's.
Result<std::vector<std::string_view>> BinaryTensors(const ModelCard& model, const json& request,
                                                    const std::vector<const json*>& entries, int64_t rows,
                                                    std::string_view binary) {
  std::vector<std::string_view> tensors(model.inputs.size());
  for (const json& entry : request["inputs"]) {
    size_t i = 0;
    while (entries[i] != &entry) i++;
    const auto own = Parameters(entry, fmt::format("input {}: ", model.inputs[i].name));
    if (!own) return tl::make_unexpected(own.error());
    if (*own == nullptr || !(*own)->contains("binary_data_size")) continue;
    const json& size = (**own)["binary_data_size"];
    const uint64_t expected = model.inputs[i].BytesFor(rows);
    if (!size.is_number_unsigned() || size.get<uint64_t>() != expected)
      return Wrong(fmt::format("input {}: expected binary_data_size {}, got {}", model.inputs[i].name,
                               expected, Shown(size)));
    if (binary.size() < expected)
      return Wrong(fmt::format("input {}: expected {} bytes behind the JSON, got {}", model.inputs[i].name,
                               expected, binary.size()));
    tensors[i] = binary.substr(0, expected);
    binary.remove_prefix(expected);
  }
  if (!binary.empty())
    return Wrong(fmt::format("{} bytes are left behind the last binary tensor", binary.size()));
  return tensors;
}

// Of each input what came of it, binary or read from JSON.
Result<std::vector<std::span<const std::byte>>> Tensors(const ModelCard& model,
                                                        const std::vector<const json*>& entries,
                                                        const std::vector<std::string_view>& binary,
                                                        const std::vector<std::vector<std::byte>>& from_json,
                                                        bool may_be_binary) {
  std::vector<std::span<const std::byte>> tensors;
  for (size_t i = 0; i < model.inputs.size(); i++) {
    const std::string& name = model.inputs[i].name;
    const json& entry = *entries[i];
    if (binary[i].data() != nullptr) {
      if (entry.contains("data"))
        return Wrong(fmt::format("input {}: expected data or binary_data_size, got both", name));
      tensors.push_back(std::as_bytes(std::span(binary[i])));
      continue;
    }
    if (!entry.contains("data") || !entry["data"].is_array())
      return Wrong(fmt::format("input {}: expected data, a list{}, got {}", name,
                               may_be_binary ? ", or binary_data_size" : "", Got(entry, "data")));
    tensors.emplace_back(from_json[i]);
  }
  return tensors;
}

// The object, but for its closing brace: more is to come.
std::string Open(const json& object) {
  std::string text = object.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();
  return text;
}

// Characters of a value in JSON, with the comma.
constexpr uint64_t MostText(DataType type) {
  switch (type) {
    case DataType::kBool:
      return sizeof("false,") - 1;
    case DataType::kU8:
      return sizeof("255,") - 1;
    case DataType::kI8:
      return sizeof("-128,") - 1;
    case DataType::kU16:
      return sizeof("65535,") - 1;
    case DataType::kI16:
      return sizeof("-32768,") - 1;
    case DataType::kU32:
      return sizeof("4294967295,") - 1;
    case DataType::kI32:
      return sizeof("-2147483648,") - 1;
    case DataType::kU64:
    case DataType::kI64:
      return sizeof("18446744073709551615,") - 1;
    // Without an exponent where that is not longer than with one, and then with ".0".
    case DataType::kF32:
      return sizeof("-12345678900000.0,") - 1;
    case DataType::kF64:
      return sizeof("-1234567890123456700000.0,") - 1;
    case DataType::kF16:
    case DataType::kBf16:
      return 0;
  }
  return 0;
}

// As short as a number may be that is read as the same value again; with a point or an exponent where it is a
// fraction's type.
template <class Value>
void AppendValue(std::string& text, Value value) {
  std::array<char, 32> digits;
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view number(digits.data(), end);
  text += number;
  if (std::is_floating_point_v<Value> && number.find_first_of(".e") == number.npos) text += ".0";
}

// `,"data":[...]`. Which value cannot be said in JSON; nullopt: all could.
std::optional<uint64_t> AppendData(std::string& text, DataType type, std::span<const std::byte> values) {
  text += R"(,"data":[)";
  uint64_t count = 0;
  const bool sayable = WithType(type, [&](auto value) {
    for (uint64_t i = 0; i < values.size(); i += sizeof(value), count++) {
      if (count > 0) text += ',';
      if constexpr (std::is_same_v<decltype(value), bool>) {
        text += values[i] == std::byte{0} ? "false" : "true";  // whatever byte the model wrote
      } else {
        std::memcpy(&value, values.data() + i, sizeof(value));
        if constexpr (std::is_floating_point_v<decltype(value)>)
          if (!std::isfinite(value)) return false;
        AppendValue(text, value);
      }
    }
    return true;
  });
  text += ']';
  return sayable ? std::nullopt : std::optional(count);
}

}  // namespace

Result<V2Request> ParseV2Request(const ModelCard& model, std::string_view body,
                                 std::optional<uint64_t> json_bytes, uint64_t most_bytes) {
  if (json_bytes && *json_bytes > body.size())
    return Wrong(fmt::format("Inference-Header-Content-Length: expected at most the body's {} bytes, got {}",
                             body.size(), *json_bytes));
  const std::string_view text = body.substr(0, json_bytes.value_or(body.size()));
  V2Request parsed;
  auto read = ReadV2Body(model, text, most_bytes);
  if (!read) return tl::make_unexpected(read.error());
  if (read->too_large) {
    parsed.input_bytes = *read->too_large;
    return parsed;
  }
  const json& request = read->head;
  auto id = IdOf(request);
  if (!id) return tl::make_unexpected(id.error());
  parsed.id = std::move(*id);
  const auto timeout = TimeoutOf(request);
  if (!timeout) return tl::make_unexpected(timeout.error());
  parsed.timeout = *timeout;
  const auto entries = FindInputs(model, request);
  if (!entries) return tl::make_unexpected(entries.error());
  const auto rows = CommonRows(model, *entries);
  if (!rows) return tl::make_unexpected(rows.error());
  parsed.rows = *rows;
  const auto binary = BinaryTensors(model, request, *entries, *rows, body.substr(text.size()));
  if (!binary) return tl::make_unexpected(binary.error());
  // What each tensor has is looked at before room is made for all: a shape may claim more than came.
  const auto tensors = Tensors(model, *entries, *binary, read->data, json_bytes.has_value());
  if (!tensors) return tl::make_unexpected(tensors.error());
  parsed.input_bytes = model.InputBytes(*rows);
  if (parsed.input_bytes > most_bytes) return parsed;
  if (tensors->size() == 1 && binary->front().data() == nullptr) {
    parsed.inputs = std::move(read->data[0]);
  } else {
    parsed.inputs = Laid(*tensors, parsed.input_bytes);
  }
  if (auto taken = TakeOutputs(model, request, parsed); !taken) return tl::make_unexpected(taken.error());
  return parsed;
}

uint64_t MostAnswerText(const ModelCard& model, const V2Request& request) {
  uint64_t most = kMostHead;
  for (const auto& wanted : request.outputs) {
    const TensorCard& card = model.outputs[wanted.index];
    most += kMostEntryHead;
    if (!wanted.binary) most += card.BytesFor(request.rows) / BytesOf(card.type) * MostText(card.type);
  }
  return most;
}

// Text as it goes: as a tree of values each would take sixteen bytes.
Result<V2Response> MakeV2Response(const ModelCard& model, const V2Request& request,
                                  std::span<const std::byte> outputs) {
  if (outputs.size() != model.OutputBytes(request.rows))
    return Fail(ErrorCode::kSystem,
                fmt::format("model {}: {} bytes of outputs, expected {} for {} rows", model.name,
                            outputs.size(), model.OutputBytes(request.rows), request.rows));
  json head = {{"model_name", model.name}, {"model_version", model.version}};
  if (!request.id.empty()) head["id"] = request.id;
  V2Response made;
  uint64_t most = MostAnswerText(model, request);
  for (const auto& wanted : request.outputs)
    if (wanted.binary) most += model.outputs[wanted.index].BytesFor(request.rows);
  made.body.reserve(most);
  made.body += Open(head) + R"(,"outputs":[)";
  std::vector<std::span<const std::byte>> binary;
  for (const auto& wanted : request.outputs) {
    uint64_t offset = 0;
    for (size_t i = 0; i < wanted.index; i++)
      offset = Aligned(offset) + model.outputs[i].BytesFor(request.rows);
    const TensorCard& card = model.outputs[wanted.index];
    const auto values = outputs.subspan(Aligned(offset), card.BytesFor(request.rows));
    json entry = {
        {"name", card.name}, {"datatype", ToString(card.type)}, {"shape", card.ShapeOf(request.rows)}};
    if (wanted.binary) entry["parameters"] = {{"binary_data_size", values.size()}};
    if (made.body.back() != '[') made.body += ',';
    made.body += Open(entry);
    if (wanted.binary) {
      binary.push_back(values);
    } else if (const auto wrong = AppendData(made.body, card.type, values)) {
      return Fail(ErrorCode::kSystem,
                  fmt::format("output {}: value {} is infinite or NaN, which JSON cannot express; ask for "
                              "binary_data",
                              card.name, *wrong));
    }
    made.body += '}';
  }
  made.body += "]}";
  if (binary.empty()) return made;
  made.json_bytes = made.body.size();
  for (const auto& values : binary)
    made.body.append(reinterpret_cast<const char*>(values.data()), values.size());
  return made;
}

json V2ModelMetadata(const ModelCard& model) {
  const auto tensors = [](const std::vector<TensorCard>& cards) {
    json list = json::array();
    for (const TensorCard& card : cards)
      list.push_back({{"name", card.name}, {"datatype", ToString(card.type)}, {"shape", card.shape}});
    return list;
  };
  return {{"name", model.name},
          {"versions", {model.version}},
          {"platform", model.platform},
          {"inputs", tensors(model.inputs)},
          {"outputs", tensors(model.outputs)}};
}

Result<bool> ParseV2IndexRequest(const std::string& body) {
  if (body.empty()) return false;
  const json asked = json::parse(body, nullptr, false);
  if (!asked.is_object()) return Fail(ErrorCode::kBadInput, "expected a JSON object, or no body");
  const auto ready = asked.find("ready");
  if (ready == asked.end()) return false;
  if (!ready->is_boolean()) return Fail(ErrorCode::kBadInput, "ready: expected true or false");
  return ready->get<bool>();
}

json V2IndexEntry(const ModelCard& model, bool is_ready) {
  return {{"name", model.name},
          {"version", model.version},
          {"state", is_ready ? "READY" : "UNAVAILABLE"},
          {"reason", is_ready ? "" : "no slice serves it now"}};
}

json V2ServerMetadata(const std::string& version) {
  return {{"name", "spillway"}, {"version", version}, {"extensions", {"binary_tensor_data"}}};
}

std::string V2Error(std::string_view message) {
  return json{{"error", message}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace spillway::gateway
