// SPDX-License-Identifier: Apache-2.0
#include "gateway/v2.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "model/problems.h"

namespace spillway::gateway {
namespace {

using nlohmann::json;

constexpr size_t kMostId = 128;
constexpr int64_t kMostTimeoutUs = 3'600'000'000;  // an hour

tl::unexpected<Error> Wrong(const std::string& text) { return Fail(ErrorCode::kBadInput, text); }

std::string Shown(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

// What came, for the message that refuses it: short, whatever it is.
std::string Shown(const json& value) {
  constexpr size_t kMostExtents = 8;  // more are no shape, and a list of data says little
  if (value.is_array()) {
    const bool flat =
        std::all_of(value.begin(), value.end(), [](const json& one) { return one.is_number(); });
    return flat && value.size() <= kMostExtents ? value.dump() : fmt::format("a list of {}", value.size());
  }
  if (value.is_object()) return "an object";
  return value.is_string() ? model::Excerpt(value.get_ref<const std::string&>()) : value.dump();
}

// What the object has under `key`.
std::string Got(const json& from, const char* key) {
  return from.contains(key) ? Shown(from[key]) : "nothing";
}

std::string NamesOf(const std::vector<TensorCard>& cards) {
  std::string names;
  for (const TensorCard& card : cards) names += (names.empty() ? "" : ", ") + card.name;
  return names;
}

// Calls with a value of the C++ type that stands for `type`; false for those that JSON cannot carry.
template <class Call>
bool WithType(DataType type, Call call) {
  switch (type) {
    case DataType::kBool:
      return call(bool{});
    case DataType::kU8:
      return call(uint8_t{});
    case DataType::kU16:
      return call(uint16_t{});
    case DataType::kU32:
      return call(uint32_t{});
    case DataType::kU64:
      return call(uint64_t{});
    case DataType::kI8:
      return call(int8_t{});
    case DataType::kI16:
      return call(int16_t{});
    case DataType::kI32:
      return call(int32_t{});
    case DataType::kI64:
      return call(int64_t{});
    case DataType::kF32:
      return call(float{});
    case DataType::kF64:
      return call(double{});
    case DataType::kF16:
    case DataType::kBf16:
      return false;
  }
  return false;
}

template <class T>
bool TakeValue(const json& value, T& into) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return false;
    into = value.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) return false;
    const auto number = value.get<double>();
    if (std::is_same_v<T, float> && std::abs(number) > std::numeric_limits<float>::max()) return false;
    into = static_cast<T>(number);
  } else if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
    into = static_cast<T>(number);
  } else {
    if (!value.is_number_integer() || std::is_unsigned_v<T>) return false;
    const auto number = value.get<int64_t>();
    if (number < static_cast<int64_t>(std::numeric_limits<T>::lowest())) return false;
    into = static_cast<T>(number);
  }
  return true;
}

// Whether nested data has the shape that the request names: as many numbers in other rows are other data.
bool NestedAs(const json& data, const std::vector<int64_t>& shape, size_t depth) {
  if (depth >= shape.size() || static_cast<int64_t>(data.size()) != shape[depth]) return false;
  return std::all_of(data.begin(), data.end(), [&](const json& entry) {
    return entry.is_array() ? NestedAs(entry, shape, depth + 1) : depth + 1 == shape.size();
  });
}

// Row-major, flat or nested as NestedAs says. Fewer or more values than there is room for are counted in
// `seen`; false: `wrong` is no such value.
template <class T>
bool TakeData(const json& data, std::span<std::byte> into, uint64_t& seen, const json*& wrong) {
  for (const json& entry : data) {
    if (entry.is_array()) {
      if (!TakeData<T>(entry, into, seen, wrong)) return false;
      continue;
    }
    T value{};
    if (!TakeValue(entry, value)) {
      wrong = &entry;
      return false;
    }
    if ((seen + 1) * sizeof(T) <= into.size()) std::memcpy(into.data() + seen * sizeof(T), &value, sizeof(T));
    seen++;
  }
  return true;
}

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

