// SPDX-License-Identifier: Apache-2.0
// Envoy's least request. Equal capacities: of two at random the one with fewer active requests. Unequal:
// earliest deadline first, a unit's next deadline lying 1 / weight after the pick, weight = capacity /
// (active + 1)^bias.
#include <algorithm>
#include <cmath>
#include <queue>

#include "sim/baselines/decider.h"

namespace spillway::sim {
namespace {

class LeastRequest final : public Decider {
 public:
  explicit LeastRequest(const DeciderSetup& setup)
      : Decider(UnitSet(setup.units), setup.seed, {.answers = true}),
        bias_(setup.choice.bias),
        active_(setup.units.size(), 0) {
    const double capacity = setup.units.front().capacity;
    equal_ = std::all_of(setup.units.begin(), setup.units.end(),
                         [&](const DeciderUnit& unit) { return unit.capacity == capacity; });
    if (equal_) return;
    for (uint32_t u = 0; u < setup.units.size(); u++) Schedule(u);
  }

  void SeeAnswer(const SeenAnswer& answer) override { active_[answer.unit]--; }

 private:
  struct Deadline {
    double at;
    uint64_t order;  // equal deadlines: first in, first out
    uint32_t unit;
    bool operator<(const Deadline& other) const {  // the earliest is the greatest
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void Schedule(uint32_t unit) {
    const double weight = units_.CapacityOf(unit) / std::pow(active_[unit] + 1.0, bias_);
    deadlines_.push({now_ + 1 / weight, order_++, unit});
  }

  uint32_t PickEarliest() {
    for (;;) {
      const Deadline next = deadlines_.top();
      deadlines_.pop();
      now_ = next.at;
      Schedule(next.unit);
      if (units_.IsUp(next.unit)) return next.unit;
    }
  }

  uint32_t Pick(Time) override {
    uint32_t best;
    if (equal_) {
      units_.DrawDistinct(random_, 2, drawn_);
      best = drawn_.size() == 2 && active_[drawn_[1]] < active_[drawn_[0]] ? drawn_[1] : drawn_[0];
    } else {
      best = PickEarliest();
    }
    active_[best]++;
    return best;
  }

  const double bias_;
  bool equal_ = true;
  std::vector<uint32_t> active_;
  std::vector<uint32_t> drawn_;
  std::priority_queue<Deadline> deadlines_;
  double now_ = 0;  // the schedule's own time, in units of 1 / weight
  uint64_t order_ = 0;
};

}  // namespace

std::unique_ptr<Decider> MakeLeastRequest(const DeciderSetup& setup) {
  return std::make_unique<LeastRequest>(setup);
}

}  // namespace spillway::sim
