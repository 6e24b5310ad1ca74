// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/testbed/spec_reader.h"

namespace spillway::lab {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& yaml) {
  yaml::Problems problems("lab.yaml");
  ReadTestbed(problems, {"", 1, YAML::Load(yaml)});
  return problems.none() ? "" : problems.ToError().message;
}

std::string With(const std::string& unit) {
  return "name: t\nservices:\n  - {name: dns, ports: [udp/53]}\nservers:\n  - name: s1\n    units:\n      - "
         "{name: cpu" +
         unit + "}\n";
}

TEST(TestbedFile, AWholeOneIsTaken) {
  EXPECT_EQ(ErrorOf(With(", runs: knot, cpu_quota: {quota: 1ms, period: 5ms}")), "");
}

TEST(TestbedFile, UnknownKeysAreToldWithTheirLine) {
  EXPECT_THAT(ErrorOf(With(", speed: 3")),
              HasSubstr("lab.yaml:7: servers[s1].units[cpu]: unknown key \"speed\""));
}

TEST(TestbedFile, AQuotaBelowWhatTheKernelTakesIsRefused) {
  EXPECT_THAT(ErrorOf(With(", cpu_quota: {quota: 500us, period: 5ms}")),
              HasSubstr("quota: expected a time from 1ms"));
}

TEST(TestbedFile, ANeighbourIsBusyForNoLongerThanItsCycle) {
  EXPECT_EQ(ErrorOf(With(", neighbour: {every: 5s, for: 1s}")), "");
  EXPECT_THAT(ErrorOf(With(", neighbour: {every: 1s, for: 5s}")),
              HasSubstr("neighbour.for: expected a time no longer than `every`"));
}

TEST(TestbedFile, NginxIsTakenWithAndWithoutTls) {
  EXPECT_EQ(ErrorOf(With(", runs: nginx")), "");
  EXPECT_EQ(ErrorOf(With(", runs: {nginx: {tls: true}}")), "");
  EXPECT_THAT(ErrorOf(With(", runs: {nginx: {ssl: true}}")), HasSubstr("unknown key \"ssl\""));
}

TEST(TestbedFile, NamesThatMakeTooLongAnInterfaceAreRefused) {
  EXPECT_THAT(ErrorOf("name: t\nservices: []\nservers: [{name: long-server, units: [{name: smartnic}]}]\n"),
              HasSubstr("names an interface"));
}

TEST(TestbedFile, AnAddressOfTheOtherFamilyIsRefused) {
  EXPECT_THAT(ErrorOf(With(", address: \"2001:db8::1\"")), HasSubstr("expected an IPv4 address"));
}

// A testbed with `balancer: nic`, a service of `service` and units of `units`.
std::string WithNicBalancer(const std::string& service, const std::string& units) {
  return "name: t\nbalancer: nic\nservices:\n  - {name: dns, " + service +
         "}\nservers:\n  - name: s1\n    units: [" + units + "]\n";
}

TEST(TestbedFile, ABalancerOnTheNicWantsANicAndAServiceThatItCanServe) {
  const std::string service = "ports: [udp/53], mode: nat",
                    units = "{name: cpu}, {name: nic, kind: smartnic}";
  EXPECT_EQ(ErrorOf(WithNicBalancer(service, units)), "");
  EXPECT_THAT(ErrorOf(WithNicBalancer("ports: [udp/53], mode: dsr-l2", units)),
              HasSubstr("lab.yaml:2: balancer: expected, for a balancer on the NIC, mode nat"));
  EXPECT_THAT(ErrorOf(WithNicBalancer("ports: [tcp/53, udp/53]", units)), HasSubstr("UDP ports only"));
  EXPECT_THAT(ErrorOf(WithNicBalancer(service, "{name: cpu}")), HasSubstr("a unit of kind smartnic in s1"));
  EXPECT_THAT(ErrorOf(WithNicBalancer(service, units + ", {name: front}")),
              HasSubstr("no unit of s1 to be called front"));
  EXPECT_THAT(ErrorOf("balancer: host\n" + With("")), HasSubstr("expected one of switch, nic"));
}

}  // namespace
}  // namespace spillway::lab
