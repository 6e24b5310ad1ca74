// SPDX-License-Identifier: Apache-2.0
#include "model/warnings.h"

#include <gmock/gmock.h>

#include "pool_text.h"

namespace spillway::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> WarningsOf(const std::string& text) {
  const auto config = ParseConfig(text, "pool.yaml");
  EXPECT_TRUE(config) << config.error().message;
  return config ? Warnings(*config) : std::vector<std::string>();
}

TEST(Warnings, AServerWithoutKeyIsNamedWhereAPolicyReadsItsReports) {
  EXPECT_THAT(WarningsOf(kText),
              ElementsAre(AllOf(HasSubstr("services[dns]: no key_file for pools.rack1.servers[s1]: "),
                                HasSubstr("headroom places by capacity"))));
  EXPECT_THAT(WarningsOf(With(kText, "pool: rack1", "pool: rack1, unit_policy: wrr")), IsEmpty());
  const std::string nic = "          - {name: nic, kind: smartnic, address: 10.0.1.2, capacity: 1}\n";
  EXPECT_THAT(WarningsOf(With(kText, nic, "")), IsEmpty()) << "nothing to choose between";
  const std::string two = kText + "      - name: s2\n        units:\n" + With(nic, "10.0.1.2", "10.0.2.2");
  const std::string p2c = With(two, "pool: rack1", "pool: rack1, unit_policy: wrr, server_policy: p2c");
  EXPECT_THAT(WarningsOf(p2c), ElementsAre(HasSubstr("servers[s1] and 1 more")));
}

TEST(Warnings, ServersThatShareAKeyAreNamed) {
  const std::string two = kText +
                          "      - name: s2\n        units:\n          - {name: cpu, kind: cpu, address: "
                          "10.0.2.1, capacity: 6}\n";
  auto config = ParseConfig(two, "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  std::vector<Server>& servers = config->pools[0].servers;
  servers[0].key = Key{1}, servers[1].key = Key{1};
  EXPECT_THAT(Warnings(*config), ElementsAre(AllOf(HasSubstr("pools.rack1.servers[s2]: the same key as"),
                                                   HasSubstr("servers[s1]"))));
  servers[1].key = Key{2};
  EXPECT_THAT(Warnings(*config), IsEmpty());
  servers[1].key = Key{1};
  servers[1].units[0].address = servers[0].units[0].address;
  EXPECT_THAT(Warnings(*config), IsEmpty()) << "one machine, in two pools";
}

}  // namespace
}  // namespace spillway::model
