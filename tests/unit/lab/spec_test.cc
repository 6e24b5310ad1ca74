// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/testbed/spec_reader.h"

namespace spillway::lab {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& yaml) {
  model::Problems problems("lab.yaml");
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

TEST(TestbedFile, NamesThatMakeTooLongAnInterfaceAreRefused) {
  EXPECT_THAT(ErrorOf("name: t\nservices: []\nservers: [{name: long-server, units: [{name: smartnic}]}]\n"),
              HasSubstr("names an interface"));
}

TEST(TestbedFile, AnAddressOfTheOtherFamilyIsRefused) {
  EXPECT_THAT(ErrorOf(With(", address: \"2001:db8::1\"")), HasSubstr("expected an IPv4 address"));
}

}  // namespace
}  // namespace spillway::lab
