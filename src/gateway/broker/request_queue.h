// SPDX-License-Identifier: Apache-2.0
// One tenant's requests that wait for a slice: in order for each model, so that a model that nobody serves
// keeps none but its own waiting. Requests are numbered in the order in which they came. Pure.
// Which tenant's turn it is: broker.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace spillway::gateway {

class RequestQueue {
 public:
  struct Entry {
    uint32_t model;
    uint64_t id;
  };

  // limit: requests that may wait, of those that come.
  explicit RequestQueue(size_t limit) : limit_(limit) {}

  void PushBack(const Entry& entry);
  // One that was placed and comes back: it waits beyond the limit, too.
  void PushFront(const Entry& entry);
  // It need not be there.
  void Erase(const Entry& entry);
  // All of a model.
  std::vector<uint64_t> TakeModel(uint32_t model);
  // The first of each model, the oldest of them first: where that one cannot be placed, none behind it can.
  [[nodiscard]] std::vector<Entry> Heads() const;
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t limit() const { return limit_; }
  // Another that comes is refused.
  [[nodiscard]] bool IsFull() const { return size_ >= limit_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  std::map<uint32_t, std::deque<uint64_t>> models_;  // none empty
  size_t limit_, size_ = 0;
};

}  // namespace spillway::gateway
