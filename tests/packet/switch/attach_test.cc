// SPDX-License-Identifier: Apache-2.0
// What is attached to which interface after starts and changes that fail, and after interfaces changed while
// no spillwayd ran. Asked of the kernel.
#include <bpf/libbpf.h>
#include <net/if.h>

#include "live_bed.h"

namespace spillway::switching {
namespace {

using testing::HasSubstr;

uint32_t ProgramOn(const std::string& interface) {
  uint32_t id = 0;
  EXPECT_EQ(bpf_xdp_query_id(static_cast<int>(if_nametoindex(interface.c_str())), 0, &id), 0) << interface;
  return id;
}

class Attaching : public LiveSwitchTest {
 protected:
  Attaching() { AddVeth("swc"); }
  ~Attaching() override { Shell("ip link del swc; ip link del swold 2> /dev/null; true"); }
  static void AddVeth(const std::string& name) {
    Shell("ip link add " + name + " type veth && ip link set " + name + " up");
  }
  model::Config On(const std::vector<std::string>& interfaces) const {
    model::Config config = bed_.PoolOf({1, 2});
    config.data_plane.interfaces = interfaces;
    return config;
  }
  std::string UnitOfAFlow() {
    return Attached().UnitOf(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80));
  }
};

// swb is another instance's: all before it in the list was dealt with by then.
TEST_F(Attaching, AStartThatFailsAtABusyInterfaceUndoesOnlyWhatItDid) {
  const auto other = Start(bed_.PoolOf({1}, "swb"), "two");
  ASSERT_TRUE(other) << error_;
  auto sw = Start(On({"swa"}));
  ASSERT_TRUE(sw) << error_;
  const std::string unit = UnitOfAFlow();
  ASSERT_NE(unit, "");
  Kill(sw);
  ASSERT_FALSE(Start(On({"swa", "swc", "swb"})));
  EXPECT_THAT(error_, HasSubstr("interface swb already has an XDP program"));
  EXPECT_EQ(UnitOfAFlow(), unit) << "swa is attached as before";
  EXPECT_NE(ProgramOn("swa"), 0u);
  EXPECT_EQ(ProgramOn("swc"), 0u);
  EXPECT_NE(ProgramOn("swb"), 0u) << "the other instance's";

  sw = Start(On({"swa", "swc"}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  EXPECT_NE(ProgramOn("swc"), 0u);
}

TEST_F(Attaching, AChangeThatFailsAtABusyInterfaceUndoesOnlyWhatItDid) {
  const auto other = Start(bed_.PoolOf({1}, "swb"), "two");
  ASSERT_TRUE(other) << error_;
  const auto sw = Start(On({"swa"}));
  ASSERT_TRUE(sw) << error_;
  const uint32_t before = ProgramOn("swa");
  const auto applied = sw->Apply(On({"swc", "swb"}));
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message, HasSubstr("interface swb already has an XDP program"));
  EXPECT_EQ(ProgramOn("swa"), before) << "no longer listed, but the change was not made";
  EXPECT_EQ(ProgramOn("swc"), 0u);
  EXPECT_NE(ProgramOn("swb"), 0u);
  ASSERT_EQ(sw->Interfaces().size(), 1u);
  EXPECT_EQ(sw->Interfaces()[0].name, "swa");
}

TEST_F(Attaching, AnInterfaceMadeAnewWhileNobodyRanIsAttachedAtTheStart) {
  auto sw = Start(On({"swa", "swc"}));
  ASSERT_TRUE(sw) << error_;
  Kill(sw);
  Shell("ip link del swc");
  AddVeth("swc");
  ASSERT_EQ(ProgramOn("swc"), 0u);
  sw = Start(On({"swa", "swc"}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  EXPECT_EQ(ProgramOn("swc"), ProgramOn("swa"));
}

// The pinned attachment lives on, at an interface that is called otherwise now.
TEST_F(Attaching, AnInterfaceThatTookAnothersNameIsAttachedAndTheOtherIsLeft) {
  auto sw = Start(On({"swa", "swc"}));
  ASSERT_TRUE(sw) << error_;
  Kill(sw);
  Shell("ip link set swc down && ip link set swc name swold && ip link set swold up");
  AddVeth("swc");
  sw = Start(On({"swa", "swc"}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_NE(ProgramOn("swc"), 0u);
  EXPECT_EQ(ProgramOn("swc"), ProgramOn("swa"));
  EXPECT_EQ(ProgramOn("swold"), 0u);
}

}  // namespace
}  // namespace spillway::switching
