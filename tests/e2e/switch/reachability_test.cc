// SPDX-License-Identifier: Apache-2.0
// The way to a server is lost: its link, or the kernel's knowledge of its MAC address. New flows go where
// there is a way, whatever the ring says; established ones elsewhere do not notice.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "bed.h"
#include "cases.h"
#include "flow_set.h"
#include "lab/testbed/netns.h"

namespace spillway::e2e {
namespace {

constexpr size_t kFlows = 200;
constexpr uint64_t kFew = 5;

class Reachability : public testing::Test {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("ip");
    lab::TestbedSpec spec =
        TwoModes("reach", 4, {{model::Protocol::kTcp, kEchoPort}, {model::Protocol::kUdp, kEchoPort}});
    for (const char* server : {"s1", "s2"}) spec.servers.push_back(ServerOf(server, {{"cpu", SPW_KIND_CPU}}));
    auto bed = Bed::Up(spec);
    ASSERT_TRUE(bed) << bed.error().message;
    bed_ = std::move(*bed);
    const auto started = bed_->StartEchoes();
    ASSERT_TRUE(started) << started.error().message;
    flows_ = std::make_unique<FlowSet>(bed_->plan().client_netns);
    ASSERT_NO_FATAL_FAILURE(OpenFlows("the start"));
    ASSERT_GT(flows_->PerUnit()["s1-cpu"], 0u);
  }

  // Each is answered, and none of those that were open before has moved.
  void OpenFlows(const std::string& after) {
    SCOPED_TRACE("after: " + after);
    for (const model::Service& service : bed_->config().services) {
      flows_->Open(model::Protocol::kTcp, service.vip, kEchoPort, kFlows);
      flows_->Open(model::Protocol::kUdp, service.vip, kEchoPort, kFlows);
    }
    ASSERT_TRUE(flows_->AwaitProgress(kFew)) << flows_->Stuck() << flows_->Tally().example;
    const FlowTally tally = flows_->Tally();
    ASSERT_EQ(tally.moved, 0u) << tally.example;
    ASSERT_EQ(tally.broken, 0u) << tally.example;
  }
  void Ip(const std::string& netns, std::vector<std::string> words) {
    words.insert(words.begin(), {"ip", "-n", netns});
    const Ran ran = bed_->Run(words);
    ASSERT_EQ(ran.exit, 0) << ran.err;
  }
  bool IsResolved() { return bed_->Unit("s1", "cpu").at("resolved").get<bool>(); }
  double RingShare() { return bed_->Unit("s1", "cpu").at("ring_share").get<double>(); }

  std::unique_ptr<Bed> bed_;
  std::unique_ptr<FlowSet> flows_;
};

TEST_F(Reachability, WithALinkDownNoNewFlowIsLostAndTheRingFollows) {
  const std::string at_switch = bed_->plan().switch_netns;
  ASSERT_GT(flows_->Except("s1-cpu"), 0u);
  ASSERT_NO_FATAL_FAILURE(Ip(at_switch, {"link", "set", "s1-cpu", "down"}));
  ASSERT_TRUE(Eventually([&] { return !IsResolved(); }));
  ASSERT_NO_FATAL_FAILURE(OpenFlows("the link is down"));
  EXPECT_EQ(flows_->PerUnit()["s1-cpu"], 0u);
  EXPECT_GT(bed_->Counter("flows_diverted"), 0u);

  ASSERT_TRUE(Eventually([&] { return RingShare() == 0; })) << RingShare();
  const uint64_t diverted = bed_->Counter("flows_diverted");
  ASSERT_NO_FATAL_FAILURE(OpenFlows("the rings are laid anew"));
  EXPECT_EQ(bed_->Counter("flows_diverted"), diverted);

  ASSERT_NO_FATAL_FAILURE(Ip(at_switch, {"link", "set", "s1-cpu", "up"}));
  ASSERT_TRUE(Eventually([&] { return IsResolved() && RingShare() > 0.4; })) << RingShare();
  ASSERT_NO_FATAL_FAILURE(OpenFlows("the link is up again"));
  EXPECT_GT(flows_->PerUnit()["s1-cpu"], 0u);
}

TEST_F(Reachability, ALostNeighbourKeepsItsFlowsAndGetsNoMore) {
  const lab::UnitPlan& unit = bed_->plan().units[0];
  // Nobody answers for the unit's address any more. The unit itself need not ask for the switch's, by which
  // the switch would learn of it.
  std::string mac;
  const Ran links = bed_->Run({"ip", "-n", bed_->plan().switch_netns, "-br", "link", "show", "s1-cpu"});
  std::istringstream words(links.out);
  for (std::string word; words >> word;)
    if (word.size() == 17 && word[2] == ':') mac = word;
  const std::string gateway = bed_->plan().links[1].switch_v4;
  ASSERT_NO_FATAL_FAILURE(
      Ip(unit.netns, {"neigh", "replace", gateway, "lladdr", mac, "dev", "eth0", "nud", "permanent"}));
  ASSERT_TRUE(lab::Inside(unit.netns, []() -> Result<void> {
    std::ofstream("/proc/sys/net/ipv4/conf/eth0/arp_ignore") << 8;
    return {};
  }));
  const size_t before = flows_->PerUnit()["s1-cpu"];
  ASSERT_NO_FATAL_FAILURE(
      Ip(bed_->plan().switch_netns, {"neigh", "del", unit.address.ToString(), "dev", "s1-cpu"}));
  ASSERT_TRUE(Eventually([&] { return !IsResolved(); }));
  ASSERT_NO_FATAL_FAILURE(OpenFlows("the neighbour is lost"));
  EXPECT_EQ(flows_->PerUnit()["s1-cpu"], before);

  ASSERT_TRUE(lab::Inside(unit.netns, []() -> Result<void> {
    std::ofstream("/proc/sys/net/ipv4/conf/eth0/arp_ignore") << 1;
    return {};
  }));
  ASSERT_TRUE(Eventually([&] { return IsResolved() && RingShare() > 0.4; })) << RingShare();
  ASSERT_NO_FATAL_FAILURE(OpenFlows("it answers again"));
  EXPECT_GT(flows_->PerUnit()["s1-cpu"], before);
}

}  // namespace
}  // namespace spillway::e2e
