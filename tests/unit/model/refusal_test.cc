// SPDX-License-Identifier: Apache-2.0
// What is refused, and with which words. Lines of kText are numbered in pool_text.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/yaml/problems.h"
#include "pool_text.h"

namespace spillway::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string WithService(const std::string& service) {
  return With(kText, "pools:\n", "  - {" + service + "}\npools:\n");
}

std::string WithServer(const std::string& server) { return kText + "      - {" + server + "}\n"; }

TEST(Refusal, AnotherProgramsFileIsNamedInOneLine) {
  const auto read = ParseConfig("switches: [192.0.2.1]\nserver: {code: 1}\nunit: 0\n", "agent.yaml");
  ASSERT_FALSE(read);
  EXPECT_EQ(
      read.error().message,
      "agent.yaml:1: switches: expected a pool file, got an agent's file: spillway-agent -c FILE --check");
}

TEST(Refusal, NothingIsWrongWithTheBaseText) { EXPECT_EQ(Problem(kText), "accepted"); }

TEST(Refusal, UnknownKeysNameTheNearest) {
  EXPECT_EQ(Problem(With(kText, "pool: rack1}", "pool: rack1, unit_polcy: wrr}")),
            "pool.yaml:5: services[dns]: unknown key \"unit_polcy\", did you mean unit_policy?");
  EXPECT_EQ(
      Problem(With(kText, "interfaces: [eth0]", "interfaces: [eth0]\n  zzzzzzzz: 1")),
      "pool.yaml:3: switch: unknown key \"zzzzzzzz\", known are interfaces, attach, report, flow_table, "
      "seed_file");
  EXPECT_THAT(Problem(kText + "service: []\n"),
              StartsWith("pool.yaml:13: unknown key \"service\", did you mean services?"));
}

TEST(Refusal, RepeatedKeys) {
  EXPECT_EQ(Problem(With(kText, "pool: rack1}", "pool: rack1, pool: rack1}")),
            "pool.yaml:5: services[dns].pool: duplicate key, already on line 5");
  EXPECT_EQ(Problem(kText +
                    "  rack1:\n    servers: [{name: x, units: [{name: u, kind: cpu, address: 10.9.9.9}]}]\n"),
            "pool.yaml:13: pools.rack1: duplicate name \"rack1\"");
  EXPECT_EQ(Problem(kText + "---\n" + kSwitchText),
            "pool.yaml:14: switch: already in another document of the file");
}

TEST(Refusal, WrongTypes) {
  EXPECT_EQ(Problem(With(kText, "interfaces: [eth0]", "interfaces: eth0")),
            "pool.yaml:2: switch.interfaces: expected a list of interfaces, got \"eth0\"");
  EXPECT_EQ(Problem(With(kText, "capacity: 6", "capacity: \"6\"")),
            "pool.yaml:11: pools.rack1.servers[s1].units[cpu].capacity: expected a number greater than 0, "
            "got the text \"6\"");
  EXPECT_EQ(Problem(With(kText, "vip: 203.0.113.53", "vip: [203.0.113.53]")),
            "pool.yaml:5: services[dns].vip: expected an IPv4 or IPv6 address without port or prefix length "
            "(IPv4-mapped ones in IPv4 spelling), "
            "got a list");
  EXPECT_EQ(Problem(kSwitchText + kServiceText + "pools:\n  rack1:\n"),
            "pool.yaml:7: pools.rack1: expected a map, got nothing");
  EXPECT_EQ(Problem(With(kText, "capacity: 6", "capacity: 6, drain: yes")),
            "pool.yaml:11: pools.rack1.servers[s1].units[cpu].drain: expected true or false, got \"yes\"");
  EXPECT_THAT(Problem("just words"), StartsWith("pool.yaml:1: expected a map, got \"just words\""));
  EXPECT_EQ(Problem("switch: [\n"), "pool.yaml:2: expected YAML, got a [ without its ]");
  EXPECT_EQ(Problem("switch: {a: 1\n"), "pool.yaml:2: expected YAML, got a { without its }");
  EXPECT_THAT(Problem("switch:\n  a: 1\n c: 2\n"),
              HasSubstr("pool.yaml:3: expected YAML, got a line that is indented"));
  EXPECT_THAT(Problem("switch: a: b\n"), HasSubstr("(a text that holds it needs quotes)"));
  for (const char* text : {"switch:\n\t- a\n", "switch:\n\ta: 1\n"})
    EXPECT_EQ(Problem(text), "pool.yaml:2: expected indentation by spaces, got a tab") << text;
}

