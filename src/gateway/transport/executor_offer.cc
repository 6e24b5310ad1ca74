// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/executor_offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <nlohmann/json.hpp>

namespace spillway::gateway {
namespace {

using nlohmann::json;

constexpr uint32_t kOfferVersion = 4;

template <std::unsigned_integral T>
bool TakeNumber(const json& from, const char* key, T least, T most, T& into) {
  if (!from.contains(key) || !from[key].is_number_unsigned()) return false;
  const auto value = from[key].get<uint64_t>();
  if (value < least || value > most) return false;
  into = static_cast<T>(value);
  return true;
}

bool TakeNumber(const json& from, const char* key, double least, double most, double& into) {
  if (!from.contains(key) || !from[key].is_number()) return false;
  into = from[key].get<double>();
  return into >= least && into <= most;
}

bool TakeName(const json& from, const char* key, std::string& into) {
  if (!from.contains(key) || !from[key].is_string()) return false;
  into = from[key];
  return IsTensorName(into);
}

}  // namespace

json ToJson(const KeyedOffer& offer) {
  json hello = {{"spillway_executor", kOfferVersion}, {"name", offer.offer.name}};
  if (!offer.offer.host.empty()) hello["host"] = offer.offer.host;
  if (offer.offer.is_starting) hello["starting"] = true;
  for (const ModelCard& card : offer.offer.models) hello["models"].push_back(ToJson(card));
  for (size_t i = 0; i < offer.offer.slices.size(); i++) {
    const SliceOffer& slice = offer.offer.slices[i];
    hello["slices"].push_back({{"name", slice.name},
                               {"gpu", slice.gpu},
                               {"gflop_per_s", slice.gflop_per_s},
                               {"cells", slice.cells},
                               {"input_bytes", slice.input_bytes},
                               {"output_bytes", slice.output_bytes},
                               {"memory", slice.memory},
                               {"key", offer.keys[i]}});
    if (!slice.gpu_uuid.empty()) hello["slices"].back()["gpu_uuid"] = slice.gpu_uuid;
  }
  return hello;
}

Result<KeyedOffer> ParseOffer(const json& hello) {
  const auto wrong = [](const std::string& text) { return Fail(ErrorCode::kBadInput, text); };
  KeyedOffer keyed;
  ExecutorOffer& offer = keyed.offer;
  uint32_t version = 0;
  if (!hello.is_object()) return wrong("expected a JSON object");
  if (!TakeNumber(hello, "spillway_executor", 0U, 1000U, version) || version != kOfferVersion)
    return wrong(fmt::format("expected spillway_executor: {}", kOfferVersion));
  if (!TakeName(hello, "name", offer.name)) return wrong("expected a name");
  if (hello.contains("host") && !TakeName(hello, "host", offer.host))
    return wrong("host: expected the same name for all executors of a host");
  if (hello.contains("starting") && !hello["starting"].is_boolean())
    return wrong("starting: expected true or false");
  offer.is_starting = hello.value("starting", false);
  if (!hello.contains("models") || !hello["models"].is_array() || hello["models"].size() > 256)
    return wrong("expected a list of up to 256 models");
  for (const json& entry : hello["models"]) {
    auto card = ParseModelCard(entry);
    if (!card) return tl::make_unexpected(card.error());
    for (const ModelCard& other : offer.models)
      if (other.name == card->name) return wrong("model " + card->name + " twice");
    offer.models.push_back(std::move(*card));
  }
  if (!hello.contains("slices") || !hello["slices"].is_array() || hello["slices"].empty() ||
      hello["slices"].size() > kMaxSlicesPerExecutor)
    return wrong(fmt::format("expected a list of 1 to {} slices", kMaxSlicesPerExecutor));
  for (const json& entry : hello["slices"]) {
    SliceOffer slice;
    uint64_t key = 0;
    if (!entry.is_object() || !TakeName(entry, "name", slice.name) || !TakeName(entry, "gpu", slice.gpu) ||
        !TakeNumber(entry, "gflop_per_s", 1e-6, 1e9, slice.gflop_per_s) ||
        !TakeNumber(entry, "cells", 1U, kMaxCells, slice.cells) ||
        !TakeNumber(entry, "input_bytes", uint64_t{1}, kMaxCellBytes, slice.input_bytes) ||
        !TakeNumber(entry, "output_bytes", uint64_t{1}, kMaxCellBytes, slice.output_bytes) ||
        !TakeNumber(entry, "key", uint64_t{1}, UINT64_MAX, key))
      return wrong(fmt::format(
          "expected of a slice name, gpu, gflop_per_s, cells (1 to {}), input_bytes and output_bytes "
          "(1 to {} each) and key",
          kMaxCells, kMaxCellBytes));
    if (entry.contains("gpu_uuid") && !TakeName(entry, "gpu_uuid", slice.gpu_uuid))
      return wrong("expected of a slice's gpu_uuid the UUID of a GPU");
    if (entry.contains("memory") && !TakeName(entry, "memory", slice.memory))
      return wrong("expected of a slice's memory its kind, such as host or pinned-host");
    offer.slices.push_back(std::move(slice));
    keyed.keys.push_back(key);
  }
  return keyed;
}

std::string AnswerText(const std::string& refusal) {
  const json answer = refusal.empty() ? json{{"ok", true}} : json{{"error", refusal}};
  return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<void> ParseAnswer(std::string_view text) {
  const json word = json::parse(text, nullptr, false);
  if (word.is_object() && word.contains("error") && word["error"].is_string())
    return Fail(ErrorCode::kConflict, "the gateway refused: " + word["error"].get<std::string>());
  if (!word.is_object() || !word.contains("ok"))
    return Fail(ErrorCode::kConflict, "expected a Spillway gateway's answer, got something else");
  return {};
}

std::optional<CellViews> CheckSubmission(const SliceOffer& slice, uint64_t key, const SliceMemory& memory,
                                         const std::vector<ModelCard>& models, const Submission& submission) {
  const CellLayout layout(slice);
  if (submission.key != key || submission.model >= models.size()) return std::nullopt;
  const uint64_t cell = submission.input_offset / CellLayout::Pages(layout.input_bytes);
  if (cell >= layout.cells || submission.input_offset != layout.Input(static_cast<uint32_t>(cell)) ||
      submission.output_offset != layout.Output(static_cast<uint32_t>(cell)))
    return std::nullopt;
  const ModelCard& card = models[submission.model];
  if (submission.rows < 1 || submission.rows > card.most_rows ||
      submission.input_bytes != card.InputBytes(submission.rows) ||
      submission.output_bytes != card.OutputBytes(submission.rows) ||
      submission.input_bytes > layout.input_bytes || submission.output_bytes > layout.output_bytes)
    return std::nullopt;
  return CellViews{memory.Inputs(submission.input_offset, submission.input_bytes),
                   memory.Host(layout, submission.output_offset, submission.output_bytes)};
}

bool IsGivenUp(const SliceOffer& slice, const SliceMemory& memory, const Submission& submission) {
  const CellLayout layout(slice);
  const auto cell = static_cast<uint32_t>(submission.input_offset / CellLayout::Pages(layout.input_bytes));
  auto& word =
      *reinterpret_cast<uint64_t*>(memory.Host(layout, layout.GivenUp(cell), sizeof(uint64_t)).data());
  return std::atomic_ref<uint64_t>(word).load(std::memory_order_relaxed) == submission.id;
}

std::span<std::byte> RoomForText(const SliceOffer& slice, const SliceMemory& memory,
                                 const Submission& submission) {
  return memory.Host(CellLayout(slice), submission.output_offset, std::min(slice.output_bytes, kMaxMessage));
}

}  // namespace spillway::gateway
