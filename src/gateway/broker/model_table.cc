// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/model_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::gateway {

std::optional<uint32_t> ModelTable::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

KnownModel* ModelTable::Get(uint32_t number) {
  const auto found = models_.find(number);
  return found == models_.end() ? nullptr : &found->second;
}

const KnownModel* ModelTable::Get(uint32_t number) const {
  const auto found = models_.find(number);
  return found == models_.end() ? nullptr : &found->second;
}

std::optional<uint32_t> ModelTable::NumberOf(const ModelCard& card) const {
  if (const auto known = Find(card.name); known && *models_.at(*known).card == card) return known;
  for (const auto& [number, model] : models_)
    if (model.replaced && *model.card == card) return number;
  return std::nullopt;
}

Result<void> ModelTable::MakeRoomFor(const std::vector<ModelCard>& cards) {
  size_t fresh = 0;
  std::vector<uint32_t> wanted;
  for (const ModelCard& card : cards) {
    if (const auto known = NumberOf(card))
      wanted.push_back(*known);
    else
      fresh++;
  }
  if (models_.size() + fresh <= kMost) return {};
  std::vector<std::pair<uint64_t, uint32_t>> idle;
  for (const auto& [number, model] : models_)
    if (model.slices.empty() && model.requests == 0 &&
        std::find(wanted.begin(), wanted.end(), number) == wanted.end())
      idle.emplace_back(model.left, number);
  const size_t excess = models_.size() + fresh - kMost;
  if (idle.size() < excess)
    return Fail(ErrorCode::kConflict,
                fmt::format("of at most {} models {} are in use, and this executor brings {} new ones", kMost,
                            models_.size() - idle.size(), fresh));
  std::sort(idle.begin(), idle.end());
  for (size_t i = 0; i < excess; i++) {
    const auto old = models_.find(idle[i].second);
    if (!old->second.replaced) by_name_.erase(old->second.card->name);
    models_.erase(old);
  }
  return {};
}

uint32_t ModelTable::Add(const ModelCard& card, std::optional<uint32_t>& replaced) {
  const auto known = NumberOf(card);
  const auto named = Find(card.name);
  if (known && known == named) return *known;
  if (named) {
    models_.at(*named).replaced = true;
    replaced = named;
  }
  const uint32_t number = known ? *known : next_++;
  if (known)
    models_.at(number).replaced = false;
  else
    models_[number].card = std::make_shared<const ModelCard>(card);
  by_name_[card.name] = number;
  return number;
}

void ModelTable::RemoveSlices(uint32_t executor, uint32_t first, uint32_t count) {
  for (auto& [number, model] : models_) {
    const bool was_served = !model.slices.empty();
    for (size_t i = model.slices.size(); i-- > 0;)
      if (model.slices[i] >= first && model.slices[i] < first + count) {
        model.slices.erase(model.slices.begin() + static_cast<std::ptrdiff_t>(i));
        model.times.erase(model.times.begin() + static_cast<std::ptrdiff_t>(i));
      }
    std::erase_if(model.executors, [&](const auto& entry) { return entry.first == executor; });
    if (was_served && model.slices.empty()) model.left = ++departures_;
  }
}

}  // namespace spillway::gateway
