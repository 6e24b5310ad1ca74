// SPDX-License-Identifier: Apache-2.0
// Real servers behind the VIP and real clients before it: nsd and dnsperf, nginx and curl; both modes, both
// IP versions.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <regex>

#include "bed.h"
#include "cases.h"

namespace spillway::e2e {
namespace {

using testing::HasSubstr;

constexpr const char* kModes[] = {"nat", "dsr"};

class DnsThroughTheVip : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("nsd", "dnsperf");
    lab::TestbedSpec spec =
        TwoModes("dns", GetParam(), {{model::Protocol::kUdp, 53}, {model::Protocol::kTcp, 53}});
    for (lab::ServiceSpec& service : spec.services) service.affinity = SPW_AFFINITY_NONE;
    for (const char* server : {"s1", "s2"})
      spec.servers.push_back(
          ServerOf(server, {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}, lab::Workload::kNsd));
    bed_ = beds_.Get(spec);
    ASSERT_NE(bed_, nullptr) << beds_.error();
  }
  static void TearDownTestSuite() { beds_.Clear(); }

  // Every query of the file once, answered without error.
  void ExpectAllAnswered(const std::string& service, const std::string& transport) {
    const Ran ran =
        bed_->InClient({"dnsperf", "-s", bed_->vip(service), "-d", bed_->plan().folder + "/queries.txt", "-m",
                        transport, "-n", "3", "-c", "8", "-q", "50", "-t", "5"});
    SCOPED_TRACE(service + " over " + transport + "\n" + ran.out + ran.err);
    EXPECT_EQ(ran.exit, 0);
    EXPECT_TRUE(std::regex_search(ran.out, std::regex("Queries sent: +3000\n")));
    EXPECT_TRUE(std::regex_search(ran.out, std::regex("Queries completed: +3000 \\(100.00%\\)")));
    EXPECT_TRUE(std::regex_search(ran.out, std::regex("Response codes: +NOERROR 3000 \\(100.00%\\)")));
  }

  static inline SharedBeds beds_;
  Bed* bed_ = nullptr;
};

TEST_P(DnsThroughTheVip, EveryQueryIsAnsweredOverUdpWithoutAffinity) {
  for (const char* mode : kModes) ExpectAllAnswered(mode, "udp");
  // Without affinity each query is placed by itself, so all units share eight sockets' worth of them.
  for (const auto& unit : bed_->Show("units"))
    EXPECT_GT(unit.at("packets").get<uint64_t>(), 0u) << unit.dump();
  EXPECT_EQ(bed_->Show("flow-table").at("used"), 0u);
}

TEST_P(DnsThroughTheVip, EveryQueryIsAnsweredOverTcp) {
  for (const char* mode : kModes) ExpectAllAnswered(mode, "tcp");
}

INSTANTIATE_TEST_SUITE_P(Ip, DnsThroughTheVip, testing::Values(4, 6), FamilyName);

class WebThroughTheVip : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("nginx", "curl", "sha256sum");
    lab::TestbedSpec spec = TwoModes("web", GetParam(), {{model::Protocol::kTcp, 80}});
    for (const char* server : {"s1", "s2"})
      spec.servers.push_back(
          ServerOf(server, {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}, lab::Workload::kNginx));
    bed_ = beds_.Get(spec);
    ASSERT_NE(bed_, nullptr) << beds_.error();
  }
  static void TearDownTestSuite() { beds_.Clear(); }

  std::string Sum(const std::string& path) { return bed_->Run({"sha256sum", path}).out.substr(0, 64); }
  std::string Folder() const { return bed_->plan().folder; }

  static inline SharedBeds beds_;
  Bed* bed_ = nullptr;
};

TEST_P(WebThroughTheVip, BodiesOfAMegabyteArriveWhole) {
  const std::string expected = Sum(Folder() + "/www/1m");
  ASSERT_EQ(expected.size(), 64u);
  for (const char* mode : kModes)
    for (int i = 0; i < 8; i++) {
      const std::string to = fmt::format("{}/got-{}-{}", Folder(), mode, i);
      const Ran ran = bed_->InClient(
          {"curl", "-sS", "--fail", "--max-time", "20", "-o", to, bed_->Url(mode, 80) + "/1m"});
      ASSERT_EQ(ran.exit, 0) << mode << ": " << ran.err;
      EXPECT_EQ(Sum(to), expected) << mode;
    }
}

TEST_P(WebThroughTheVip, RequestsOfOneConnectionMeetOneUnit) {
  for (const char* mode : kModes) {
    std::vector<std::string> argv{"curl", "-sS", "--fail", "--max-time", "20", "-w", "%{num_connects} "};
    for (int i = 0; i < 20; i++) argv.push_back(bed_->Url(mode, 80) + "/unit");
    const Ran ran = bed_->InClient(argv);
    ASSERT_EQ(ran.exit, 0) << mode << ": " << ran.err;
    // Each answer is "UNIT\n", then the number of connections that the request had to open.
    std::istringstream words(ran.out);
    std::string first, unit;
    int connects = 0, total = 0, answers = 0;
    while (words >> unit >> connects) {
      if (first.empty()) first = unit;
      EXPECT_EQ(unit, first) << mode;
      total += connects;
      answers++;
    }
    EXPECT_EQ(answers, 20) << ran.out;
    EXPECT_EQ(total, 1) << ran.out;
  }
}

TEST_P(WebThroughTheVip, FiftyParallelConnectionsAreAllServed) {
  const std::string expected = Sum(Folder() + "/www/100k");
  for (const char* mode : kModes) {
    const Ran ran =
        bed_->InClient({"curl", "-sS", "--fail", "--max-time", "30", "--parallel", "--parallel-immediate",
                        "--parallel-max", "50", "--http1.1", "-o", fmt::format("{}/{}-#1", Folder(), mode),
                        "-w", "%{http_code} %{num_connects}\n", bed_->Url(mode, 80) + "/100k?[1-50]"});
    ASSERT_EQ(ran.exit, 0) << mode << ": " << ran.err;
    std::istringstream lines(ran.out);
    int served = 0, code = 0, connects = 0, connections = 0;
    while (lines >> code >> connects) {
      EXPECT_EQ(code, 200);
      connections += connects;
      served++;
    }
    EXPECT_EQ(served, 50) << mode << ": " << ran.out;
    EXPECT_GT(connections, 25) << mode << ": requests were to run in parallel";
    for (int i = 1; i <= 50; i++) EXPECT_EQ(Sum(fmt::format("{}/{}-{}", Folder(), mode, i)), expected);
  }
  // New connections are spread: with 100 on four units of equal shares, none is left out.
  for (const auto& unit : bed_->Show("units"))
    EXPECT_GT(unit.at("new_flows").get<uint64_t>(), 0u) << unit.dump();
}

INSTANTIATE_TEST_SUITE_P(Ip, WebThroughTheVip, testing::Values(4, 6), FamilyName);

}  // namespace
}  // namespace spillway::e2e