// The request's entry for each of the model's inputs, in the model's order.
Result<std::vector<const json*>> FindInputs(const ModelCard& model, const json& request) {
  if (!request.contains("inputs") || !request["inputs"].is_array())
    return Wrong("inputs: expected a list of tensors, got " + Got(request, "inputs"));
  std::vector<const json*> found(model.inputs.size(), nullptr);
  for (const json& entry : request["inputs"]) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string())
      return Wrong("inputs: expected a tensor with a name, got " +
                   (entry.is_object() ? "name " + Got(entry, "name") : Shown(entry)));
    const auto& name = entry["name"].get_ref<const std::string&>();
    size_t i = 0;
    while (i < model.inputs.size() && model.inputs[i].name != name) i++;
    if (i == model.inputs.size())
      return Wrong(fmt::format("inputs: model {} has no input {}, expected {}", model.name,
                               model::Excerpt(name), NamesOf(model.inputs)));
    if (found[i] != nullptr) return Wrong(fmt::format("input {}: expected once, got it twice", name));
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

}  // namespace

Result<V2Request> ParseV2Request(const ModelCard& model, std::string_view body,
                                 std::optional<uint64_t> json_bytes) {
  if (json_bytes && *json_bytes > body.size())
    return Wrong(fmt::format("Inference-Header-Content-Length: expected at most the body's {} bytes, got {}",
                             body.size(), *json_bytes));
  const std::string_view text = body.substr(0, json_bytes.value_or(body.size()));
  std::string_view binary = body.substr(text.size());
  json request;
  try {
    request = json::parse(text);
  } catch (const json::parse_error& error) {
    return Wrong(fmt::format("expected a JSON object, got {} bytes that are none from byte {} on",
                             text.size(), error.byte));
  } catch (const json::out_of_range&) {
    return Wrong("expected a JSON object, got one with a number that no double holds");
  }
  if (!request.is_object()) return Wrong("expected a JSON object, got " + Shown(request));
  V2Request parsed;
  if (request.contains("id")) {
    if (!request["id"].is_string() || request["id"].get_ref<const std::string&>().size() > kMostId)
      return Wrong(
          fmt::format("id: expected a text of up to {} characters, got {}", kMostId, Shown(request["id"])));
    parsed.id = request["id"];
  }
  const auto parameters = Parameters(request, "");
  if (!parameters) return tl::make_unexpected(parameters.error());
  if (*parameters != nullptr && (*parameters)->contains("timeout")) {
    const json& timeout = (**parameters)["timeout"];
    if (!timeout.is_number_integer() || timeout.get<int64_t>() < 0 || timeout.get<int64_t>() > kMostTimeoutUs)
      return Wrong(fmt::format("parameters.timeout: expected a whole number of microseconds, 0 to {}, got {}",
                               kMostTimeoutUs, Shown(timeout)));
    if (timeout.get<int64_t>() > 0) parsed.timeout = std::chrono::microseconds(timeout.get<int64_t>());
  }
  const auto entries = FindInputs(model, request);
  if (!entries) return tl::make_unexpected(entries.error());
  bool has_rows = false;
  for (size_t i = 0; i < model.inputs.size(); i++) {
    const auto rows = RowsOf(model, model.inputs[i], *(*entries)[i]);
    if (!rows) return tl::make_unexpected(rows.error());
    if (!model.inputs[i].batched()) continue;
    if (has_rows && *rows != parsed.rows)
      return Wrong(fmt::format("input {}: expected {} rows, as of the inputs before it, got {}",
                               model.inputs[i].name, parsed.rows, *rows));
    parsed.rows = *rows;
    has_rows = true;
  }
  // Binary tensors follow the JSON in the request's own order, which need not be the model's.
  std::vector<std::string_view> pieces(model.inputs.size());
  for (const json& entry : request["inputs"]) {
    size_t i = 0;
    while ((*entries)[i] != &entry) i++;
    const auto own = Parameters(entry, fmt::format("input {}: ", model.inputs[i].name));
    if (!own) return tl::make_unexpected(own.error());
    if (*own == nullptr || !(*own)->contains("binary_data_size")) continue;
    const json& size = (**own)["binary_data_size"];
    const uint64_t expected = model.inputs[i].BytesFor(parsed.rows);
    if (!size.is_number_unsigned() || size.get<uint64_t>() != expected)
      return Wrong(fmt::format("input {}: expected binary_data_size {}, got {}", model.inputs[i].name,
                               expected, Shown(size)));
    if (binary.size() < expected)
      return Wrong(fmt::format("input {}: expected {} bytes behind the JSON, got {}", model.inputs[i].name,
                               expected, binary.size()));
    pieces[i] = binary.substr(0, expected);
    binary.remove_prefix(expected);
  }
  if (!binary.empty())
    return Wrong(fmt::format("{} bytes are left behind the last binary tensor", binary.size()));
  parsed.inputs.resize(model.InputBytes(parsed.rows));
  uint64_t offset = 0;
  for (size_t i = 0; i < model.inputs.size(); i++) {
    const TensorCard& card = model.inputs[i];
    offset = Aligned(offset);
    std::byte* at = parsed.inputs.data() + offset;
    const uint64_t bytes = card.BytesFor(parsed.rows);
    offset += bytes;
    const json& entry = *(*entries)[i];
    if (pieces[i].data() != nullptr && pieces[i].size() == bytes) {
      if (entry.contains("data"))
        return Wrong(fmt::format("input {}: expected data or binary_data_size, got both", card.name));
      std::memcpy(at, pieces[i].data(), bytes);
      continue;
    }
    if (!entry.contains("data") || !entry["data"].is_array())
      return Wrong(fmt::format("input {}: expected data, a list{}, got {}", card.name,
                               json_bytes ? ", or binary_data_size" : "", Got(entry, "data")));
    const json& data = entry["data"];
    const bool flat = std::none_of(data.begin(), data.end(), [](const json& one) { return one.is_array(); });
    if (!flat && !NestedAs(data, card.ShapeOf(parsed.rows), 0))
      return Wrong(fmt::format("input {}: data is not nested as its shape {} says", card.name,
                               Shown(card.ShapeOf(parsed.rows))));
    bool good = false;
    uint64_t seen = 0;
    const json* wrong = nullptr;
    const bool known = WithType(card.type, [&](auto value) {
      good = TakeData<decltype(value)>(data, {at, bytes}, seen, wrong);
      return true;
    });
    if (!known)
      return Wrong(fmt::format("input {}: {} has no JSON form, expected binary_data_size", card.name,
                               ToString(card.type)));
    const uint64_t expected = bytes / BytesOf(card.type);
    if (!good || seen != expected)
      return Wrong(
          fmt::format("input {}: expected {} values of {}, got {}", card.name, expected, ToString(card.type),
                      good ? std::to_string(seen) : fmt::format("{} as value {}", Shown(*wrong), seen)));
  }
  if (auto taken = TakeOutputs(model, request, parsed); !taken) return tl::make_unexpected(taken.error());
  return parsed;
}