TEST(Refusal, EntriesWithoutAValueStandAtTheirList) {
  EXPECT_EQ(Problem(With(kText, "interfaces: [eth0]", "interfaces:\n    - eth0\n    -\n    # a comment\n")),
            "pool.yaml:2: switch.interfaces[#2]: expected the name of an interface, got nothing");
}

TEST(Refusal, MissingKeys) {
  EXPECT_EQ(Problem(With(kText, "vip: 203.0.113.53, ", "")),
            "pool.yaml:5: services[dns].vip: expected the service's address, got nothing");
  EXPECT_EQ(Problem(With(kText, "name: s1\n        ", "")),
            "pool.yaml:9: pools.rack1.servers[#1].name: expected a name, got nothing");
  EXPECT_EQ(Problem(""),
            "pool.yaml:1: switch: expected a map with the switch's interfaces, got nothing\n"
            "pool.yaml:1: services: expected a list of services (none: []), got nothing");
  EXPECT_EQ(Problem(With(kText, "  interfaces: [eth0]\n", "")),
            "pool.yaml:1: switch.interfaces: expected a list of interfaces, got nothing");
  EXPECT_EQ(Problem(With(kText, "[eth0]", "[]")),
            "pool.yaml:2: switch.interfaces: expected 1 to 64 interfaces, got 0");
}

// A value of the base text, another in its place, and what the message must say.
struct Bad {
  const char *from, *to, *says;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.from << " -> " << bad.to; }

class BadValue : public testing::TestWithParam<Bad> {};

TEST_P(BadValue, IsRefused) {
  std::string problem = Problem(With(kText, GetParam().from, GetParam().to));
  EXPECT_THAT(problem, AllOf(StartsWith("pool.yaml:"), HasSubstr(GetParam().says)));
  EXPECT_EQ(problem.find('\n'), std::string::npos) << "one cause, one line: " << problem;
}

