// SPDX-License-Identifier: Apache-2.0
// What is attached to which interface after starts and changes that fail, and after interfaces changed while
// no spillwayd ran. Asked of the kernel.
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>

#include "live_bed.h"

namespace spillway::switching {
namespace {

using model::AttachMode;
using testing::HasSubstr;

uint32_t ProgramOn(const std::string& interface) {
  uint32_t id = 0;
  EXPECT_EQ(bpf_xdp_query_id(static_cast<int>(if_nametoindex(interface.c_str())), 0, &id), 0) << interface;
  return id;
}

// XDP_ATTACHED_DRV or XDP_ATTACHED_SKB (generic).
int ModeOn(const std::string& interface) {
  bpf_xdp_query_opts query{};
  query.sz = sizeof(query);
  EXPECT_EQ(bpf_xdp_query(static_cast<int>(if_nametoindex(interface.c_str())), 0, &query), 0) << interface;
  return query.attach_mode;
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
  model::Config In(model::AttachMode mode, const std::vector<std::string>& interfaces) const {
    model::Config config = On(interfaces);
    config.data_plane.attach = mode;
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

TEST_F(Attaching, AnInterfaceMadeAnewIsTriedAgainUntilItCanBeAttached) {
  const auto sw = Start(On({"swa", "swc"}));
  ASSERT_TRUE(sw) << error_;
  Shell("ip link del swc");
  AddVeth("swc");
  auto other = Start(bed_.PoolOf({1}, "swc"), "two");
  ASSERT_TRUE(other) << error_;
  sw->OnNetlink();
  ASSERT_NE(ProgramOn("swc"), ProgramOn("swa"));
  ASSERT_TRUE(sw->Apply(On({"swa", "swc"}))) << "a change of something else is not held up";
  ASSERT_TRUE(other->Remove());
  other.reset();
  ASSERT_EQ(ProgramOn("swc"), 0u);
  for (int ticks = 0; ticks < 100 && ProgramOn("swc") == 0; ticks++) sw->Tick();
  EXPECT_EQ(ProgramOn("swc"), ProgramOn("swa"));
}

TEST_F(Attaching, AnInterfaceThatHasGoneHoldsNoChangeUp) {
  const auto sw = Start(On({"swa", "swc"}));
  ASSERT_TRUE(sw) << error_;
  Shell("ip link del swc");
  sw->OnNetlink();
  const auto views = sw->Interfaces();
  const auto gone =
      std::find_if(views.begin(), views.end(), [](const auto& view) { return view.name == "swc"; });
  ASSERT_NE(gone, views.end());
  EXPECT_EQ(gone->ifindex, 0);
  std::vector<std::string> news;
  for (const auto& one : sw->TakeCheckNews()) news.push_back(one.text);
  EXPECT_THAT(news, testing::Contains("interface swc has gone; it is attached to again once it is back"));
  EXPECT_TRUE(sw->Check(On({"swa", "swc"})));
  EXPECT_TRUE(sw->SetUnitStatus("p", "s1", "cpu", SPW_UNIT_DRAINING));
  EXPECT_FALSE(sw->Apply(On({"swa", "swc", "swd"}))) << "one that never was there";
  AddVeth("swc");
  sw->OnNetlink();
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

TEST_F(Attaching, AChangeOfTheModeIsMadeWhileItRuns) {
  const auto sw = Start(In(AttachMode::kGeneric, {"swa"}));
  ASSERT_TRUE(sw) << error_;
  const std::string unit = UnitOfAFlow();
  ASSERT_EQ(ModeOn("swa"), XDP_ATTACHED_SKB);
  ASSERT_TRUE(sw->Apply(In(AttachMode::kNative, {"swa", "swc"})));
  EXPECT_EQ(ModeOn("swa"), XDP_ATTACHED_DRV);
  EXPECT_TRUE(sw->Interfaces()[0].native);
  EXPECT_EQ(UnitOfAFlow(), unit);
  ASSERT_TRUE(sw->Apply(In(AttachMode::kGeneric, {"swa", "swc"})));
  EXPECT_EQ(ModeOn("swa"), XDP_ATTACHED_SKB);
  ASSERT_TRUE(sw->Apply(In(AttachMode::kAuto, {"swa", "swc"})));
  EXPECT_EQ(ModeOn("swa"), XDP_ATTACHED_DRV);
  EXPECT_EQ(ModeOn("swc"), XDP_ATTACHED_DRV);
}

TEST_F(Attaching, WhatAnEarlierRunAttachedGetsTheModeThatIsAskedFor) {
  auto sw = Start(In(AttachMode::kGeneric, {"swa"}));
  ASSERT_TRUE(sw) << error_;
  const std::string unit = UnitOfAFlow();
  Kill(sw);
  sw = Start(In(AttachMode::kAuto, {"swa"}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_EQ(ModeOn("swa"), XDP_ATTACHED_SKB) << "auto takes what is there";
  Kill(sw);
  sw = Start(In(AttachMode::kNative, {"swa"}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  EXPECT_EQ(ModeOn("swa"), XDP_ATTACHED_DRV);
  EXPECT_EQ(UnitOfAFlow(), unit);
}

TEST_F(Attaching, AChangeOfTheModeThatFailsLeavesTheOldOne) {
  const auto other = Start(bed_.PoolOf({1}, "swb"), "two");
  ASSERT_TRUE(other) << error_;
  const auto sw = Start(In(AttachMode::kGeneric, {"swa"}));
  ASSERT_TRUE(sw) << error_;
  const std::string unit = UnitOfAFlow();
  ASSERT_FALSE(sw->Apply(In(AttachMode::kNative, {"swa", "swc", "swb"})));
  EXPECT_EQ(ModeOn("swa"), XDP_ATTACHED_SKB);
  EXPECT_EQ(ProgramOn("swc"), 0u);
  ASSERT_EQ(sw->Interfaces().size(), 1u);
  EXPECT_EQ(sw->Interfaces()[0].why_generic, "asked for by switch.attach");
  EXPECT_EQ(UnitOfAFlow(), unit);
}

TEST_F(Attaching, AModeThatTheInterfaceDoesNotHaveLeavesTheOldOne) {
  auto sw = Start(In(AttachMode::kAuto, {"swa", "lo"}));
  ASSERT_TRUE(sw) << error_;
  ASSERT_EQ(ModeOn("lo"), XDP_ATTACHED_SKB);
  const auto applied = sw->Apply(In(AttachMode::kNative, {"swa", "lo"}));
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message, HasSubstr("attaching to lo"));
  EXPECT_EQ(ModeOn("lo"), XDP_ATTACHED_SKB);
  EXPECT_THAT(sw->Interfaces()[1].why_generic, HasSubstr("native mode refused"));
  Kill(sw);
  EXPECT_FALSE(Start(In(AttachMode::kNative, {"swa", "lo"})));
  EXPECT_EQ(ModeOn("lo"), XDP_ATTACHED_SKB) << "a start that fails takes nothing away";
  EXPECT_EQ(ModeOn("swa"), XDP_ATTACHED_DRV);
}

}  // namespace
}  // namespace spillway::switching
