// SPDX-License-Identifier: Apache-2.0
// Interfaces that do to packets what the switch does not expect: found at the start, counted afterwards.
#include <fmt/format.h>
#include <linux/bpf.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "live_bed.h"
#include "switch/device_check.h"

namespace spillway::switching {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Devices : public LiveSwitchTest {
 protected:
  Devices() {
    Shell(
        "ip link add swt type veth peer name swtx && ip link set swt up && ip link set swtx up &&"
        "ip link add swd type veth peer name swdx && ip link set swd up && ip link set swdx up &&"
        "ip addr add 10.1.255.254/16 dev swd &&"
        "ip neigh add 10.1.0.1 lladdr 02:cc:00:01:00:01 dev swd nud permanent &&"
        "ethtool -K swtx tx off >/dev/null");
  }
  ~Devices() override { Shell("ip link del swt && ip link del swd && ethtool -K swax tx off >/dev/null"); }

  // What `spillway doctor` finds of the interface.
  static nlohmann::json Doctor(const std::string& interface, const std::string& feature = "interface ") {
    FILE* const out = popen((SPILLWAY " doctor --json " + interface).c_str(), "r");
    std::string text;
    char piece[4096];
    size_t got = 0;
    while ((got = fread(piece, 1, sizeof(piece), out)) > 0) text.append(piece, got);
    pclose(out);  // other findings may be bad ones
    const nlohmann::json said = nlohmann::json::parse(text);
    for (const nlohmann::json& finding : said["findings"])
      if (finding["feature"] == feature + interface) return finding;
    ADD_FAILURE() << text;
    return {};
  }
  // Sets the offload, which ethtool prints as `name`; false: this kernel's driver has it fixed.
  static bool Set(const std::string& interface, const std::string& key, const std::string& name, bool on) {
    return std::system(
               fmt::format("ethtool -K {0} {1} {2} >/dev/null 2>&1 && ethtool -k {0} | grep -q '^{3}: {2}$'",
                           interface, key, on ? "on" : "off", name)
                   .c_str()) == 0;
  }
};

TEST_F(Devices, APeerThatLeavesChecksumsToTheDeviceIsFound) {
  auto device = ReadDevice("swt");
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->driver, "veth");
  EXPECT_EQ(device->peer, "swtx");
  EXPECT_THAT(IngressProblems(*device), IsEmpty());
  Shell("ethtool -K swtx tx on >/dev/null");
  device = ReadDevice("swt");
  ASSERT_TRUE(device);
  EXPECT_THAT(
      IngressProblems(*device),
      ElementsAre(AllOf(HasSubstr("swt: packets from behind swtx, its veth peer, leave with wrong checksums"),
                        HasSubstr("ethtool -K swtx tx off"))));
}

TEST_F(Devices, DoctorSaysWhatToDoAboutThem) {
  // Else it is found that the driver takes no redirected packets.
  Shell("ethtool -K swtx gro on >/dev/null");
  nlohmann::json finding = Doctor("swt");
  EXPECT_EQ(finding["present"], true) << finding;
  EXPECT_THAT(finding["detail"].get<std::string>(), HasSubstr("driver veth"));
  Shell("ethtool -K swtx tx on >/dev/null");
  finding = Doctor("swt");
  EXPECT_EQ(finding["present"], false) << finding;
  EXPECT_THAT(finding["detail"].get<std::string>(), HasSubstr("ethtool -K swtx tx off"));
}

TEST_F(Devices, WhetherTheDeviceTakesOffVlanTagsIsTheKernelsWord) {
  for (const bool on : {false, true, false}) {
    if (!Set("swt", "rxvlan", "rx-vlan-offload", on)) GTEST_SKIP() << "this kernel's veth has rxvlan fixed";
    EXPECT_EQ(ReadDevice("swt")->strips_vlans, on);
  }
}

TEST_F(Devices, WhetherTheDeviceMergesPacketsIsTheKernelsWord) {
  if (std::system("ip link add swl type bond 2>/dev/null") != 0) GTEST_SKIP() << "this kernel has no bonds";
  for (const bool on : {false, true, false}) {
    if (!Set("swl", "lro", "large-receive-offload", on)) {
      Shell("ip link del swl");
      GTEST_SKIP() << "this kernel's bond has lro fixed";
    }
    EXPECT_EQ(ReadDevice("swl")->merges, on);
  }
  Shell("ip link del swl");
}

TEST_F(Devices, TheStartWarnsOfThem) {
  auto sw = Start(bed_.PoolOf({1}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), IsEmpty());
  ASSERT_TRUE(sw->Remove());
  sw.reset();
  Shell("ethtool -K swax tx on >/dev/null");
  sw = Start(bed_.PoolOf({1}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), ElementsAre(HasSubstr("ethtool -K swax tx off")));
}