INSTANTIATE_TEST_SUITE_P(
    Scalars, BadValue,
    testing::Values(
        Bad{"203.0.113.53", "203.0.113.300", "services[dns].vip: expected an IPv4"},
        Bad{"203.0.113.53", "'::ffff:203.0.113.53'", "services[dns].vip: expected an IPv4"},
        Bad{"203.0.113.53", "0.0.0.0", "expected the address of a host"},
        Bad{"203.0.113.53", "224.0.0.1", "expected the address of a host"},
        Bad{"udp/53", "udp/0", "services[dns].ports[#1]: expected tcp/PORT or udp/PORT"},
        Bad{"udp/53", "udp/65536", "expected tcp/PORT or udp/PORT"},
        Bad{"udp/53", "53", "expected tcp/PORT or udp/PORT"}, Bad{"udp/53", "sctp/53", "expected tcp/PORT"},
        Bad{"udp/53", "udp/+53", "expected tcp/PORT"}, Bad{"udp/53", "tcp/53", "duplicate port"},
        Bad{"[udp/53, tcp/53]", "[]", "at least one port"},
        Bad{"pool: rack1}", "pool: rack2}",
            "services[dns].pool: expected the name of a pool (rack1), got \"rack2\""},
        Bad{"pool: rack1}", "pool: rack1, mode: ipip}", "expected one of nat, dsr-l2, got \"ipip\""},
        Bad{"pool: rack1}", "pool: rack1, affinity: client}", "expected one of connection, none"},
        Bad{"pool: rack1}", "pool: rack1, server_policy: rr}", "expected one of maglev, ecmp, wcmp, p2c"},
        Bad{"pool: rack1}", "pool: rack1, unit_policy: fastest}",
            "expected one of p4mite, wrr, ecmp, host-only"},
        Bad{"pool: rack1}", "pool: rack1, idle: 5h}", "services[dns].idle: expected a duration such as"},
        Bad{"pool: rack1}", "pool: rack1, idle: 500ms}", "from 1s to 4h"},
        Bad{"pool: rack1}", "pool: rack1, idle: 60}", "expected a duration"},
        Bad{"pool: rack1}", "pool: rack1, idle: 1500ms}", "expected whole seconds"},
        Bad{"name: dns", "name: d/ns", "services[#1].name: expected a name"},
        Bad{"name: dns", "name: ''", "expected a name"}, Bad{"name: dns", "name: ~", "expected a name"},
        Bad{"address: 192.0.2.1", "port: 9870", "switch.report.address: expected the address that agents"},
        Bad{"192.0.2.1}", "192.0.2.1, port: 70000}",
            "switch.report.port: expected a whole number from 1 to 65535"},
        Bad{"192.0.2.1}", "192.0.2.1, silent_after: 1ms}", "from 10ms to 1h"},
        Bad{"[eth0]", "[eth0, eth0]", "duplicate interface"},
        Bad{"[eth0]", "[a-name-too-long-for-linux]", "expected the name of an interface"},
        Bad{"[eth0]", "[eth0]\n  attach: offload", "expected one of auto, native, generic"},
        Bad{"[eth0]", "[eth0]\n  flow_table: {entries: 1000000}", "expected a power of two"},
        Bad{"[eth0]", "[eth0]\n  seed_file: []", "expected the path of a seed file"},
        Bad{"[eth0]", "[eth0]\n  seed_file: /dev/null",
            "switch.seed_file: expected a file of 96 hex digits, or none, to be made; got /dev/null: not a "
            "regular "
            "file"},
        Bad{"[eth0]", "[eth0]\n  flow_table: {entries: 512}", "from 1024 to 268435456"},
        Bad{"[eth0]", "[eth0]\n  flow_table: {entries: 536870912}", "from 1024 to 268435456"},
        Bad{"capacity: 6", "capacity: 0", "expected a number greater than 0"},
        Bad{"capacity: 6", "capacity: -1", "expected a number greater than 0"},
        Bad{"capacity: 6", "capacity: inf", "expected a number greater than 0"},
        Bad{"capacity: 6", "capacity: nan", "expected a number greater than 0"},
        Bad{"capacity: 6", "capacity: 1e999", "expected a number greater than 0"},
        Bad{"kind: smartnic", "kind: dpu", "expected one of cpu, smartnic, gpu, fpga, ssd, other"},
        Bad{"  rack1:\n", "  rack1:\n    ring_slots: 1013000\n", "expected a prime number"},
        Bad{"  rack1:\n", "  rack1:\n    ring_slots: 997\n", "from 1009 to 16777213"},
        Bad{"name: s1\n", "name: s1\n        code: 4096\n", "from 0 to 4095"},
        Bad{"name: s1\n", "name: s1\n        key_file: /nonexistent/s1.key\n",
            "/nonexistent/s1.key: No such file"}));

