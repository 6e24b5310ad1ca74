// SPDX-License-Identifier: Apache-2.0
#include "sim/baselines/decider.h"

#include <algorithm>

namespace spillway::sim {

UnitSet::UnitSet(std::vector<DeciderUnit> units) : units_(std::move(units)) {
  for (uint32_t u = 0; u < units_.size(); u++) {
    if (u == 0 || units_[u].server != units_[u - 1].server) first_of_server_.push_back(u);
    position_.push_back(u);
    up_.push_back(u);
    total_capacity_ += units_[u].capacity;
    greatest_capacity_ = std::max(greatest_capacity_, units_[u].capacity);
  }
  first_of_server_.push_back(static_cast<uint32_t>(units_.size()));
}

void UnitSet::SetDown(uint32_t unit, bool down) {
  if (IsUp(unit) != down) return;
  if (down) {
    const uint32_t hole = position_[unit];
    up_[hole] = up_.back();
    position_[up_[hole]] = hole;
    up_.pop_back();
    position_[unit] = kDown;
    total_capacity_ -= units_[unit].capacity;
  } else {
    position_[unit] = static_cast<uint32_t>(up_.size());
    up_.push_back(unit);
    total_capacity_ += units_[unit].capacity;
  }
}

uint32_t UnitSet::DrawByCapacity(Random& random) const {
  // By rejection where there are many: a walk over thousands of units would cost more than a few draws.
  if (up_.size() > kMaxSeen) {
    for (;;) {
      const uint32_t u = Draw(random);
      if (random.Uniform() * greatest_capacity_ <= units_[u].capacity) return u;
    }
  }
  double left = random.Uniform() * total_capacity_;
  for (uint32_t u : up_) {
    left -= units_[u].capacity;
    if (left <= 0) return u;
  }
  return up_.back();
}

void UnitSet::DrawDistinct(Random& random, size_t count, std::vector<uint32_t>& drawn) const {
  drawn.clear();
  count = std::min(count, up_.size());
  while (drawn.size() < count) {
    const uint32_t u = Draw(random);
    if (std::find(drawn.begin(), drawn.end(), u) == drawn.end()) drawn.push_back(u);
  }
}

std::span<const uint32_t> UnitSet::See(Random& random) {
  if (units_.size() <= kMaxSeen) return up_;
  const size_t servers = first_of_server_.size() - 1;
  const auto add = [&](size_t server) {
    for (uint32_t u = first_of_server_[server]; u < first_of_server_[server + 1]; u++)
      if (IsUp(u)) seen_.push_back(u);
  };
  seen_.clear();
  const size_t one = random.Bits() % servers, two = random.Bits() % servers;
  add(one);
  if (two != one) add(two);
  if (seen_.empty()) seen_.push_back(Draw(random));
  return seen_;
}

std::unique_ptr<Decider> MakeDecider(DeciderKind kind, const DeciderSetup& setup) {
  switch (kind) {
    case DeciderKind::kPrequal:
      return MakePrequal(setup);
    case DeciderKind::kC3:
      return MakeC3(setup);
    case DeciderKind::kPeakEwma:
      return MakePeakEwma(setup);
    case DeciderKind::kLeastRequest:
      return MakeLeastRequest(setup);
    case DeciderKind::kJiq:
      return MakeJiq(setup);
    case DeciderKind::kScd:
      return MakeScd(setup);
    case DeciderKind::kSwitch:
    case DeciderKind::kOmniscient:
      break;
  }
  return nullptr;
}

}  // namespace spillway::sim
