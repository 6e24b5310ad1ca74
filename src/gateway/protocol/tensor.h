// SPDX-License-Identifier: Apache-2.0
// Tensors and model cards (names, types, shapes, most rows) as clients, gateway and executors name them: the
// words of the Open Inference Protocol. Pure values; no threads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spillway::gateway {

enum class DataType { kBool, kU8, kU16, kU32, kU64, kI8, kI16, kI32, kI64, kF16, kBf16, kF32, kF64 };
inline constexpr int kDataTypes = 13;

std::string_view ToString(DataType type);  // "FP32"
std::optional<DataType> ParseDataType(std::string_view word);
size_t BytesOf(DataType type);

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

// A model's input or output. The first extent is -1 where requests choose how many rows they bring.
struct TensorCard {
  std::string name;
  DataType type = DataType::kF32;
  std::vector<int64_t> shape;
  bool operator==(const TensorCard&) const = default;

  [[nodiscard]] bool batched() const { return !shape.empty() && shape[0] == -1; }
  // Of a request of `rows` rows.
  [[nodiscard]] std::vector<int64_t> ShapeOf(int64_t rows) const;
  [[nodiscard]] uint64_t BytesFor(int64_t rows) const;
};

// In memory, inputs lie one behind the other in the model's order, each from a multiple of so many bytes on;
// so do outputs.
inline constexpr uint64_t kTensorAlignment = 64;
inline uint64_t Aligned(uint64_t bytes) { return (bytes + kTensorAlignment - 1) & ~(kTensorAlignment - 1); }

// What an executor tells of a model.
struct ModelCard {
  std::string name;
  std::string version = "1";
  std::string platform = "spillway";
  std::vector<TensorCard> inputs, outputs;
  int64_t most_rows = 1;  // in one request; 1 where no input is batched
  double gflop = 0;       // of a request, apart from its rows
  double gflop_per_row = 0;
  bool operator==(const ModelCard&) const = default;

  [[nodiscard]] double GflopFor(int64_t rows) const {
    return gflop + gflop_per_row * static_cast<double>(rows);
  }
  [[nodiscard]] uint64_t InputBytes(int64_t rows) const;  // with the gaps between tensors
  [[nodiscard]] uint64_t OutputBytes(int64_t rows) const;
};

nlohmann::json ToJson(const ModelCard& card);
// Checked as what an unauthenticated peer says: names, ranks, extents and sizes within bounds. Errors:
// kBadInput.
[[nodiscard]] Result<ModelCard> ParseModelCard(const nlohmann::json& json);

// Names of tensors and models: 1..64 letters, digits, '.', '_', '-'.
bool IsTensorName(std::string_view text);

}  // namespace spillway::gateway
