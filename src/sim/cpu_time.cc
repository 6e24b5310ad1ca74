// SPDX-License-Identifier: Apache-2.0
#include "sim/cpu_time.h"

#include <algorithm>
#include <limits>

namespace spillway::sim {

SharedCpus::Gap SharedCpus::FirstGap(int64_t time) const {
  Gap first{0, std::numeric_limits<int64_t>::max(), 0};
  for (uint32_t cpu = 0; cpu < busy_.size(); cpu++) {
    Gap gap{cpu, time, std::numeric_limits<int64_t>::max()};
    auto next = busy_[cpu].upper_bound(time);
    if (next != busy_[cpu].begin()) gap.begin = std::max(time, std::prev(next)->second);
    if (next != busy_[cpu].end()) gap.end = next->first;
    if (gap.begin < first.begin) first = gap;
  }
  return first;
}

void SharedCpus::Take(uint32_t cpu, int64_t begin, int64_t end) {
  auto& busy = busy_[cpu];
  // Neighbours are joined, so that the next gap is never empty.
  const auto next = busy.upper_bound(begin);
  if (next != busy.end() && next->first == end) {
    end = next->second;
    busy.erase(next);
  }
  const auto after = busy.upper_bound(begin);
  if (after != busy.begin() && std::prev(after)->second == begin)
    std::prev(after)->second = end;
  else
    busy[begin] = end;
}

void SharedCpus::Forget(int64_t time) {
  for (auto& busy : busy_)
    while (!busy.empty() && busy.begin()->second <= time) busy.erase(busy.begin());
}

CpuWithQuota::CpuWithQuota(const CpuQuota& quota, int64_t phase)
    : quota_(quota.quota.count()),
      period_(quota.period.count()),
      tick_(quota.tick.count()),
      phase_(phase % period_),
      left_{quota_} {}

void CpuWithQuota::Forget(int64_t now) {
  const int64_t index = PeriodOf(now);
  while (first_ < index) {
    const int64_t debt = std::min<int64_t>(0, left_.front());
    left_.pop_front();
    first_++;
    if (!left_.empty()) continue;
    left_.push_back(quota_ + debt);
    if (debt == 0) first_ = index;  // whatever is left lapses: all periods till then are alike
  }
}

int64_t& CpuWithQuota::Left(int64_t index) {
  while (first_ + static_cast<int64_t>(left_.size()) <= index)
    left_.push_back(quota_ + std::min<int64_t>(0, left_.back()));
  return left_[static_cast<size_t>(index - first_)];
}

void CpuWithQuota::Draw(int64_t index, int64_t amount) {
  Left(index);
  for (auto i = static_cast<size_t>(index - first_); i < left_.size() && amount > 0; i++) {
    const int64_t debt = std::min<int64_t>(0, left_[i]);
    left_[i] -= amount;
    amount = debt - std::min<int64_t>(0, left_[i]);  // what the next period lacks by it
  }
}

int64_t CpuWithQuota::Run(int64_t start, int64_t until, bool woken, int64_t& work, SharedCpus* shared) {
  start = std::max(start, EndOf(first_ - 1));
  bool checked = tick_ == 0 || woken || start % tick_ == 0;  // by the kernel, whether there is budget
  while (work > 0 && start < until) {
    const int64_t index = PeriodOf(start), end = EndOf(index), left = Left(index);
    if (checked && left <= 0) {
      start = std::min(end, until);
      continue;
    }
    int64_t step = std::min({work, end - start, until - start});
    step = std::min(step, tick_ == 0 ? left : tick_ - start % tick_);
    if (shared != nullptr) {
      const SharedCpus::Gap gap = shared->FirstGap(start);
      if (gap.begin > start) {  // another unit works; who gets the CPU back is checked
        start = std::min(gap.begin, until);
        checked = true;
        continue;
      }
      step = std::min(step, gap.end - start);
      shared->Take(gap.cpu, start, start + step);
    }
    Draw(index, step);
    if (is_accounted_) uncounted_.push_back({start, start + step});
    work -= step;
    start += step;
    checked = tick_ == 0 || start % tick_ == 0;
  }
  return start;
}

int64_t CpuWithQuota::UsedBy(int64_t now) {
  is_accounted_ = true;
  int64_t part = 0;
  std::erase_if(uncounted_, [&](const Stretch& work) {
    const int64_t done = std::clamp<int64_t>(now - work.begin, 0, work.end - work.begin);
    const bool whole = now >= work.end;
    (whole ? counted_ : part) += done;
    return whole;
  });
  return counted_ + part;
}

int64_t MeanFinish(const CpuQuota& quota, int64_t work) {
  constexpr int kMoments = 256;  // spread evenly over a period
  const int64_t period = quota.period.count();
  int64_t sum = 0;
  for (int i = 0; i < kMoments; i++) {
    // Ticks and periods do not begin together: so the period's begin is spread over ticks as well.
    const int64_t phase = quota.tick.count() * (i * 97 % kMoments) / kMoments;
    const int64_t begin = period + phase % period + period * i / kMoments;
    sum += CpuWithQuota(quota, phase).Finish(begin, work) - begin;
  }
  return sum / kMoments;
}

}  // namespace spillway::sim
