// SPDX-License-Identifier: Apache-2.0
// Units out by their agents' word: who is, for how many, and the probes they get. Random states:
// tests/property/core.
#include "core/health.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/policy.h"

namespace spillway {
namespace {

constexpr uint32_t kBeat = 100'000;
constexpr uint32_t kSilentBeats = 3000;
constexpr uint64_t At(uint32_t beat) { return uint64_t{beat} << SPW_BEAT_SHIFT; }

// A server whose units, cpu first, all report in time.
class Health : public testing::Test {
 protected:
  Health() {
    server_.silent_beats = kSilentBeats;
    for (spw_unit_kind kind : {SPW_KIND_CPU, SPW_KIND_SMARTNIC, SPW_KIND_GPU}) {
      server_.unit[count_] = {SPW_UNIT_UP, static_cast<uint8_t>(kind), 10};
      server_.load[count_].base_us = server_.load[count_].knee_us = 1000;
      server_.load[count_].slot_ns = 1'000'000;
      count_++;
    }
    HearAll(kBeat);
  }
  void HearAll(uint32_t beat) {
    for (uint32_t u = 0; u < count_; u++) server_.load[u].report_beat = beat;
  }
  spw_health_change Says(uint32_t unit, bool failing, uint32_t beat = kBeat) {
    const uint8_t flags = failing ? SPW_REPORT_FAILING : 0;
    return spw_health_report(&server_, &pool_, unit, flags, At(beat));
  }
  int Choose(int policy, uint32_t beat = kBeat, uint32_t default_unit = 0, uint32_t draw = 0) const {
    return spw_choose_unit(&server_, static_cast<uint8_t>(policy), default_unit, 0, At(beat), draw);
  }
  void Place(uint32_t unit, uint32_t beat) { spw_place_on(&server_, SPW_UNIT_WRR, unit, At(beat)); }

  spw_server server_{};
  spw_pool pool_{.units = 8, .out = 0, .excused = 0, .pad = 0};
  uint32_t count_ = 0;
};

TEST_F(Health, AFailingUnitIsChosenByNoPolicy) {
  ASSERT_EQ(Says(0, true), SPW_HEALTH_OUT);
  for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
    for (uint32_t draw = 0; draw < 100; draw++) {
      const int unit = Choose(policy, kBeat, 0, draw);
      if (policy == SPW_UNIT_HOST_ONLY)
        EXPECT_EQ(unit, -1) << "its only host";
      else
        EXPECT_GT(unit, 0) << policy;
    }
  }
}

TEST_F(Health, BackAsSoonAsItsReportSaysSo) {
  ASSERT_EQ(Says(0, true), SPW_HEALTH_OUT);
  EXPECT_EQ(pool_.out, 1u);
  EXPECT_EQ(Says(0, true), SPW_HEALTH_SAME) << "repeated";
  EXPECT_EQ(pool_.out, 1u);
  EXPECT_EQ(Says(0, false), SPW_HEALTH_BACK);
  EXPECT_EQ(Says(0, false), SPW_HEALTH_SAME);
  EXPECT_EQ(pool_.out, 0u);
  EXPECT_EQ(Choose(SPW_UNIT_HOST_ONLY), 0);
}

TEST_F(Health, ProbesComeSoonAtFirstAndAtMostFourASecondLater) {
  ASSERT_EQ(Says(1, true), SPW_HEALTH_OUT);
  std::vector<uint32_t> probes;
  for (uint32_t beat = kBeat; beat < kBeat + 20'000; beat++) {
    if (beat % 500 == 0) HearAll(beat);
    const int unit = Choose(SPW_UNIT_WRR, beat, 0, beat);
    Place(static_cast<uint32_t>(unit), beat);
    if (unit == 1) probes.push_back(beat - kBeat);
  }
  ASSERT_GT(probes.size(), 3u);
  EXPECT_EQ(probes[0], SPW_PROBE_BEATS_MIN) << "not at once: it has just failed";
  EXPECT_EQ(probes[1], 2u * SPW_PROBE_BEATS_MIN);
  for (size_t i = 1; i < probes.size(); i++) {
    const uint32_t gap = probes[i] - probes[i - 1];
    EXPECT_GE(gap, SPW_PROBE_BEATS_MIN);
    EXPECT_LE(gap, SPW_PROBE_BEATS_MAX);
    if (probes[i - 1] > 8 * SPW_PROBE_BEATS_MAX) {
      EXPECT_EQ(gap, SPW_PROBE_BEATS_MAX);
    }
  }
}

TEST_F(Health, EveryPolicyProbesAndHostOnlyHostsAlone) {
  ASSERT_EQ(Says(0, true), SPW_HEALTH_OUT);
  for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++)
    EXPECT_EQ(Choose(policy, kBeat + SPW_PROBE_BEATS_MIN, 0, 7), 0) << policy;
  ASSERT_EQ(Says(0, false), SPW_HEALTH_BACK);
  ASSERT_EQ(Says(1, true), SPW_HEALTH_OUT);
  for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++)
    EXPECT_EQ(Choose(policy, kBeat + SPW_PROBE_BEATS_MIN, 0, 0), policy == SPW_UNIT_HOST_ONLY ? 0 : 1)
        << policy;
}

