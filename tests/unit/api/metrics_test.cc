// SPDX-License-Identifier: Apache-2.0
#include "api/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "fake_switch.h"

namespace spillway::api {
namespace {

// What a scraper makes of the text: samples by "name{labels}", types by name.
struct Scrape {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
};

// A reader of its own for the Prometheus text format; strict about lines it does not know.
Scrape Parse(const std::string& text) {
  static const std::regex kType(R"(# TYPE ([a-z_]+) (counter|gauge))");
  static const std::regex kHelp(R"(# HELP ([a-z_]+) .+)");
  static const std::regex kSample(
      R"re(([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? (\S+))re");
  Scrape scrape;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, kType)) {
      EXPECT_TRUE(scrape.types.emplace(match[1], match[2]).second) << "two families: " << line;
    } else if (std::regex_match(line, match, kSample)) {
      EXPECT_TRUE(scrape.samples.emplace(match[1].str() + match[2].str(), std::stod(match[3])).second)
          << "twice: " << line;
      EXPECT_TRUE(scrape.types.contains(match[1])) << "no type: " << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, kHelp)) << "not understood: " << line;
    }
  }
  return scrape;
}

Snapshot Take(const testing::FakeSwitch& fake) {
  return {.version = "1.2.3",
          .instance = "blue",
          .interfaces = fake.Interfaces(),
          .units = fake.Units(),
          .services = fake.Services(),
          .flow_table = fake.FlowTable(),
          .counters = fake.Counters()};
}

const char* const kNic = R"({pool="rack1",server="s1",unit="nic",kind="smartnic")";

