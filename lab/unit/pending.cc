// SPDX-License-Identifier: Apache-2.0
#include "pending.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace spillway::unit {

namespace {

bool Later(const PendingAnswer& a, const PendingAnswer& b) {
  return std::tie(a.due_ns, a.order) > std::tie(b.due_ns, b.order);
}

}  // namespace

void Pending::Add(PendingAnswer answer) {
  answer.order = added_++;
  heap_.push_back(std::move(answer));
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

std::optional<PendingAnswer> Pending::TakeDue(std::int64_t now_ns) {
  if (heap_.empty() || heap_.front().due_ns > now_ns) return std::nullopt;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  PendingAnswer answer = std::move(heap_.back());
  heap_.pop_back();
  return answer;
}

std::optional<std::int64_t> Pending::NextDueNs() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front().due_ns;
}

}  // namespace spillway::unit
