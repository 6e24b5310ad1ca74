// SPDX-License-Identifier: Apache-2.0
// A testbed whose requests go through spillway-nic-balancer: for each family, answers come, both units get
// some, and the program survives what is no request.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/paths.h"
#include "base/signals.h"
#include "lab/testbed/netns.h"
#include "lab/testbed/testbed.h"

namespace spillway::lab {
namespace {

constexpr uint8_t kFront[6] = {0x02, 0x53, 0x50, 0x57, 0x00, 0x01};  // kFrontMac

TestbedSpec Spec(int family) {
  TestbedSpec spec;
  spec.name = "e2e-nic";
  spec.family = family;
  spec.services.resize(1);
  spec.services[0].name = "work";
  spec.services[0].ports = {{model::Protocol::kUdp, 7000}};
  spec.services[0].affinity = SPW_AFFINITY_NONE;
  spec.services[0].unit_policy = SPW_UNIT_WRR;
  UnitSpec cpu, nic;
  cpu.name = "cpu", nic.name = "nic";
  cpu.runs = nic.runs = Workload::kEmulated;
  cpu.emulated = nic.emulated = {4, Micros(100), 0, Micros(0)};
  nic.kind = SPW_KIND_SMARTNIC;
  spec.servers = {{"s1", {cpu, nic}}};
  spec.balancer = BalancerPlace::kNic;
  spec.nic_balancers = true;
  return spec;
}

class NicBalanced : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    auto up = Testbed::Up(Spec(GetParam()), {});
    ASSERT_TRUE(up) << up.error().message;
    testbed_ = std::move(*up);
  }

  // What the client saw, as spillway-load tells it.
  nlohmann::json Load() {
    const model::Address& vip = testbed_->plan().config.services[0].vip;
    StartOptions o;
    o.argv = {base::ProgramFolder() + "/spillway-load",
              "--target",
              GetParam() == 4 ? vip.ToString() + ":7000" : "[" + vip.ToString() + "]:7000",
              "--rate",
              "400",
              "--duration",
              "1s",
              "--quiet"};
    o.netns = testbed_->plan().client_netns;
    o.stdout_file = testbed_->plan().folder + "/client.out";
    auto status = Start(o).and_then([](const ProcessId& id) { return Wait(id); });
    EXPECT_TRUE(status && *status == 0);
    std::ifstream in(o.stdout_file);
    return nlohmann::json::parse(in);
  }

  // Frames to the front that no client would send, from the switch's end of the NIC's link.
  Result<void> SendGarbage() const {
    return Inside(testbed_->plan().switch_netns, [&]() -> Result<void> {
      const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
      sockaddr_ll to{};
      to.sll_family = AF_PACKET;
      to.sll_ifindex = static_cast<int>(if_nametoindex("s1-nic"));
      std::mt19937 random(1);
      bool good = fd >= 0;
      for (size_t length = 14; length < 1500; length++) {
        std::vector<uint8_t> frame(length);
        for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
        std::copy(std::begin(kFront), std::end(kFront), frame.begin());
        if (length % 3 != 0)
          frame[12] = length % 3 == 1 ? 0x08 : 0x86, frame[13] = length % 3 == 1 ? 0 : 0xdd;
        good = good && sendto(fd, frame.data(), length, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) > 0;
      }
      close(fd);
      if (good) return {};
      return Fail(ErrorCode::kSystem, "garbage was not sent");
    });
  }

  // The statistics of the balancer, which ends with this.
  nlohmann::json Stop() {
    const auto state = LoadState("e2e-nic");
    for (const RunningProcess& p : state->processes)
      if (p.label == "s1-nic.balancer") lab::Stop({p.id}, std::chrono::seconds(20));
    std::ifstream in(testbed_->plan().folder + "/s1-nic.balancer.log");
    std::string line, last;
    while (std::getline(in, line)) last = line;
    return nlohmann::json::parse(last, nullptr, false);
  }

  base::InterruptGuard guard_;
  std::unique_ptr<Testbed> testbed_;
};

TEST_P(NicBalanced, RequestsPassThroughItAndAreAnswered) {
  const auto seen = Load();
  const auto statistics = Stop();
  ASSERT_TRUE(statistics.is_object()) << "no statistics in its log";
  EXPECT_GT(seen["answered"].get<int>(), 0) << seen;
  EXPECT_GE(statistics["requests"], seen["answered"]) << "an answer without a request that passed through";
  EXPECT_GT(statistics["placed_cpu"].get<int>(), 0);
  EXPECT_GT(statistics["placed_nic"].get<int>(), 0);
  EXPECT_GT(statistics["reports_accepted"].get<int>(), 0);
  EXPECT_EQ(statistics["send_failed"], 0);
}

TEST_P(NicBalanced, SurvivesWhatIsNoRequest) {
  const auto sent = SendGarbage();
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_GT(Load()["answered"].get<int>(), 0);
  const auto statistics = Stop();
  ASSERT_TRUE(statistics.is_object()) << "no statistics in its log";
  EXPECT_GT(statistics["malformed"].get<int>(), 0);
  EXPECT_GT(statistics["foreign"].get<int>(), 0);
}

TEST_P(NicBalanced, BalancingGoesBackToTheSwitch) {
  const auto back = testbed_->Balance("work", SPW_SERVER_MAGLEV, SPW_UNIT_WRR, BalancerPlace::kSwitch);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_GT(Load()["answered"].get<int>(), 0) << "the balancer on the NIC has ended";
  EXPECT_THAT(testbed_->Dead(), testing::IsEmpty());
  EXPECT_THAT(testbed_->PacketsToUnits(), testing::ElementsAre(testing::Gt(0), testing::Gt(0)));
  for (const char* unit : {"s1-cpu", "s1-nic"})
    EXPECT_GT(testbed_->CpuTimeOf(unit).count(), 0) << unit << ", which has no quota";
}

INSTANTIATE_TEST_SUITE_P(Families, NicBalanced, testing::Values(4, 6));

}  // namespace
}  // namespace spillway::lab
