// SPDX-License-Identifier: Apache-2.0
// Join-idle-queue (Lu, Xie, Kliot, Geller, Larus, Greenberg; Performance Evaluation 2011): units tell one
// switch when a worker of theirs becomes idle; that switch serves idle units first, here the one of greatest
// capacity, and without any draws by capacity.
#include <set>
#include <tuple>

#include "sim/baselines/decider.h"

namespace spillway::sim {
namespace {

class Jiq final : public Decider {
 public:
  explicit Jiq(const DeciderSetup& setup)
      : Decider(UnitSet(setup.units), setup.seed, {.idle = true}), idle_workers_(setup.units.size(), 0) {}

  bool UsedIdle() const override { return used_idle_; }
  void HearIdle(uint32_t unit, uint32_t workers) override {
    if (workers == 0) return;
    if (idle_workers_[unit] == 0) Enlist(unit);
    idle_workers_[unit] += workers;
  }

 private:
  void Enlist(uint32_t unit) { idle_.insert({-units_.CapacityOf(unit), order_++, unit}); }

  uint32_t Pick(Time) override {
    used_idle_ = true;
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      const uint32_t unit = std::get<2>(*it);
      if (!units_.IsUp(unit)) continue;
      idle_.erase(it);
      if (--idle_workers_[unit] > 0) Enlist(unit);  // behind its equals
      return unit;
    }
    used_idle_ = false;
    return units_.DrawByCapacity(random_);
  }

  std::vector<uint32_t> idle_workers_;                     // told and not used since
  std::set<std::tuple<double, uint64_t, uint32_t>> idle_;  // -capacity, order, unit: those with such workers
  uint64_t order_ = 0;
  bool used_idle_ = false;
};

}  // namespace

std::unique_ptr<Decider> MakeJiq(const DeciderSetup& setup) { return std::make_unique<Jiq>(setup); }

}  // namespace spillway::sim
