// SPDX-License-Identifier: Apache-2.0
// Options: values that no program may take.
#include "command/option_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "program.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

TEST(OptionChecks, KeepNumbersInTheirRange) {
  CLI::Validator whole = command::InRange(1, 1000), real = command::InRange(0.05, 3600.0);
  const auto judge = [](const CLI::Validator& validator, std::string text) { return validator(text); };
  EXPECT_EQ(judge(whole, "1"), "");
  EXPECT_EQ(judge(whole, "1000"), "");
  for (const char* text : {"0", "1001", "1.5", "nan", "x", ""})
    EXPECT_EQ(judge(whole, text), std::string("expected a whole number from 1 to 1000, got ") + text);
  EXPECT_EQ(judge(real, "0.05"), "");
  EXPECT_EQ(judge(real, "3.6e3"), "");
  for (const char* text : {"0.04", "3601", "nan", "-nan", "inf", "x"})
    EXPECT_EQ(judge(real, text), std::string("expected a number from 0.05 to 3600, got ") + text);
  const auto seed = command::InRange(uint64_t{0}, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(judge(seed, "18446744073709551615"), "");
  for (const char* text : {"18446744073709551616", "-1"})
    EXPECT_THAT(judge(seed, text), HasSubstr("from 0 to 18446744073709551615, got "));
  for (const char* text : {"0", "-1", "nan", "inf"})
    EXPECT_THAT(judge(command::Positive(), text), HasSubstr("expected a number greater than 0"));
  for (const char* text : {"-1", "nan", "inf"})
    EXPECT_THAT(judge(command::NonNegative(), text), HasSubstr("expected a number from 0 on"));
  EXPECT_EQ(judge(command::NonNegative(), "0"), "");
  EXPECT_THAT(judge(command::NonNegative<int>(), "1.5"), HasSubstr("expected a whole number from 0 on"));
}

TEST(OptionChecks, RefuseWhatIsNotANumberInEveryProgram) {
  const std::vector<std::string> kOptions[] = {
      {"spillway", "stats", "--watch", "--interval"},
      {"spillway", "top", "--interval"},
      {"spillway-sched", "replay", "--move-price"},
      {"spillway-plan", "search", "x.yaml", "--slo"},
      {"spillway-plan", "search", "x.yaml", "--max-cost"},
      {"spillway-plan", "search", "x.yaml", "--max-power"},
      {"spillway-plan", "explain", "x.yaml", "--phi"},
      {"spillway-plan", "simulate", "x.yaml", "--phi"},
      {"spillway-plan", "probe", "--price"},
      {"spillway-plan", "probe", "--power"},
      {"spillway-plan", "probe", "--network"},
      {"spillway-plan", "probe", "--core-speed"},
      {"spillway-bench", "dispatch", "--host-watts"},
      {"spillway-bench", "dispatch", "--host-cores"},
      {"spillway-bench", "dispatch", "--nic-watts"},
      {"spillway-bench", "dispatch", "--nic-throughput"},
      {"spillway-bench", "gateway", "--kernel-us"},
      {"spillway-lab", "compare", "x", "--loads"},
      {"spillway-lab", "compare", "x", "--seconds"},
      {"spillway-lab", "compare", "x", "--capacity"},
      {"spillway-lab", "kvs", "--dispatch-us"},
      {"spillway-lab", "kvs", "--steal-us"},
      {"spillway-load", "--target", "127.0.0.1:1", "--rate"},
      {"spillway-unit", "--listen", "127.0.0.1:0", "--cv"},
      {"spillway-compute", "--listen", "127.0.0.1:0", "synthetic", "--gflop"}};
  for (auto words : kOptions) {
    const std::string option = words.back();
    words[0] = PROGRAMS "/" + words[0];
    words.emplace_back("nan");
    const auto outcome = testing::RunProgram(words);
    EXPECT_EQ(outcome.exit_code, 2) << words[0] << " " << option << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option + ": expected a number"));
  }
}

TEST(OptionChecks, RefuseAnEmptyNameOfAFile) {
  const std::vector<std::string> kOptions[] = {{"spillway-sched", "replay", "--out"},
                                               {"spillway-sched", "replay", "--data"},
                                               {"spillway-sched", "replay", "--nodes"},
                                               {"spillway-sched", "replay", "--list"},
                                               {"spillway-sched", "replay", "--durations"},
                                               {"spillway-sched", "optimal", "--lp"},
                                               {"spillway-sim", "x.yaml", "--out"},
                                               {"spillway-plan", "compare", "x.yaml", "--out"},
                                               {"spillway-plan", "probe", "--out"},
                                               {"spillway-lab", "run", "x", "--out"},
                                               {"spillway-lab", "compare", "x", "--out"},
                                               {"spillway-lab", "paper", "--out"},
                                               {"spillway-lab", "gpus", "--out"},
                                               {"spillway-bench", "switch", "--out"},
                                               {"spillway-bench", "gateway", "--out"},
                                               {"spillway-load", "--target", "127.0.0.1:1", "--samples"},
                                               {"spillway-agent", "-c", "x.yaml", "--stats-json"},
                                               {"spillway-gateway", "-c", "x.yaml", "--report"}};
  for (auto words : kOptions) {
    const std::string option = words.back();
    words[0] = PROGRAMS "/" + words[0];
    words.emplace_back("");
    const auto outcome = testing::RunProgram(words);
    EXPECT_EQ(outcome.exit_code, 2) << words[0] << " " << option << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option + ": expected a name, got an empty one"));
  }
}

TEST(OptionChecks, ComplainInOurWords) {
  const std::tuple<std::vector<std::string>, std::string> kFaults[] = {
      {{"spillway", "show", "bogus"}, "WHAT: expected one of status, units, health, "},
      {{"spillway", "show", "bogus"}, ", got bogus"},
      {{"spillway", "show", "units", "--api"}, "--api: expected PATH"},
      {{"spillwayd", "-c", "x", "--bpffs", "a", "--bpffs", "b"}, "--bpffs: given 2 times"}};
  for (auto [words, expected] : kFaults) {
    words[0] = PROGRAMS "/" + words[0];
    const auto outcome = testing::RunProgram(words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(expected));
  }
}

TEST(OptionChecks, TakeOnlyPowersOfTwoForTheFlowTable) {
  for (const char* text : {"x", "3000", "99999999999999999999"}) {
    const auto outcome = testing::RunProgram({PROGRAMS "/spillway-bench", "switch", "--table-entries", text});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  }
}

}  // namespace
}  // namespace spillway
