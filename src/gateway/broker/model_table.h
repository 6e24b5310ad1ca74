// SPDX-License-Identifier: Apache-2.0
// The models that the broker knows, by number. A number stands for one card for ever: an executor that brings
// another card under a name which nobody serves any more gets another number, and a number that was forgotten
// is not given out again. So an answer's bytes and the card that says what they are belong together.
//
// A model is known for longer than it is served: who asks for it waits until an executor has it again. Only
// where more than kMost would be known, those go that are not served and not waited for, the longest gone
// first. Pure; not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gateway/broker/service_time.h"
#include "gateway/protocol/tensor.h"

namespace spillway::gateway {

struct KnownModel {
  std::shared_ptr<const ModelCard> card;
  bool replaced = false;                                 // another card has taken its name
  std::vector<uint32_t> slices;                          // living ones that hold it
  std::vector<ServiceTime> times;                        // by slice of `slices`: what was learnt there
  std::chrono::nanoseconds work{0};                      // that its requests took on all slices, ever
  std::vector<std::pair<uint32_t, uint32_t>> executors;  // and what they call it
  uint32_t requests = 0;                                 // that wait or run
  uint64_t left = 0;                                     // which of all departures was its last slice's
};

class ModelTable {
 public:
  static constexpr size_t kMost = 4096;

  // Of those that are not replaced.
  [[nodiscard]] std::optional<uint32_t> Find(std::string_view name) const;
  // nullptr: there never was one of that number, or it was forgotten.
  [[nodiscard]] KnownModel* Get(uint32_t number);
  [[nodiscard]] const KnownModel* Get(uint32_t number) const;
  // Of one that is known.
  [[nodiscard]] KnownModel& operator[](uint32_t number) { return models_.at(number); }
  [[nodiscard]] const KnownModel& operator[](uint32_t number) const { return models_.at(number); }
  [[nodiscard]] size_t size() const { return models_.size(); }
  [[nodiscard]] auto begin() const { return models_.begin(); }
  [[nodiscard]] auto end() const { return models_.end(); }

  // Forgets others until all of these may be known. kConflict: there are too many that are served or waited
  // for.
  [[nodiscard]] Result<void> MakeRoomFor(const std::vector<ModelCard>& cards);
  // The number of a card that is to be served; one that was replaced and comes back has its own. `replaced`:
  // the one whose name it takes, if any.
  uint32_t Add(const ModelCard& card, std::optional<uint32_t>& replaced);
  // Slices that serve nothing any more.
  void RemoveSlices(uint32_t executor, uint32_t first, uint32_t count);

 private:
  [[nodiscard]] std::optional<uint32_t> NumberOf(const ModelCard& card) const;

  std::map<uint32_t, KnownModel> models_;
  std::map<std::string, uint32_t, std::less<>> by_name_;  // those that are not replaced
  uint32_t next_ = 0;
  uint64_t departures_ = 0;
};

}  // namespace spillway::gateway
