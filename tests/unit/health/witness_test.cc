// SPDX-License-Identifier: Apache-2.0
// Which units have checks that can speak against their agents.
#include <atomic>
#include <set>

#include "checker_fixture.h"

namespace spillway::health {
namespace {

TEST_F(CheckerTest, OnlyChecksThatNeedAnAnswerOfAllThatTheUnitServesAreWitnesses) {
  UdpServer echo([](const std::string& question) { return question; });
  Socket listening(SOCK_STREAM);
  listening.Listen();
  auto udp = QuickCheck(model::CheckKind::kUdp, echo.port());
  udp.payload = "ping";
  auto config = ConfigOf({udp, QuickCheck(model::CheckKind::kTcp, listening.port()), udp, udp});
  config.services[2].ports = {{model::Protocol::kUdp, echo.port()}, {model::Protocol::kUdp, 9}};
  config.services[3].ports = {{model::Protocol::kUdp, echo.port()}, {model::Protocol::kTcp, echo.port()}};
  Check({});
  checker_->SetConfig(config);
  for (size_t i = 0; i < 4; i++) ASSERT_TRUE(Becomes(CheckState::kUp, i));
  ASSERT_TRUE(Eventually([&] { return View(3).passed > 3; }));
  std::set<UnitName> all;
  for (const char* pool : {"v0", "v1", "v2", "v3"}) all.emplace(pool, "s1", "cpu");
  const auto witnesses = checker_->Witnesses(all);
  ASSERT_EQ(witnesses.size(), 2u);
  EXPECT_EQ(witnesses[0].unit, UnitName("v0", "s1", "cpu"));
  EXPECT_EQ(witnesses[1].unit, UnitName("v3", "s1", "cpu"));
  EXPECT_EQ(witnesses[1].pace.count(), 400) << "the timeout, as it is longer than the interval";
  EXPECT_LT(witnesses[1].since, witnesses[1].last);
  EXPECT_EQ(checker_->Witnesses({UnitName("v3", "s1", "cpu")}).size(), 1u);
  EXPECT_TRUE(checker_->Witnesses({}).empty());

  // Another service of the pool that nobody checks.
  config.services[3].health.reset();
  config.services[3].pool = "v0";
  checker_->SetConfig(config);
  ASSERT_TRUE(Eventually([&] { return checker_->Views().size() == 3; }));
  EXPECT_TRUE(checker_->Witnesses(all).empty());
}

TEST_F(CheckerTest, AUnitOfWhichOneCheckFailsHasNoWitness) {
  std::atomic<bool> answers = true;
  UdpServer echo([](const std::string& question) { return question; });
  UdpServer other([&](const std::string& question) { return answers ? question : std::string(); });
  auto good = QuickCheck(model::CheckKind::kUdp, echo.port());
  auto bad = QuickCheck(model::CheckKind::kUdp, other.port());
  good.payload = bad.payload = "ping";
  bad.timeout_ms = 100;
  bad.fall = 100;  // it is up for long
  auto config = ConfigOf({good, bad});
  config.services[1].pool = "v0";
  Check({});
  checker_->SetConfig(config);
  const std::set<UnitName> unit{UnitName("v0", "s1", "cpu")};
  ASSERT_TRUE(Eventually([&] { return checker_->Witnesses(unit).size() == 1; }));
  answers = false;
  ASSERT_TRUE(Eventually([&] { return View(1).failed > 0; }));
  EXPECT_TRUE(checker_->Witnesses(unit).empty());
}

}  // namespace
}  // namespace spillway::health