INSTANTIATE_TEST_SUITE_P(
    Combinations, BadValue,
    testing::Values(
        Bad{"name: nic", "name: cpu", "servers[s1].units[cpu].name: duplicate name \"cpu\""},
        Bad{"10.0.1.2", "10.0.1.1",
            "units[nic].address: duplicate address 10.0.1.1, already that of "
            "pools.rack1.servers[s1].units[cpu]"},
        Bad{"203.0.113.53", "10.0.1.2", "services[dns].vip: expected an address that no unit has"},
        Bad{"192.0.2.1", "10.0.1.2", "switch.report.address: expected an address of the switch"},
        Bad{"{address: 192.0.2.1}", "{address: 203.0.113.53, port: 53}",
            "services[dns].ports[udp/53]: expected a port beside the load reports'"},
        Bad{"203.0.113.53", "'2001:db8::53'",
            "services[dns].vip: expected an IPv4 address, as the units of pool rack1"},
        Bad{"10.0.1.2", "'2001:db8::2'",
            "units[nic].address: expected an IPv4 address, as the VIP of service dns is, got "
            "\"2001:db8::2\""},
        Bad{"capacity: 6", "capacity: 10001",
            "units[nic].capacity: expected at least 1/10000 of the pool's greatest"},
        Bad{"  report: {address: 192.0.2.1}\n", "",
            "services[dns].unit_policy: expected switch.report to be set, as headroom reads load reports"},
        Bad{"kind: cpu, address: 10.0.1.1, capacity: 6}", "kind: gpu, address: 10.0.1.1, colour: red}",
            "unknown key \"colour\""}));

TEST(Refusal, PoliciesThatReadReportsNeedThem) {
  std::string silent = With(kText, "  report: {address: 192.0.2.1}\n", "");
  EXPECT_THAT(Problem(With(silent, "pool: rack1}", "pool: rack1, unit_policy: least-loaded}")),
              HasSubstr("pool.yaml:4: services[dns].unit_policy: expected switch.report"));
  EXPECT_THAT(Problem(With(silent, "pool: rack1}", "pool: rack1, unit_policy: wrr, server_policy: p2c}")),
              HasSubstr("pool.yaml:4: services[dns].server_policy: expected switch.report"));
}

TEST(Refusal, OverlappingServices) {
  EXPECT_EQ(Problem(WithService("name: dns2, vip: 203.0.113.53, ports: [udp/54, tcp/53], pool: rack1")),
            "pool.yaml:6: services[dns2].ports[tcp/53]: expected a port that no other service has, got "
            "\"tcp/53\", which "
            "dns has at 203.0.113.53");
  EXPECT_EQ(Problem(WithService("name: dns, vip: 203.0.113.54, ports: [udp/54], pool: rack1")),
            "pool.yaml:6: services[dns].name: duplicate name \"dns\"");
}

TEST(Refusal, NatServicesWhoseRepliesCouldNotBeToldApart) {
  EXPECT_EQ(Problem(WithService("name: dns2, vip: 203.0.113.54, ports: [udp/53], pool: rack1")),
            "pool.yaml:6: services[dns2].ports[udp/53]: expected a port that no other nat service of pool "
            "rack1 has "
            "(replies could not be told apart), got \"udp/53\", which dns has");
  EXPECT_EQ(Problem(WithService("name: dns2, vip: 203.0.113.54, ports: [udp/54], pool: rack1")), "accepted");
}

TEST(Refusal, HostOnlyWithAServerWithoutHost) {
  std::string text = With(kText, "pool: rack1}", "pool: rack1, unit_policy: host-only}");
  EXPECT_EQ(Problem(text), "accepted");
  EXPECT_EQ(Problem(text + "      - {name: s2, units: [{name: g, kind: gpu, address: 10.0.2.1}]}\n"),
            "pool.yaml:5: services[dns].unit_policy: expected a unit of kind cpu in every server, got "
            "pools.rack1.servers[s2] without one");
}

TEST(Refusal, ServersAndUnitsThatAreNone) {
  EXPECT_EQ(Problem(WithServer("name: s2, units: []")),
            "pool.yaml:13: pools.rack1.servers[s2].units: expected 1 to 8 units, got 0");
  std::string units;
  for (int u = 1; u <= 9; u++)
    units += "{name: u" + std::to_string(u) + ", kind: cpu, address: 10.0.2." + std::to_string(u) + "}, ";
  EXPECT_EQ(Problem(WithServer("name: s2, units: [" + units + "]")),
            "pool.yaml:13: pools.rack1.servers[s2].units: expected 1 to 8 units, got 9");
  EXPECT_EQ(Problem(kText + "  rack2: {servers: []}\n"),
            "pool.yaml:13: pools.rack2.servers: expected at least one server, got an empty list");
  EXPECT_EQ(Problem(WithServer("name: s1, units: [{name: u, kind: cpu, address: 10.0.2.1}]")),
            "pool.yaml:13: pools.rack1.servers[s1].name: duplicate name \"s1\"");
}

