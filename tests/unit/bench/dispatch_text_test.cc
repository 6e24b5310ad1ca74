// SPDX-License-Identifier: Apache-2.0
// What the benchmark of the dispatcher tells people.
#include "bench/dispatch/dispatch_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ordered_json Engine(const std::string& kind, double rate, double least, double most) {
  return {{"part", "engines"},
          {"engine", "native"},
          {"kind", kind},
          {"burst", 32},
          {"mevents_per_s", rate},
          {"mevents_per_s_min", least},
          {"mevents_per_s_max", most},
          {"ns_per_event", 1e3 / rate},
          {"enqueue_cycles", 66.25},
          {"cpu_s_per_mevent", 0.2},
          {"producer_cpu_s_per_mevent", 0.1},
          {"p50_us", 1.5},
          {"p99_us", 12.5},
          {"p999_us", 4444.5},
          {"running_p99_us", 7.5},
          {"running_p999_us", 8.5},
          {"interrupted_pct", 0.25},
          {"achieved", 1.0}};
}

ordered_json Guideline(const std::string& varied, size_t burst, double rate) {
  ordered_json row = Engine("atomic", rate, rate, rate);
  row["part"] = "guideline";
  row["burst"] = burst;
  row["varied"] = varied;
  row["light_p50_us"] = 0.5;
  row["light_p99_us"] = 2.5;
  row["light_running_p99_us"] = 2.5;
  return row;
}

ordered_json Energy(double cores) {
  return {{"part", "energy"},
          {"mevents_per_s", 100.0},
          {"baseline_w", 800.0},
          {"host_cores", cores},
          {"host_w", cores / 64 * 800},
          {"nic_share_pct", 25.0},
          {"nic_w", 37.5},
          {"saving_pct", 100 * (cores / 64 - 37.5 / 800)},
          {"saving_if_nic_idle_pct", 100 * cores / 64},
          {"cores_freed_for_10_pct", 12.0}};
}

report::Document Calm() {
  report::Document document("dispatch");
  document.AddRow(Engine("atomic", 10, 9, 11));
  for (const auto& [burst, rate] : {std::pair{2, 4.0}, {8, 7.0}, {16, 9.5}, {64, 10.2}})
    document.AddRow(Guideline("burst " + std::to_string(burst), static_cast<size_t>(burst), rate));
  document.AddRow(Guideline("4 shards", 32, 7.5));
  document.AddRow(Guideline("deadline", 32, 9.8));
  document.SetRatio("native_atomic_over_rte_ring_spsc", 0.5);
  return document;
}

TEST(DispatchText, HasTheColumnsThatOneLooksAtInWords) {
  report::Document document = Calm();
  document.AddRow(Engine("two-stage", 123.456, 111.111, 133.333));
  const std::string text = DispatchText(document);
  EXPECT_THAT(text, AllOf(HasSubstr("Mevents/s  of the rounds "), HasSubstr("10.00  9.00 to 11.00 "),
                          HasSubstr("CPU us/event\n"), HasSubstr("native_atomic_over_rte_ring_spsc")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("mevents_per_s")), Not(HasSubstr("4444")), Not(HasSubstr("66.25"))));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110u) << line;
}

TEST(DispatchText, GuidelinesComeToAnAdvice) {
  EXPECT_THAT(
      DispatchText(Calm()),
      HasSubstr("On this machine bursts of 16 do, with 93 % of the best rate; slower by a tenth or more: "
                "4 shards (25 %).\n"));
  report::Document no_base("dispatch");
  no_base.AddRow(Guideline("4 shards", 32, 7.5));
  EXPECT_THAT(DispatchText(no_base), Not(HasSubstr("On this machine")));
}

TEST(DispatchText, SaysThatRoundsScatter) {
  report::Document document = Calm();
  EXPECT_THAT(DispatchText(document), Not(HasSubstr("scatter")));
  document.AddRow(Engine("ordered", 5, 2, 9));
  EXPECT_THAT(DispatchText(document),
              HasSubstr("\nfigures scatter by up to 4.5x: another program uses the CPUs; "
                        "measure on an idle machine\n"));
}

TEST(DispatchText, ARoundWithoutAnEventScattersToo) {
  report::Document document = Calm();
  document.AddRow(Engine("ordered", 5, 0, 9));
  EXPECT_THAT(DispatchText(document), HasSubstr("figures scatter by more than 100x"));
}

TEST(DispatchText, ASavingOfMoreThanTheHostIsNone) {
  report::Document document = Calm();
  document.AddRow(Energy(8));
  EXPECT_THAT(DispatchText(document), AllOf(HasSubstr("8.0 of the host's cores, 100 W"),
                                            HasSubstr("The SmartNIC saves 7.8 % of the host's 800 W.\n")));
  report::Document slow = Calm();
  slow.AddRow(Energy(100));
  EXPECT_THAT(DispatchText(slow), AllOf(HasSubstr("The whole host has 64 cores and 800 W"),
                                        HasSubstr("no saving.\n"), Not(HasSubstr("saves"))));
}

TEST(DispatchText, ShowsHowSeveralThreadsScale) {
  report::Document document("dispatch");
  ordered_json row = {{"part", "scaling"},        {"engine", "native"},   {"kind", "atomic"},
                      {"producers", 1},           {"workers", 2},         {"burst", 4},
                      {"service_ns", 500},        {"mevents_per_s", 3.8}, {"mevents_per_s_min", 3.7},
                      {"mevents_per_s_max", 3.9}, {"of_ideal", 0.95}};
  document.AddRow(row);
  EXPECT_THAT(DispatchText(document),
              AllOf(HasSubstr("Several threads:"), HasSubstr("3.80  3.70 to 3.90"), HasSubstr("0.95")));
}

}  // namespace
}  // namespace spillway::bench