TEST(Metrics, EveryDataPlaneCounterIsACounter) {
  testing::FakeSwitch fake(testing::PoolConfig());
  double next = 1;
#define SPW_PUT(field, help) fake.counters.field = static_cast<__u64>(next++);
  SPW_COUNTERS(SPW_PUT)
#undef SPW_PUT
  const Scrape scrape = Parse(MetricsText(Take(fake)));
  next = 1;
#define SPW_PUT(field, help)                                         \
  EXPECT_EQ(scrape.samples.at("spillway_" #field "_total"), next++); \
  EXPECT_EQ(scrape.types.at("spillway_" #field "_total"), "counter");
  SPW_COUNTERS(SPW_PUT)
#undef SPW_PUT
}

TEST(Metrics, UnitsAreInBaseUnits) {
  testing::FakeSwitch fake(testing::PoolConfig());
  fake.status["rack1/s1/nic"] = SPW_UNIT_DRAINING;
  fake.touch_up = [](switching::UnitView& unit) {
    if (unit.unit != "nic") return;
    unit.silent = false;
    unit.busy = true;
    unit.level = 192;
    unit.queue = 17;
    unit.latency_us = 2500;
    unit.base_us = 3100;
    unit.slot_ns = 436'000;
    unit.report_age_ms = 250;
    unit.packets = 9;
    unit.bytes = 900;
    unit.new_flows = 4;
    unit.health.failing = true;
  };
  auto samples = Parse(MetricsText(Take(fake))).samples;
  const auto nic = [&samples](const std::string& name) { return samples.at(name + kNic + "}"); };
  EXPECT_EQ(nic("spillway_unit_up"), 0);
  EXPECT_EQ(nic("spillway_unit_silent"), 0);
  EXPECT_EQ(nic("spillway_unit_busy"), 1);
  EXPECT_EQ(nic("spillway_unit_failing"), 1);
  EXPECT_EQ(nic("spillway_unit_taken_out"), 0);
  EXPECT_EQ(nic("spillway_unit_level_ratio"), 1.5);
  EXPECT_EQ(nic("spillway_unit_queue_requests"), 17);
  EXPECT_EQ(nic("spillway_unit_latency_seconds"), 0.0025);
  EXPECT_EQ(nic("spillway_unit_base_seconds"), 0.0031);
  EXPECT_EQ(nic("spillway_unit_slot_seconds"), 0.000436);
  EXPECT_EQ(nic("spillway_unit_report_age_seconds"), 0.25);
  EXPECT_EQ(nic("spillway_unit_packets_total"), 9);
  EXPECT_EQ(nic("spillway_unit_bytes_total"), 900);
  EXPECT_EQ(nic("spillway_unit_new_flows_total"), 4);
  EXPECT_EQ(samples.at(std::string("spillway_unit_status") + kNic + R"(,status="draining"})"), 1);
  EXPECT_EQ(samples.at(std::string("spillway_unit_status") + kNic + R"(,status="up"})"), 0);
}

TEST(Metrics, AUnitThatNeverReportedHasNoReportAge) {
  const testing::FakeSwitch fake(testing::PoolConfig());
  const Scrape scrape = Parse(MetricsText(Take(fake)));
  EXPECT_FALSE(scrape.samples.contains(std::string("spillway_unit_report_age_seconds") + kNic + "}"));
  EXPECT_FALSE(scrape.samples.contains(std::string("spillway_unit_base_seconds") + kNic + "}"));
  EXPECT_FALSE(scrape.samples.contains(std::string("spillway_unit_slot_seconds") + kNic + "}"));
  EXPECT_EQ(scrape.samples.at(std::string("spillway_unit_silent") + kNic + "}"), 1);
}

TEST(Metrics, AFailingUnitHasItsReasonAndSinceWhenAndTheOthersDoNot) {
  testing::FakeSwitch fake(testing::PoolConfig());
  fake.touch_up = [](switching::UnitView& unit) {
    if (unit.unit == "nic")
      unit.health = {.failing = true,
                     .reason = switching::FailingReason::kRefused,
                     .kept = switching::KeptFor::kChecks,
                     .failing_ms = 2500};
  };
  const auto samples = Parse(MetricsText(Take(fake))).samples;
  EXPECT_EQ(samples.at(std::string("spillway_unit_failing_seconds") + kNic + R"(,reason="refused"})"), 2.5);
  EXPECT_EQ(samples.at(std::string("spillway_unit_excused") + kNic + "}"), 1);
  EXPECT_EQ(samples.at(R"(spillway_unit_excused{pool="rack1",server="s1",unit="cpu",kind="cpu"})"), 0);
  EXPECT_EQ(std::count_if(samples.begin(), samples.end(),
                          [](const auto& s) { return s.first.starts_with("spillway_unit_failing_seconds"); }),
            1);
}

TEST(Metrics, AFailingCheckHasItsReasonWhileItFails) {
  Snapshot snapshot;
  health::CheckView check;
  check.service = "dns", check.pool = "rack1", check.server = "s1", check.unit = "nic";
  check.reason = "status \"500\"\n\xff";
  snapshot.checks = {check, check, check};
  snapshot.checks[0].state = health::CheckState::kFailing;
  snapshot.checks[1].unit = "cpu";
  snapshot.checks[1].state = health::CheckState::kUp;
  snapshot.checks[2].unit = "gpu";
  const auto samples = Parse(MetricsText(snapshot)).samples;
  EXPECT_EQ(samples.at(R"(spillway_check_failing_info{service="dns",pool="rack1",server="s1",unit="nic",)"
                       R"(reason="status \"500\"\\x0a\\xff"})"),
            1);
  EXPECT_EQ(std::count_if(samples.begin(), samples.end(),
                          [](const auto& s) { return s.first.starts_with("spillway_check_failing_info"); }),
            1);
}

TEST(Metrics, ServicesAndTheFlowTableAreThere) {
  const testing::FakeSwitch fake(testing::PoolConfig());
  const Scrape scrape = Parse(MetricsText(Take(fake)));
  const std::string dns = R"({service="dns",pool="rack1"})";
  EXPECT_EQ(scrape.samples.at("spillway_service_packets_total" + dns), 11);
  EXPECT_EQ(scrape.samples.at("spillway_service_slots_moved" + dns), 2);
  EXPECT_EQ(scrape.samples.at("spillway_flow_table_capacity_entries"), 65536);
  EXPECT_EQ(scrape.samples.at("spillway_flow_table_used_entries"), 1024);
  EXPECT_EQ(scrape.samples.at(R"(spillway_interface_native{interface="veth0"})"), 0);
}

TEST(Metrics, NamesFollowTheConventions) {
  for (const auto& [name, type] :
       Parse(MetricsText(Take(testing::FakeSwitch(testing::PoolConfig())))).types) {
    EXPECT_TRUE(name.starts_with("spillway_")) << name;
    EXPECT_EQ(name.ends_with("_total"), type == "counter") << name;
  }
}

// The page's meaning begins with the metric's own help, and may go on; the data plane's counters have no
// column of types.
TEST(Metrics, ThePageListsEachAndNoOtherWithItsTypeAndHelp) {
  std::ifstream page(METRICS_PAGE);
  std::map<std::string, std::pair<std::string, std::string>> listed;  // name -> type, meaning
  static const std::regex kRow("\\| `(spillway_[a-z_]+)` \\| (?:(gauge|counter) \\| )?(.*) \\|");
  std::smatch row;
  for (std::string line; std::getline(page, line);)
    if (std::regex_match(line, row, kRow))
      listed[row[1]] = {row[2].matched ? row[2].str() : "counter", row[3]};
  for (const auto& family : Families(Take(testing::FakeSwitch(testing::PoolConfig())))) {
    const auto found = listed.find(family.name);
    ASSERT_NE(found, listed.end()) << family.name;
    EXPECT_EQ(found->second.first == "counter", family.type == prometheus::MetricType::Counter)
        << family.name;
    EXPECT_TRUE(found->second.second.starts_with(family.help)) << family.name << ": " << family.help;
    listed.erase(found);
  }
  EXPECT_THAT(listed, ::testing::IsEmpty());
}

TEST(Metrics, LabelsAreEscaped) {
  Snapshot snapshot;
  snapshot.instance = "a\"b\\c\nd";
  const Scrape scrape = Parse(MetricsText(snapshot));
  EXPECT_TRUE(scrape.samples.contains(R"(spillway_build_info{version="",instance_name="a\"b\\c\nd"})"));
}

}  // namespace
}  // namespace spillway::api