TEST(Refusal, ServerCodesGivenTwice) {
  std::string text = With(kText, "name: s1\n", "name: s1\n        code: 7\n");
  EXPECT_EQ(
      Problem(
          text +
          "  rack2: {servers: [{name: s1, code: 7, units: [{name: u, kind: cpu, address: 10.0.2.1}]}]}\n"),
      "pool.yaml:14: pools.rack2.servers[s1].code: duplicate code 7, already that of "
      "pools.rack1.servers[s1]");
}

TEST(Refusal, UnitAddressesAreUniqueAcrossPools) {
  EXPECT_THAT(
      Problem(kText + "  rack2: {servers: [{name: s1, units: [{name: u, kind: cpu, address: 10.0.1.1}]}]}\n"),
      StartsWith("pool.yaml:13: pools.rack2.servers[s1].units[u].address: duplicate address 10.0.1.1, "
                 "already that of pools.rack1.servers[s1].units[cpu]"));
}

TEST(Refusal, RingsWithFewerSlotsThanUnits) {
  std::string text = With(kText, "  rack1:\n", "  rack1:\n    ring_slots: 1009\n");
  for (int s = 0; s < 1008; s++)
    text += "      - {name: t" + std::to_string(s) + ", units: [{name: u, kind: cpu, address: 10.3." +
            std::to_string(s / 256) + "." + std::to_string(s % 256) + "}]}\n";
  EXPECT_EQ(Problem(text),
            "pool.yaml:8: pools.rack1.ring_slots: expected a slot for each of the pool's 1010 units, got "
            "\"1009\"");
}

TEST(Refusal, PoolsWithMoreUnitsThanTheDefaultRingHasSlotsMustSayTheirOwn) {
  std::string text = kSwitchText + "services: []\npools:\n  big:\n    servers:\n";
  for (int u = 0; u < 16411; u++) {
    if (u % 8 == 0) text += (u == 0 ? "" : "]}\n") + ("      - {name: s" + std::to_string(u) + ", units: [");
    text += "{name: u" + std::to_string(u) + ", kind: cpu, address: 10.7." + std::to_string(u / 256) + "." +
            std::to_string(u % 256) + "}, ";
  }
  EXPECT_EQ(Problem(text + "]}\n"), "accepted");
  EXPECT_THAT(Problem(text + "{name: more, kind: cpu, address: 10.8.0.1}]}\n"),
              HasSubstr("pools.big.ring_slots: expected a prime number of at least 16412, a slot for each of "
                        "the pool's units, got the default of 16411"));
}

TEST(Refusal, MoreServicePortsThanTheSwitchHolds) {
  std::string services = "services:\n";
  for (int s = 0; s < 32; s++) {
    services += "  - {name: s" + std::to_string(s) + ", vip: 203.0.113.1, pool: rack1, ports: [";
    for (int p = 1; p <= 32; p++) services += "udp/" + std::to_string(s * 32 + p) + ", ";
    services += "]}\n";
  }
  EXPECT_EQ(Problem(kSwitchText + services + kPoolText), "accepted") << "1024 are";
  EXPECT_EQ(
      Problem(kSwitchText + services + "  - {name: more, vip: 203.0.113.2, pool: rack1, ports: [tcp/1]}\n" +
              kPoolText),
      "pool.yaml:37: services[more].ports[#1]: expected at most 1024 ports of services in all, got more");
}