TEST_F(Health, AUnitThatMayGetNoNewFlowsIsNotProbed) {
  ASSERT_EQ(Says(0, true), SPW_HEALTH_OUT);
  server_.unit[0].status = SPW_UNIT_DRAINING;
  for (uint32_t draw = 0; draw < 100; draw++)
    EXPECT_GT(Choose(SPW_UNIT_WRR, kBeat + SPW_PROBE_BEATS_MIN, 0, draw), 0);
}

TEST_F(Health, TheWordOfASilentAgentIsVoid) {
  ASSERT_EQ(Says(0, true), SPW_HEALTH_OUT);
  server_.load[0].report_beat = kBeat - kSilentBeats - 1;
  EXPECT_EQ(Choose(SPW_UNIT_HOST_ONLY), 0);
  EXPECT_EQ(spw_outage_of(&server_, kBeat).out, 0u);
}

TEST_F(Health, WhenAllFailNobodyIsChosenUnlessItIsToFailOpen) {
  for (uint32_t u = 0; u < 3; u++) ASSERT_EQ(Says(u, true), SPW_HEALTH_OUT);
  spw_server well = server_;
  well.failing = 0;
  for (uint8_t policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
    EXPECT_EQ(Choose(policy), -1);
    for (uint32_t draw = 0; draw < 20; draw++)
      EXPECT_EQ(spw_choose(&server_, policy, 1, 5, At(kBeat), draw, 1),
                spw_choose_unit(&well, policy, 1, 5, At(kBeat), draw));
  }
}

TEST_F(Health, AUnitThatMayGetNoNewFlowsHasNoPartInItsPoolsHalf) {
  ASSERT_EQ(Says(0, true), SPW_HEALTH_OUT);
  server_.unit[0].status = server_.unit[1].status = SPW_UNIT_DRAINING;
  EXPECT_EQ(Says(1, true), SPW_HEALTH_SAME);
  pool_.out = 0;  // as spillwayd counts them now
  EXPECT_EQ(Says(0, false), SPW_HEALTH_BACK);
  EXPECT_EQ(pool_.out, 0u);
  EXPECT_EQ(server_.failing, 0u);
}

TEST_F(Health, AReasonThatIsExcusedTakesNobodyOut) {
  const auto says_errors = [&] {
    return spw_health_report(&server_, &pool_, 0, SPW_REPORT_FAILING | SPW_REPORT_ERRORS, At(kBeat));
  };
  EXPECT_EQ(says_errors(), SPW_HEALTH_OUT);
  pool_.excused = SPW_REPORT_ERRORS;
  EXPECT_EQ(says_errors(), SPW_HEALTH_BACK);
  EXPECT_EQ(says_errors(), SPW_HEALTH_KEPT);
  EXPECT_EQ(Says(0, true), SPW_HEALTH_OUT) << "another reason";
}

