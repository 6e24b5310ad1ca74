// SPDX-License-Identifier: Apache-2.0
#include "switch/ejection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::switching {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A pool "p" of servers with a CPU (even ids) and a NIC (odd ids) each, and the services on it.
class EjectionTest : public ::testing::Test {
 protected:
  void Servers(int count) {
    for (int s = 0; s < count; s++)
      for (const auto& [name, kind] : {std::pair{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}) {
        PlannedUnit unit;
        unit.pool = "p";
        unit.server = fmt::format("s{}", s);
        unit.unit = name;
        unit.kind = kind;
        unit.id = static_cast<uint16_t>(units_.size());
        units_.push_back(unit);
      }
  }
  void Service(const std::string& name, spw_unit_policy policy = SPW_UNIT_WRR) {
    model::Service service;
    service.name = name;
    service.pool = "p";
    service.unit_policy = policy;
    config_.services.push_back(service);
  }
  // The one named later fails for a shorter time.
  void Fail(uint16_t id) {
    const PlannedUnit& unit = units_[id];
    failing_[UnitName(unit.pool, unit.server, unit.unit)] = {now_ += seconds(1), false};
  }
  Ejection Choose() const {
    return ChooseEjected(config_, units_, failing_,
                         [this](uint16_t id) { return !unresolved_.contains(id); });
  }

  model::Config config_;
  std::vector<PlannedUnit> units_;
  FailingUnits failing_;
  std::set<uint16_t> unresolved_;
  std::chrono::steady_clock::time_point now_;
};

TEST_F(EjectionTest, AFailingUnitIsEjected) {
  Servers(2);
  Service("web");
  EXPECT_THAT(Choose().units, IsEmpty());
  Fail(1);
  EXPECT_THAT(Choose().units, ElementsAre(1));
  EXPECT_EQ(Choose().services["web"].failing, 1u);
  EXPECT_EQ(Choose().services["web"].ejected, 1u);
  EXPECT_FALSE(Choose().services["web"].fail_open);
}

TEST_F(EjectionTest, AtMostHalfIsEjectedTheLongestFailingFirst) {
  Servers(2);
  Service("web");
  for (const uint16_t id : {3, 0, 1}) Fail(id);
  EXPECT_THAT(Choose().units, UnorderedElementsAre(3, 0));
  EXPECT_EQ(Choose().services["web"].failing, 3u);
}

TEST_F(EjectionTest, WhenAllFailNoneIsEjected) {
  Servers(2);
  Service("web");
  for (const uint16_t id : {0, 1, 2, 3}) Fail(id);
  EXPECT_THAT(Choose().units, IsEmpty());
  EXPECT_TRUE(Choose().services["web"].fail_open);
}

TEST_F(EjectionTest, OnlyUnitsThatThePolicyUsesCount) {
  Servers(2);
  Service("hosts", SPW_UNIT_HOST_ONLY);
  Fail(0);
  EXPECT_THAT(Choose().units, ElementsAre(0));
  Fail(2);  // both CPUs, half of the pool, but all that the policy has
  EXPECT_THAT(Choose().units, IsEmpty());
  EXPECT_TRUE(Choose().services["hosts"].fail_open);
}

TEST_F(EjectionTest, UnitsThatAnOperatorTookOutAreNotCountedNorEjected) {
  Servers(2);
  Service("web");
  units_[2].status = SPW_UNIT_DRAINING;
  units_[3].status = SPW_UNIT_DOWN;
  for (const uint16_t id : {2, 0, 3}) Fail(id);
  EXPECT_THAT(Choose().units, ElementsAre(0)) << "one of the two that are left";
  Fail(1);
  EXPECT_TRUE(Choose().services["web"].fail_open);
}

TEST_F(EjectionTest, UnitsThatCannotBeReachedAreOfTheHalf) {
  Servers(2);
  Service("web");
  unresolved_ = {0};
  for (const uint16_t id : {0, 1, 2}) Fail(id);
  EXPECT_THAT(Choose().units, ElementsAre(1));
  unresolved_ = {0, 3};
  EXPECT_THAT(Choose().units, IsEmpty());
  EXPECT_TRUE(Choose().services["web"].fail_open);
}

TEST_F(EjectionTest, AnEjectedUnitThatThenCannotBeReachedStaysEjected) {
  Servers(2);
  Service("web");
  for (const uint16_t id : {0, 1}) Fail(id);
  units_[0].ejected = true;
  unresolved_ = {0};
  EXPECT_THAT(Choose().units, ElementsAre(0, 1));
  EXPECT_EQ(Choose().services["web"].ejected, 1u) << "it is one of those that cannot be reached";
  unresolved_ = {0, 2, 3};
  EXPECT_THAT(Choose().units, IsEmpty()) << "fail-open";
  failing_.clear();
  EXPECT_THAT(Choose().units, IsEmpty());
}

TEST_F(EjectionTest, ServicesOfAPoolShareTheHalf) {
  Servers(2);
  Service("all");
  Service("hosts", SPW_UNIT_HOST_ONLY);
  for (const uint16_t id : {0, 2, 1}) Fail(id);
  // The service on hosts has lost both its units: it keeps them, and so does the other.
  EXPECT_THAT(Choose().units, ElementsAre(1));
  EXPECT_TRUE(Choose().services["hosts"].fail_open);
  EXPECT_FALSE(Choose().services["all"].fail_open);
}

TEST_F(EjectionTest, AUnitThatNoServiceUsesIsNotEjected) {
  Servers(2);
  Service("hosts", SPW_UNIT_HOST_ONLY);
  Fail(1);
  EXPECT_THAT(Choose().units, IsEmpty());
}

TEST_F(EjectionTest, AnOnlyUnitIsNeverEjected) {
  Servers(1);
  Service("hosts", SPW_UNIT_HOST_ONLY);
  Fail(0);
  EXPECT_THAT(Choose().units, IsEmpty());
}

TEST_F(EjectionTest, UnitsThatAreGoneDoNoHarm) {
  Servers(1);
  Service("web");
  failing_["p/gone/cpu"] = {};
  EXPECT_THAT(Choose().units, IsEmpty());
}

}  // namespace
}  // namespace spillway::switching