Result<V2Response> MakeV2Response(const ModelCard& model, const V2Request& request,
                                  std::span<const std::byte> outputs) {
  json response = {{"model_name", model.name}, {"model_version", model.version}};
  if (!request.id.empty()) response["id"] = request.id;
  response["outputs"] = json::array();
  std::string binary;
  bool any_binary = false;
  for (const auto& wanted : request.outputs) {
    uint64_t offset = 0;
    for (size_t i = 0; i < wanted.index; i++)
      offset = Aligned(offset) + model.outputs[i].BytesFor(request.rows);
    offset = Aligned(offset);
    const TensorCard& card = model.outputs[wanted.index];
    const uint64_t bytes = card.BytesFor(request.rows);
    const std::byte* at = outputs.data() + offset;
    json entry = {
        {"name", card.name}, {"datatype", ToString(card.type)}, {"shape", card.ShapeOf(request.rows)}};
    if (wanted.binary) {
      any_binary = true;
      entry["parameters"] = {{"binary_data_size", bytes}};
      binary.append(reinterpret_cast<const char*>(at), bytes);
    } else {
      json data = json::array();
      const bool sayable = WithType(card.type, [&](auto value) {
        for (uint64_t i = 0; i < bytes; i += sizeof(value)) {
          std::memcpy(&value, at + i, sizeof(value));
          if constexpr (std::is_floating_point_v<decltype(value)>)
            if (!std::isfinite(value)) return false;
          data.push_back(value);
        }
        return true;
      });
      if (!sayable)
        return Fail(
            ErrorCode::kSystem,
            fmt::format("output {}: value {} is infinite or no number, which JSON cannot say; ask for "
                        "binary_data",
                        card.name, data.size()));
      entry["data"] = std::move(data);
    }
    response["outputs"].push_back(std::move(entry));
  }
  V2Response made;
  made.body = response.dump(-1, ' ', false, json::error_handler_t::replace);
  if (any_binary) {
    made.json_bytes = made.body.size();
    made.body += binary;
  }
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

json V2ServerMetadata(const std::string& version) {
  return {{"name", "spillway"}, {"version", version}, {"extensions", {"binary_tensor_data"}}};
}

std::string V2Error(std::string_view message) {
  return json{{"error", message}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace spillway::gateway
