// SPDX-License-Identifier: Apache-2.0
#include "switch/plan_notes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::switching {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kRingCapacity = 1 << 20;

model::Config TwoServers() {
  model::Config config;
  config.pools.push_back({"p", {}, 0});
  for (int s = 1; s <= 2; s++) {
    model::Server server;
    server.name = fmt::format("s{}", s);
    for (int u = 1; u <= 3; u++) {
      model::Unit unit;
      unit.name = fmt::format("u{}", u);
      unit.address = *model::Address::Parse(fmt::format("10.0.{}.{}", s, u));
      server.units.push_back(unit);
    }
    config.pools[0].servers.push_back(server);
  }
  return config;
}

// The plan of `config` after what `ledger` remembers.
Plan After(Ledger& ledger, const model::Config& config) {
  return MakePlan(config, ledger, kRingCapacity).value();
}

TEST(PlanNotes, AUnitIsNamedWhoseIndexIsNotItsPlaceInTheListAnyMore) {
  Ledger ledger;
  model::Config config = TwoServers();
  EXPECT_THAT(HistoryNotes(After(ledger, config)), IsEmpty());
  auto& units = config.pools[0].servers[1].units;
  units.erase(units.begin() + 1);
  EXPECT_THAT(HistoryNotes(After(ledger, config)),
              ElementsAre(AllOf(HasSubstr("p/s2/u3 has index 2 on this switch"),
                                HasSubstr("afresh with this file would give it 1"))));
  Ledger afresh;
  EXPECT_THAT(HistoryNotes(After(afresh, config)), IsEmpty());
}

TEST(PlanNotes, TheLastUnitOfAServerCanGo) {
  Ledger ledger;
  model::Config config = TwoServers();
  (void)After(ledger, config);
  config.pools[0].servers[0].units.pop_back();
  EXPECT_THAT(HistoryNotes(After(ledger, config)), IsEmpty());
}

TEST(PlanNotes, AnOperatorsStatusIsNamedWhereTheFileSaysOtherwise) {
  Ledger ledger;
  ledger.status["p/s1/u2"] = SPW_UNIT_DOWN;
  const Plan plan = After(ledger, TwoServers());
  EXPECT_THAT(NotesOf(plan, ledger, {}),
              ElementsAre("p/s1/u2 stays down, as set by an operator; the file says up"));
}

TEST(PlanNotes, AServiceTakesNoNewFlowsWhenNoUnitOfItsPoolIsUp) {
  model::Config config = TwoServers();
  model::Service service;
  service.name = "dns";
  service.pool = "p";
  config.services.push_back(service);
  Ledger ledger;
  for (model::Unit& unit : config.pools[0].servers[0].units) unit.drain = true;
  ledger.status = {{"p/s2/u1", SPW_UNIT_DOWN}, {"p/s2/u2", SPW_UNIT_DRAINING}};
  EXPECT_THAT(UnservedNotes(After(ledger, config)), IsEmpty());
  ledger.status["p/s2/u3"] = SPW_UNIT_DRAINING;
  EXPECT_THAT(UnservedNotes(After(ledger, config)),
              ElementsAre("service dns takes no new flows: no unit of pool p is up"));
}

TEST(PlanNotes, ReportsNeedAnAddressThatIsTheMachinesOrAVip) {
  const model::Address own = *model::Address::Parse("192.0.2.1"), vip = *model::Address::Parse("192.0.2.53");
  model::Config config = TwoServers();
  model::Service service;
  service.name = "dns";
  service.pool = "p";
  service.vip = vip;
  config.services.push_back(service);
  const auto notes = [&](const char* address) {
    config.data_plane.report = model::ReportAddress{.address = *model::Address::Parse(address)};
    Ledger ledger;
    return ReportAddressNotes(After(ledger, config), {own});
  };
  EXPECT_THAT(notes("192.0.2.1"), IsEmpty());
  EXPECT_THAT(notes("192.0.2.53"), IsEmpty());
  EXPECT_THAT(notes("192.0.2.77"), ElementsAre(HasSubstr("switch.report.address 192.0.2.77 is neither")));
}

}  // namespace
}  // namespace spillway::switching
