// SPDX-License-Identifier: Apache-2.0
// What a load report makes of its server's slots and shares, against a slow model with plain branches, on
// random servers and reports.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/load.h"

namespace spillway {
namespace {

constexpr uint64_t kNow = 5'000'000'000'000;

// In real numbers, units one after the other.
class PlainLoad {
 public:
  explicit PlainLoad(const spw_server& server) : server_(server) {}

  // What the capacities make of the slots of units of another capacity than `unit`, or of those that have
  // more and whose slots are no guesses; 0: there is none.
  double SlotByCapacity(uint32_t unit, bool learnt_only) const {
    double most = 0;
    for (uint32_t u = 0; u < SPW_UNITS_PER_SERVER; u++) {
      if (server_.unit[u].status == SPW_UNIT_ABSENT) continue;
      if (server_.unit[u].weight == server_.unit[unit].weight) continue;
      if (learnt_only && server_.unit[u].weight < server_.unit[unit].weight) continue;
      if (learnt_only && (server_.load[u].flags & SPW_REPORT_GUESSED)) continue;
      most = std::max(most, 1.0 * server_.load[u].slot_ns * server_.unit[u].weight);
    }
    return std::min(most / std::max<double>(1, server_.unit[unit].weight), 4e9);
  }
  // The slot that the unit's report leads to.
  double Slot(const spw_report& report) const {
    const double told = std::min<double>(report.slot_ns, 4e9);
    return report.flags & SPW_REPORT_GUESSED ? std::max(told, SlotByCapacity(report.unit, true)) : told;
  }
  // By which a request moves the clock when all units that are up work as one, 5 % faster; 0: none has a
  // slot.
  double ShareStep() const {
    double rate = 0;
    for (uint32_t u = 0; u < SPW_UNITS_PER_SERVER; u++) {
      const double slot = server_.load[u].share_slot_ns;
      if (server_.unit[u].status == SPW_UNIT_UP && slot > 0) rate += 1 / slot;
    }
    return rate > 0 ? 1 / (rate * 0.95) : 0;
  }

 private:
  const spw_server& server_;
};

class LoadModel : public testing::Test {
 protected:
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  void Configure() {
    for (auto& unit : server_.unit) {
      unit.status = static_cast<uint8_t>(Below(4));
      unit.weight = static_cast<uint16_t>(Below(3) ? 1 + Below(1000) : 500);
    }
  }
  spw_report Report() {
    spw_report report{};
    report.unit = static_cast<decltype(report.unit)>(Below(SPW_UNITS_PER_SERVER));
    report.slot_ns = Below(5) ? 1000 + Below(50'000'000) : Below(2) * 4'200'000'000u;
    report.knee_us = Below(10'000);
    report.flags = static_cast<uint8_t>(Below(32));
    return report;
  }

  std::mt19937_64 random_{14};
  spw_server server_{};
};

TEST_F(LoadModel, SlotsAndSharesAreTheModels) {
  for (int round = 0; round < 20'000; round++) {
    if (round % 50 == 0) {
      server_ = {};
      Configure();
    }
    const spw_report report = Report();
    const PlainLoad model(server_);
    const double slot = model.Slot(report);
    spw_load_report(&server_, report.unit, &report, 0, kNow);

    const spw_unit_load& load = server_.load[report.unit];
    ASSERT_NEAR(load.slot_ns, slot, 1) << round;
    ASSERT_NEAR(load.share_slot_ns, std::max(slot, model.SlotByCapacity(report.unit, false)), 1) << round;
    const double step = model.ShareStep();
    // Rates are whole numbers of requests in 2^40 ns, rounded for each unit and for all.
    ASSERT_NEAR(server_.share_step_ns, step, 1 + step * 10 * step / (1ULL << 40)) << round;
  }
}

TEST_F(LoadModel, AUnitThatIsNoLongerUpNoLongerCountsAtTheNextReport) {
  for (uint32_t u = 0; u < 2; u++) {
    server_.unit[u] = {.status = SPW_UNIT_UP, .kind = SPW_KIND_CPU, .weight = 100};
    spw_report report{};
    report.unit = static_cast<decltype(report.unit)>(u);
    report.slot_ns = 1'000'000;
    spw_load_report(&server_, u, &report, 0, kNow);
  }
  EXPECT_NEAR(server_.share_step_ns, 1e6 / 2 / 0.95, 2);
  server_.unit[1].status = SPW_UNIT_DRAINING;
  spw_report report{};
  report.slot_ns = 1'000'000;
  spw_load_report(&server_, 0, &report, 0, kNow);
  EXPECT_NEAR(server_.share_step_ns, 1e6 / 0.95, 2);
}

}  // namespace
}  // namespace spillway