TEST_F(Devices, WhereRepliesAreNotForwardedAStartAndDoctorSaySo) {
  Shell("echo 0 > /proc/sys/net/ipv4/conf/swa/forwarding");
  EXPECT_EQ(ReadDevice("swa")->forwards_v4, false);
  model::Config config = bed_.PoolOf({1});
  auto sw = Start(config);
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), ElementsAre(AllOf(HasSubstr("swa: IPv4 forwarding is off"),
                                                     HasSubstr("net/ipv4/conf/swa/forwarding=1"))));
  EXPECT_THAT(Doctor("swa", "forwarding on ")["detail"].get<std::string>(), HasSubstr("IPv4 off, IPv6 on"));
  ASSERT_TRUE(sw->Remove());
  sw.reset();
  for (model::Service& service : config.services) service.mode = SPW_MODE_DSR_L2;
  sw = Start(config);
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), IsEmpty()) << "replies do not come by";
  Shell("echo 1 > /proc/sys/net/ipv4/conf/swa/forwarding");
  EXPECT_EQ(Doctor("swa", "forwarding on ")["detail"], "IPv4 on, IPv6 on");
  EXPECT_THAT(ReplyProblems({.name = "eth0", .forwards_v4 = true, .forwards_v6 = false}, true, true),
              ElementsAre(HasSubstr("eth0: IPv6 forwarding is off")));
  EXPECT_THAT(ReplyProblems({.name = "eth0", .forwards_v4 = false, .forwards_v6 = false}, false, false),
              IsEmpty());
  EXPECT_THAT(ReplyProblems({.name = "eth0"}, true, true), IsEmpty()) << "a kernel that does not say";
}

TEST_F(Devices, OffloadsAndDriversAreJudgedByWhatTheyDo) {
  Device device;
  device.name = "eth0";
  device.driver = "some";
  device.strips_vlans = true;
  EXPECT_THAT(IngressProblems(device), IsEmpty()) << "nobody uses tags";
  device.has_vlans = true;
  EXPECT_THAT(IngressProblems(device), ElementsAre(HasSubstr("ethtool -K eth0 rxvlan off")));
  device = {.name = "eth0", .merges = true};
  EXPECT_THAT(IngressProblems(device), ElementsAre(HasSubstr("ethtool -K eth0 lro off")));
  device = {.name = "eth0", .driver = "some", .xdp_features = kXdpBasic};
  EXPECT_THAT(IngressProblems(device),
              ElementsAre(HasSubstr("eth0: its driver (some) reports that it does not redirect")));
  EXPECT_THAT(EgressProblems(device), ElementsAre(HasSubstr("cannot transmit packets redirected by XDP")));
  device.xdp_features = kXdpBasic | kXdpRedirect | kXdpTransmit;
  EXPECT_THAT(IngressProblems(device), IsEmpty());
  EXPECT_THAT(EgressProblems(device), IsEmpty());
  EXPECT_THAT(EgressProblems({.name = "eth0"}), IsEmpty()) << "a kernel that does not say";
  EXPECT_FALSE(ReadDevice("nowhere"));
}

TEST_F(Devices, VlanInterfacesOnTopAreSeen) {
  EXPECT_FALSE(ReadDevice("swt")->has_vlans);
  if (std::system("ip link add link swt name swt.7 type vlan id 7 2>/dev/null") != 0)
    GTEST_SKIP() << "this kernel has no VLAN interfaces";
  EXPECT_TRUE(ReadDevice("swt")->has_vlans);
  EXPECT_FALSE(ReadDevice("swtx")->has_vlans);
}

// A veth takes no packets from XDP while its peer has neither a program nor GRO: the verdict is "redirect",
// and the packet is lost.
TEST_F(Devices, PacketsThatADriverLosesAreCounted) {
  model::Config config = bed_.PoolOf({1});
  config.pools[0].servers[0].units.resize(1);
  config.pools[0].servers[0].units[0].address = *model::Address::Parse("10.1.0.1");
  auto sw = Start(config);
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), Not(Contains(HasSubstr("are not counted"))));
  if (ReadDevice("swd")->xdp_features) {
    EXPECT_THAT(sw->StartWarnings(),
                Contains(HasSubstr("swd: its driver (veth) cannot transmit packets redirected by XDP")));
  }
  const Bytes packet = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80);
  ASSERT_EQ(Attached().Run(packet), XDP_REDIRECT);
  EXPECT_EQ(sw->Counters().redirect_failed, 0u) << "only asked what it would do";
  ASSERT_EQ(Attached().RunLive(packet), 0);
  EXPECT_EQ(sw->Counters().redirect_failed, 1u);
  EXPECT_EQ(sw->Counters().packets_forwarded, 2u);
}

}  // namespace
}  // namespace spillway::switching
