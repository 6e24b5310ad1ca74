// SPDX-License-Identifier: Apache-2.0
#include "pending.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace spillway::unit {

bool Pending::Later(const Entry& a, const Entry& b) {
  return std::tie(a.job.due_ns, a.order) > std::tie(b.job.due_ns, b.order);
}

void Pending::Add(Job job) {
  heap_.push_back({added_++, std::move(job)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

std::optional<Job> Pending::TakeDue(std::int64_t now_ns) {
  if (heap_.empty() || heap_.front().job.due_ns > now_ns) return std::nullopt;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  Job job = std::move(heap_.back().job);
  heap_.pop_back();
  return job;
}

std::optional<std::int64_t> Pending::NextDueNs() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front().job.due_ns;
}

}  // namespace spillway::unit
