// SPDX-License-Identifier: Apache-2.0
#include "lab/load/options.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "lab/load/udp_flows.h"

namespace spillway::load {
namespace {

Options Parse(const std::string& line) {
  CLI::App app;
  Options options;
  AddOptions(app, options);
  app.parse(line);
  return options;
}

const std::string kTo = "--target 127.0.0.1:53 ";

TEST(Options, FillEverySetting) {
  const Options o = Parse(
      "--target [::1]:80 --protocol tcp --rate 2500.5 --arrivals constant --duration 3s --warmup 100ms "
      "--timeout "
      "250ms --flow-per-request --source ::1 --source ::2 --source-ports 20000-20009 --reset-close --payload "
      "1000 "
      "--cost 500 --seed 9 --interval 1s --samples out.csv --samples-format csv --quiet --realtime");
  const Settings& s = o.settings;
  EXPECT_EQ(s.target.Text(), "[::1]:80");
  EXPECT_EQ(s.protocol, Protocol::kTcp);
  EXPECT_EQ(s.rate, 2500.5);
  EXPECT_EQ(s.arrivals, Process::kConstant);
  EXPECT_EQ(s.duration, std::chrono::seconds(3));
  EXPECT_EQ(s.warmup, std::chrono::milliseconds(100));
  EXPECT_EQ(s.timeout, std::chrono::milliseconds(250));
  EXPECT_TRUE(s.flow_per_request && s.reset_close && o.quiet && o.samples_csv && o.realtime);
  EXPECT_EQ(s.sources.size(), 2u);
  EXPECT_EQ(s.source_ports->low, 20000);
  EXPECT_EQ(s.source_ports->high, 20009);
  EXPECT_EQ(s.payload_bytes, 1000u);
  EXPECT_EQ(s.cost_milli, 500u);
  EXPECT_EQ(s.seed, 9u);
  EXPECT_EQ(s.interval, std::chrono::seconds(1));
  EXPECT_EQ(o.samples_path, "out.csv");
}

TEST(Options, AreCheckedOneByOneAndTogether) {
  for (const char* bad : {"--rate 0",
                          "--rate x",
                          "--protocol icmp",
                          "--duration 0",
                          "--timeout 0",
                          "--source-ports 5",
                          "--source-ports 9-5",
                          "--source-ports 0-5",
                          "--source-ports 1-70000",
                          "--source nowhere",
                          "--source ::1",
                          "--payload 70000",
                          "--payload -1",
                          "--reset-close",
                          "--protocol tcp --flow-per-request --flows 3",
                          "--protocol https",
                          "--protocol http --flow-per-request --payload 5",
                          "--protocol http --flow-per-request --path x",
                          "--flows 11 --source-ports 20000-20009",
                          "--rate 10000000 --duration 100s",
                          "--samples-format xml",
                          "surplus"})
    EXPECT_THROW(Parse(kTo + bad), CLI::ParseError) << bad;
  EXPECT_THROW(Parse(""), CLI::ParseError);
  EXPECT_NO_THROW(Parse(kTo + "--protocol tcp --payload 1048576"));
  EXPECT_NO_THROW(Parse(kTo + "--protocol https --flow-per-request --path /100k"));
}

TEST(Sources, GoThroughAddressesThenPortsAndBeginAgain) {
  const Settings s = Parse(kTo + "--source 127.0.0.1 --source 127.0.0.2 --source-ports 100-101").settings;
  std::string order;
  for (std::size_t i = 0; i < 5; ++i) order += SourceOf(s, i)->Text() + " ";
  EXPECT_EQ(order, "127.0.0.1:100 127.0.0.2:100 127.0.0.1:101 127.0.0.2:101 127.0.0.1:100 ");
  EXPECT_FALSE(SourceOf(Parse(kTo).settings, 0).has_value());
}

TEST(Flows, AreAsManyAsTheRunNeedsWithinLimits) {
  EXPECT_EQ(FlowsWanted(Parse(kTo).settings), 64u);
  EXPECT_EQ(FlowsWanted(Parse(kTo + "--flows 3").settings), 3u);
  EXPECT_EQ(FlowsWanted(Parse(kTo + "--flow-per-request --source-ports 20000-20099").settings), 100u);
  EXPECT_EQ(FlowsWanted(Parse(kTo + "--flow-per-request --rate 1e6").settings), 16384u);
  EXPECT_GE(FlowsWanted(Parse(kTo + "--flow-per-request --rate 10 --duration 1s").settings), 11u);
}

}  // namespace
}  // namespace spillway::load
