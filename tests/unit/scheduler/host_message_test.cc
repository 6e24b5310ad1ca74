// SPDX-License-Identifier: Apache-2.0
// What a node agent may say, whoever it is: names are printed, counts are added up.
#include "scheduler/controller/host_message.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace spillway::scheduler {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

json GpuText(const std::string& id) {
  return {{"id", id}, {"model", "A100-40"}, {"memory_mib", 40960}, {"can_divide", true}};
}

json Report() {
  return {{"agent", "7"},
          {"gpus", {GpuText("gpu0"), GpuText("gpu1")}},
          {"held", {{{"instance", 3}, {"failed", "exit code 1"}, {"slice_refused", false}}}},
          {"revision", 5},
          {"wait_ms", 300}};
}

std::string ProblemOf(const json& report) {
  const auto read = ParseHostReport(report.dump());
  if (read) return "";
  EXPECT_EQ(read.error().code, ErrorCode::kBadInput);
  return read.error().message;
}

TEST(HostReport, IsReadAsItWasWritten) {
  HostReport report{"7", {{"gpu0", "A100-40", 40960, true}, {"gpu1", "emulated", 0, false}}, {{3}}, 5, 300};
  report.held.push_back({4, true, true, "MIG: in use"});
  const auto read = ParseHostReport(ToText(report));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->gpus, report.gpus);
  EXPECT_EQ(ToText(*read), ToText(report));
  EXPECT_EQ(ProblemOf(Report()), "");
}

TEST(HostReport, SaysWhyAGpuIsLostInWordsThatCanBePrinted) {
  HostReport report{"7", {{"gpu0", "A100-40", 40960, true, "it fell off the bus"}}, {}, 5, 300};
  EXPECT_EQ(ParseHostReport(ToText(report))->gpus, report.gpus);
  report.gpus[0].lost = "\x1b[2J" + std::string(1000, 'x');
  const auto read = ParseHostReport(ToText(report));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->gpus[0].lost, StartsWith(" [2Jxxx"));
  EXPECT_EQ(read->gpus[0].lost.size(), kMaxGpuWords);
}

TEST(HostReport, ProgramsAreNamesAndOfOldNodeAgentsNone) {
  EXPECT_TRUE(ParseHostReport(Report().dump())->programs.empty());
  json report = Report();
  report["programs"] = {"resnet", "bert"};
  const auto read = ParseHostReport(report.dump());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->programs, testing::ElementsAre("bert", "resnet"));
  EXPECT_EQ(ParseHostReport(ToText(*read))->programs, read->programs);
  for (const json& bad : {json("resnet"), json({7}), json({"a\nb"}), json({"../x"}),
                          json(std::vector<std::string>(kMaxProgramsOfHost + 1, "a"))}) {
    report["programs"] = bad;
    EXPECT_THAT(ProblemOf(report), StartsWith("programs: expected")) << bad;
  }
}

TEST(HostReport, GpusHaveNamesThatCanBePrintedAndToldApart) {
  const std::string control = std::string("\xc2\x9b") + "2J";
  for (const std::string& id : {std::string(), std::string("a\nb"), std::string("\x1b[2J"),
                                std::string("a/b"), control, std::string("-a")}) {
    json report = Report();
    report["gpus"][1]["id"] = id;
    EXPECT_THAT(ProblemOf(report), StartsWith("gpus[1].id: expected 1 to 32 letters")) << json(id);
  }
  json report = Report();
  report["gpus"][1]["id"] = "gpu0";
  EXPECT_THAT(ProblemOf(report), HasSubstr("gpus[1].id: duplicate name"));
  report["gpus"][1]["id"] = std::string(33, 'g');
  EXPECT_THAT(ProblemOf(report), HasSubstr("1 to 32 letters"));
  report["gpus"][1]["id"] = std::string(32, 'g');
  EXPECT_EQ(ProblemOf(report), "");
  report["gpus"][1]["model"] = "A100\n";
  EXPECT_THAT(ProblemOf(report), StartsWith("gpus[1].model: expected"));
}