TEST(Refusal, AllProblemsAreToldInTheOrderOfLines) {
  std::string text =
      With(With(With(kText, "[eth0]", "[]"), "pool: rack1}", "pool: rack9}"), "capacity: 6", "capacity: no");
  EXPECT_EQ(Problem(text),
            "pool.yaml:2: switch.interfaces: expected 1 to 64 interfaces, got 0\n"
            "pool.yaml:5: services[dns].pool: expected the name of a pool (rack1), got \"rack9\"\n"
            "pool.yaml:11: pools.rack1.servers[s1].units[cpu].capacity: expected a number greater than 0, "
            "got \"no\"");
}

TEST(Refusal, ManyProblemsAreCounted) {
  std::string text = kSwitchText + "services:\n";
  for (int s = 0; s < 30; s++) text += "  - {}\n";  // four keys missing in each
  std::string problem = Problem(text);
  EXPECT_EQ(std::count(problem.begin(), problem.end(), '\n'), static_cast<long>(yaml::kMaxProblems));
  EXPECT_THAT(problem, HasSubstr("\npool.yaml:10: and 100 more problems from here on"));
}

TEST(Refusal, WhatTheFileHoldsIsShownAsPrintableText) {
  EXPECT_THAT(Problem(With(kText, "pool: rack1}", "pool: rack1, mode: \"a\\n\\e[31mb\"}")),
              HasSubstr("got \"a\\x0a\\x1b[31mb\""));
  EXPECT_EQ(yaml::Excerpt(std::string(100, 'x')), "\"" + std::string(60, 'x') + "...\"");
}

TEST(Refusal, FilesThatCannotBeRead) {
  auto missing = LoadConfig("/nonexistent/pool.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(missing.error().message,
            "/nonexistent/pool.yaml: expected a readable file: No such file or directory");
  auto folder = LoadConfig(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr(": expected a readable file: Is a directory"));
  const std::string pipe = testing::TempDir() + "/spillway-pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(LoadConfig(pipe).error().message, HasSubstr(": expected a readable file, got a named pipe"));
  unlink(pipe.c_str());
  auto long_name = LoadConfig(std::string(5000, 'x'));
  ASSERT_FALSE(long_name);
  EXPECT_THAT(long_name.error().message, HasSubstr("xxx: expected a readable file: File name too long"));
}

// Two bytes each: a file of the size that the API takes would be gigabytes once read.
TEST(PoolFileErrors, MoreValuesThanAnyPoolHasAreRefusedBeforeTheyAreKept) {
  std::string text = "services: [";
  for (int i = 0; i < (1 << 20) + 1; i++) text += "a,";
  EXPECT_EQ(Problem(text + "]\n"), "pool.yaml:1: expected YAML, got more than 1048576 values");
}

TEST(PoolFileErrors, NestingTooDeepIsSaidSo) {
  EXPECT_EQ(Problem("a: " + std::string(20000, '[')),
            "pool.yaml:1: expected YAML, got lists or maps that are nested too deep");
}

TEST(Refusal, AWrongKindOfCheckHidesNothingElseThatIsWrong) {
  const std::string problem =
      Problem(With(kText, "services:\n", "health: {check: ping, interval: 0s, fall: 0}\nservices:\n"));
  EXPECT_THAT(problem, AllOf(HasSubstr("health.check: expected one of"),
                             HasSubstr("health.interval: expected"), HasSubstr("health.fall: expected")));
}

// yaml-cpp tells of an escape that it does not know by that very character.
TEST(PoolFileErrors, AreOneLineWhateverFollowsABackslash) {
  for (int c = 1; c < 256; c++) {
    const std::string problem =
        Problem(std::string("switch: {interfaces: [\"a\\") + static_cast<char>(c) + "\\\n\"]}\n");
    if (!problem.starts_with("pool.yaml:1: expected YAML")) continue;
    EXPECT_TRUE(std::all_of(problem.begin(), problem.end(), [](char k) { return k >= 0x20 && k < 0x7f; }))
        << "character " << c << ": " << problem;
  }
}

}  // namespace
}  // namespace spillway::model
