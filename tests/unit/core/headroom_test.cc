// SPDX-License-Identifier: Apache-2.0
// Policy headroom on numbers to answer by hand, and what a report makes of a unit's backlog. Random states:
// tests/property/core.
#include "core/headroom.h"

#include <gtest/gtest.h>

#include "core/load.h"
#include "core/policy.h"

namespace spillway {
namespace {

constexpr uint64_t kNow = uint64_t{100'000} << SPW_BEAT_SHIFT;
constexpr uint64_t kMs = 1'000'000;

class HeadroomTest : public ::testing::Test {
 protected:
  // A unit that serves so many at once.
  spw_unit_load& Unit(uint32_t base_ms, uint32_t slot_ms, uint32_t workers) {
    const uint32_t u = count_++;
    server_.unit[u] = {SPW_UNIT_UP, SPW_KIND_CPU, 1};
    spw_unit_load& load = server_.load[u];
    load.report_beat = spw_beats(kNow);
    load.base_us = base_ms * 1000;
    load.slot_ns = static_cast<uint32_t>(slot_ms * kMs);
    load.knee_us = workers * slot_ms * 1000;
    server_.silent_beats = 1000;
    return load;
  }
  uint64_t Wait(const spw_unit_load& load) const {
    return spw_headroom_wait(&load, spw_headroom_ahead(&load, kNow));
  }
  int Choose() { return spw_choose_unit(&server_, SPW_UNIT_HEADROOM, 0, 0, kNow, 0); }
  int ChooseAndPlace() {
    const int unit = Choose();
    spw_headroom_place(&server_, static_cast<uint32_t>(unit), kNow);
    return unit;
  }

  spw_server server_{};
  uint32_t count_ = 0;
};

TEST_F(HeadroomTest, RequestsWaitOnlyBeyondTheKnee) {
  spw_unit_load& load = Unit(50, 10, 4);
  for (uint64_t request = 0; request < 8; request++) {
    EXPECT_EQ(Wait(load), request < 4 ? 0 : (request - 3) * 10 * kMs) << request;
    spw_headroom_place(&server_, 0, kNow);
  }
  EXPECT_EQ(spw_headroom_ahead(&load, kNow + 30 * kMs), 50 * kMs) << "it drains as time passes";
  EXPECT_EQ(spw_headroom_ahead(&load, kNow + 1000 * kMs), 0u);
}

TEST_F(HeadroomTest, AnIdleServerGivesEachRequestTheQuickestUnitAndAFullOneFillsAll) {
  Unit(100, 10, 10);
  Unit(20, 10, 2);
  EXPECT_EQ(ChooseAndPlace(), 1);
  int placed[2] = {0, 1};
  for (int i = 0; i < 40; i++) placed[ChooseAndPlace()]++;
  EXPECT_GT(placed[0], 10);
  EXPECT_GT(placed[1], 10);
}

TEST_F(HeadroomTest, UnitsThatAreEquallyQuickTakeTurnsWhileNobodyWaits) {
  Unit(50, 10, 100);
  Unit(50, 10, 100);
  int placed[2] = {0, 0};
  for (int i = 0; i < 40; i++) placed[ChooseAndPlace()]++;
  EXPECT_EQ(placed[0], 20);
  EXPECT_EQ(server_.pressure, 0u) << "nobody waited";
}

TEST_F(HeadroomTest, AKneeOfZeroIsAUnitWhoseRequestsAlwaysWait) {
  spw_unit_load& load = Unit(50, 10, 0);
  EXPECT_EQ(Wait(load), 10 * kMs);
  EXPECT_FALSE(spw_headroom_is_blind(&load)) << "base and slot are known";
  load.slot_ns = 0;
  EXPECT_TRUE(spw_headroom_is_blind(&load));
}

class Shares : public HeadroomTest {
 protected:
  // A host and a NIC of a quarter of its capacity that answer alike, and show no wait before it is there.
  void SetUp() override {
    Unit(1, 2, 0).knee_us = 1'000'000;
    Unit(1, 8, 0).knee_us = 1'000'000;
    CountShares();
    server_.silent_beats = 100'000;
  }
  // As their reports do.
  void CountShares() {
    for (uint32_t u = 0; u < 2; u++) {
      spw_others others{};
      spw_look_at_others(&server_, u, &others);
      spw_set_shares(&server_, u, server_.load[u].slot_ns, others.share_rate);
    }
  }
  // Requests at 70 % of what both units can do; of how many the host got.
  double HostShare() {
    int host = 0;
    for (int i = 0; i < 1000; i++) {
      now_ += 2'285'714;
      const int unit = spw_choose_unit(&server_, SPW_UNIT_HEADROOM, 0, 0, now_, 0);
      spw_headroom_place(&server_, static_cast<uint32_t>(unit), now_);
      host += unit == 0;
    }
    return host / 1000.0;
  }
  uint64_t now_ = kNow;
};

TEST_F(Shares, WhereNobodyWaitsTheQuickestGetsAll) {
  server_.load[0].tail_us = server_.load[1].tail_us = 1000;
  EXPECT_EQ(HostShare(), 1.0);
}

TEST_F(Shares, UnitsAboutAsQuickKeepToTheirSharesAlsoWhereNobodyWaits) {
  for (int u = 0; u < 2; u++) server_.load[u].tail_us = server_.load[u].base_us;
  server_.load[1].slot_ns = server_.load[0].slot_ns;
  CountShares();
  server_.load[1].base_us += server_.load[1].base_us / 10;
  EXPECT_NEAR(HostShare(), 0.5, 0.1);
}

TEST_F(Shares, WhereRequestsDoWaitEachUnitGetsItsShare) {
  server_.load[0].tail_us = server_.load[1].tail_us = 20'000;
  EXPECT_NEAR(HostShare(), 0.8, 0.05) << "a quarter of the lead counts: a little more to the quicker one";
}

TEST_F(Shares, WhatTheTailIsWorthIsNotEnoughForAUnitThatIsMuchSlower) {
  server_.load[0].tail_us = 3000;
  server_.load[1].base_us = server_.load[1].tail_us = 4000;
  EXPECT_EQ(HostShare(), 1.0);
}

TEST_F(Shares, AnHourOfLeadIsNotPaidOff) {
  server_.load[0].tail_us = 1000;
  (void)HostShare();
  server_.load[0].tail_us = server_.load[1].tail_us = 20'000;
  EXPECT_LE(server_.load[0].share_ns - server_.share_ns, 5 * server_.load[0].slot_ns);
  EXPECT_GT(HostShare(), 0.75);
}

class LoadReport : public HeadroomTest {
 protected:
  spw_report Report(uint32_t completed, uint16_t queue, uint32_t backlog_us) const {
    spw_report report{};
    report.base_us = 50'000;
    report.slot_ns = 10 * kMs;
    report.knee_us = 20'000;
    report.backlog_us = backlog_us;
    report.completed = completed;
    report.queue = queue;
    return report;
  }
  // The backlog after a report at `now`.
  uint64_t Take(const spw_report& report, uint64_t now, int reborn = 0) {
    spw_load_report(&server_, 0, &report, reborn, now);
    return load_.drained_ns > now ? load_.drained_ns - now : 0;
  }
  spw_unit_load& load_ = server_.load[0];
};

TEST_F(LoadReport, BringsTheBacklogAndWhatTheUnitCanDo) {
  EXPECT_EQ(Take(Report(1000, 3, 30'000), kNow, 1), 30 * kMs);
  EXPECT_EQ(load_.base_us, 50'000u);
  EXPECT_EQ(load_.slot_ns, 10 * kMs);
  EXPECT_EQ(load_.knee_us, 20'000u);
}

TEST_F(LoadReport, HalfOfItsAgeHasBeenWorkedOff) {
  spw_report report = Report(1000, 3, 30'000);
  report.age_us = 8000;
  EXPECT_EQ(Take(report, kNow, 1), 26 * kMs);
}

TEST_F(LoadReport, WhatIsOnTheWayIsAdded) {
  (void)Take(Report(1000, 0, 0), kNow, 1);
  load_.assigned = 5;
  EXPECT_EQ(Take(Report(1000, 2, 20'000), kNow + kMs), 20 * kMs + 3 * 10 * kMs)
      << "the agent has seen two of five";
  EXPECT_EQ(Take(Report(1001, 4, 40'000), kNow + 2 * kMs), 40 * kMs) << "now all";
}

TEST_F(LoadReport, WhatIsLostOnTheWayDoesNotCountForEver) {
  (void)Take(Report(1000, 0, 0), kNow, 1);
  load_.assigned = 5;
  uint64_t backlog = 0;
  for (int i = 1; i <= 40; i++)
    backlog = Take(Report(1000, 0, 0), kNow + static_cast<uint64_t>(i) * 20 * kMs);
  EXPECT_EQ(backlog, 0u);
  load_.assigned = 2;
  EXPECT_EQ(Take(Report(1000, 0, 0), kNow + 820 * kMs), 20 * kMs) << "and later ones count again";
}

TEST_F(LoadReport, RequestsFromElsewhereAreInTheReportedBacklogAlone) {
  (void)Take(Report(1000, 0, 0), kNow, 1);
  load_.assigned = 1;
  EXPECT_EQ(Take(Report(1500, 9, 90'000), kNow + 20 * kMs), 90 * kMs);
  load_.assigned = 1;
  EXPECT_EQ(Take(Report(1509, 0, 0), kNow + 40 * kMs), 10 * kMs) << "this one is on the way";
}

TEST_F(LoadReport, AGuessedSlotIsAtLeastWhatTheCapacitiesMakeOfItsNeighbours) {
  Unit(1, 1, 1);  // learnt: 1 ms
  server_.unit[0] = server_.unit[1] = {SPW_UNIT_UP, SPW_KIND_CPU, 400};
  server_.unit[1].weight = 100;
  spw_report report = Report(1000, 0, 0);
  report.slot_ns = 2 * kMs;
  report.knee_us = 2500;
  report.flags = SPW_REPORT_GUESSED;
  spw_load_report(&server_, 1, &report, 1, kNow);
  EXPECT_EQ(server_.load[1].slot_ns, 4 * kMs);
  EXPECT_EQ(server_.load[1].knee_us, 4500u) << "one that finds nobody still does not wait";
  report.slot_ns = 5 * kMs;
  spw_load_report(&server_, 1, &report, 0, kNow);
  EXPECT_EQ(server_.load[1].slot_ns, 5 * kMs) << "a longer guess stands";
  report.slot_ns = 2 * kMs;
  report.flags = 0;
  spw_load_report(&server_, 1, &report, 0, kNow);
  EXPECT_EQ(server_.load[1].slot_ns, 2 * kMs) << "what is learnt stands";
  server_.load[0].flags = report.flags = SPW_REPORT_GUESSED;
  spw_load_report(&server_, 1, &report, 0, kNow);
  EXPECT_EQ(server_.load[1].slot_ns, 2 * kMs) << "guesses do not feed on each other";
}

}  // namespace
}  // namespace spillway