TEST(HostReport, NumbersAreWholeAndNotNegative) {
  for (const char* number : {"-1", "-1e300", "1e300", "0.5", "4294967296", "\"7\"", "null"}) {
    json report = Report();
    report["gpus"][0]["memory_mib"] = json::parse(number);
    EXPECT_THAT(ProblemOf(report), StartsWith("memory_mib: expected a whole number from 0")) << number;
  }
  for (const char* key : {"revision", "wait_ms"})
    for (const char* number : {"-1", "1e300", "0.5"}) {
      json report = Report();
      report[key] = json::parse(number);
      EXPECT_THAT(ProblemOf(report), StartsWith(std::string(key) + ": expected a whole number")) << number;
    }
  json report = Report();
  report["held"][0]["instance"] = -3;
  EXPECT_THAT(ProblemOf(report), StartsWith("instance: expected a whole number"));
}

TEST(HostReport, AHostHasOnlySoManyGpus) {
  json report = Report();
  report["gpus"] = json::array();
  for (int g = 0; g < 64; ++g) report["gpus"].push_back(GpuText(fmt::format("g{}", g)));
  EXPECT_EQ(ProblemOf(report), "");
  report["gpus"].push_back(GpuText("one-more"));
  EXPECT_EQ(ProblemOf(report), "gpus: expected a list of at most 64");
  report["gpus"] = {{"a", GpuText("a")}};
  EXPECT_EQ(ProblemOf(report), "gpus: expected a list of at most 64");
}

TEST(HostReport, AnExecutorsLastWordsCannotSteerATerminal) {
  json report = Report();
  report["held"][0]["failed"] = "no\x1b[2J room\n\x7f for \xc2\x9bJ \xc3\xa4\xe2\x82\xac\t!";
  const auto read = ParseHostReport(report.dump());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->held[0].why, "no [2J room   for   J \xc3\xa4\xe2\x82\xac !");
}

TEST(HostReport, AHostHoldsOnlySoManyInstancesAndItsExecutorsSayOnlySoMuch) {
  json report = Report();
  report["held"][0]["failed"] = std::string(1'000'000, 'x');
  const auto read = ParseHostReport(report.dump());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->held[0].why.size(), 4096u);
  report["held"] = json::array();
  for (int i = 0; i < 4096; ++i) report["held"].push_back({{"instance", i}});
  EXPECT_EQ(ProblemOf(report), "");
  report["held"].push_back({{"instance", 4096}});
  EXPECT_EQ(ProblemOf(report), "held: expected a list of at most 4096");
}

// The controller's state file and its answers are JSON, which holds no half a character.
TEST(HostReport, LastWordsAreCutBetweenCharacters) {
  for (const std::string character : {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    for (size_t before = 4092; before <= 4096; ++before) {
      json report = Report();
      report["held"][0]["failed"] = std::string(before, 'x') + character;
      const auto read = ParseHostReport(report.dump());
      ASSERT_TRUE(read);
      const std::string& why = read->held[0].why;
      EXPECT_EQ(why.size(), before + character.size() <= 4096 ? before + character.size() : before);
      EXPECT_NO_THROW((void)json(why).dump()) << before;
    }
}

TEST(HostOrders, HaveNamesThatMayBeLogged) {
  WantedInstance one{7, {}, {"h", "gpu0"}};
  one.model.name = "m";
  ASSERT_TRUE(ParseHostOrders(ToText(HostOrders{1, {one}})));
  for (const char* key :
       {"/instances/0/model/name", "/instances/0/model/host_program", "/instances/0/place/gpu"}) {
    json orders = json::parse(ToText(HostOrders{1, {one}}));
    orders[json::json_pointer(key)] = "a\nb";
    EXPECT_FALSE(ParseHostOrders(orders.dump())) << key;
  }
  json orders = json::parse(ToText(HostOrders{1, {one}}));
  orders["instances"][0]["instance"] = -1;
  EXPECT_FALSE(ParseHostOrders(orders.dump()));
}

TEST(HostOrders, NameOnlySoManyInstances) {
  WantedInstance one{7, {}, {"h", "gpu0"}};
  one.model.name = "m";
  json orders = json::parse(ToText(HostOrders{1, {one}}));
  EXPECT_TRUE(ParseHostOrders(orders.dump()));
  orders["instances"] = json::array();
  for (int i = 0; i < 4097; ++i) orders["instances"].push_back(json::parse(ToText(one)));
  const auto read = ParseHostOrders(orders.dump());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "instances: expected a list of at most 4096");
}

}  // namespace
}  // namespace spillway::scheduler