TEST_F(Health, AUnitThatIsExcusedIsNotDeadAndItsErrorsCountAllTheSame) {
  ASSERT_EQ(Says(1, true), SPW_HEALTH_OUT);
  server_.excused = 1u << 1;
  server_.excused_beat = kBeat;
  EXPECT_EQ(Says(1, true), SPW_HEALTH_BACK);
  EXPECT_EQ(Says(1, true), SPW_HEALTH_KEPT);
  EXPECT_EQ(Says(1, false), SPW_HEALTH_SAME);
  EXPECT_EQ(Says(0, true), SPW_HEALTH_OUT) << "another unit";
  EXPECT_EQ(spw_health_report(&server_, &pool_, 1, SPW_REPORT_FAILING | SPW_REPORT_REFUSED, At(kBeat)),
            SPW_HEALTH_KEPT);
  EXPECT_EQ(spw_health_report(&server_, &pool_, 1, SPW_REPORT_FAILING | SPW_REPORT_ERRORS, At(kBeat)),
            SPW_HEALTH_OUT);
}

TEST_F(Health, AnExcuseThatNobodyConfirmsIsOver) {
  server_.excused = 1;
  server_.excused_beat = kBeat;
  EXPECT_EQ(Says(0, true, kBeat + SPW_EXCUSE_BEATS - 1), SPW_HEALTH_KEPT);
  EXPECT_EQ(Says(0, true, kBeat + SPW_EXCUSE_BEATS), SPW_HEALTH_OUT) << "spillwayd is away";
}

TEST_F(Health, NoMoreThanHalfOfAPoolIsOut) {
  for (auto& unit : server_.unit) unit.status = SPW_UNIT_UP;
  for (uint32_t units : {0u, 1u, 2u, 3u, 4u, 7u, 8u}) {
    server_.failing = 0;
    pool_ = {.units = units, .out = 0, .excused = 0, .pad = 0};
    uint32_t out = 0;
    for (uint32_t u = 0; u < 8; u++) out += Says(u, true) == SPW_HEALTH_OUT;
    EXPECT_EQ(out, units / 2) << units;
    EXPECT_EQ(pool_.out, units / 2);
  }
}

TEST_F(Health, AUnitKeptInFollowsOnceAnotherIsBack) {
  pool_.units = 2;
  ASSERT_EQ(Says(0, true), SPW_HEALTH_OUT);
  EXPECT_EQ(Says(1, true), SPW_HEALTH_KEPT);
  EXPECT_EQ(Choose(SPW_UNIT_WRR), 1);
  ASSERT_EQ(Says(0, false), SPW_HEALTH_BACK);
  EXPECT_EQ(Says(1, true), SPW_HEALTH_OUT);
}

TEST_F(Health, P2cPassesOverAServerThatOnlyFailsButForItsProbes) {
  spw_server other = server_;
  for (uint32_t u = 0; u < 3; u++) ASSERT_EQ(Says(u, true), SPW_HEALTH_OUT);
  other.load[0].queue = 5000;
  EXPECT_TRUE(spw_prefer_second(&server_, &other, SPW_UNIT_LEAST_LOADED, At(kBeat)));
  EXPECT_FALSE(spw_prefer_second(&other, &server_, SPW_UNIT_LEAST_LOADED, At(kBeat)));
  const uint64_t due = At(kBeat + SPW_PROBE_BEATS_MIN);
  EXPECT_FALSE(spw_prefer_second(&server_, &other, SPW_UNIT_LEAST_LOADED, due));
  EXPECT_TRUE(spw_prefer_second(&other, &server_, SPW_UNIT_LEAST_LOADED, due));
}

// A reader whose clock lags must not take the future for a long time ago.
TEST_F(Health, ALaggingClockProbesNoEarlier) {
  ASSERT_EQ(Says(0, true, kBeat), SPW_HEALTH_OUT);
  for (uint32_t lag : {1u, 10u, 60u, 500u}) {
    EXPECT_EQ(spw_outage_of(&server_, kBeat - lag).due, 0u) << lag;
    EXPECT_EQ(spw_outage_of(&server_, kBeat - lag).out, 1u) << lag;
  }
}

}  // namespace
}  // namespace spillway
