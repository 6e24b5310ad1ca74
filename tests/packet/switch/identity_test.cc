// SPDX-License-Identifier: Apache-2.0
// What makes a switch the same switch: across stops, reboots, layouts and beside others of its group.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "live_bed.h"
#include "model/secret_files.h"
#include "switch/data_plane.h"

namespace spillway::switching {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ACKs of flows that no switch has seen: the ring alone says where they are.
class Flows {
 public:
  explicit Flows(uint64_t seed)
      : random_(seed), packet_(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80)) {}
  // The next flow's ACK: the same frame with another source. Checksums are not looked at on the way in.
  const Bytes& Next() {
    const uint64_t draw = random_();
    std::memcpy(&packet_[14 + 12], &draw, 4);
    std::memcpy(&packet_[14 + 20], reinterpret_cast<const uint8_t*>(&draw) + 4, 2);
    return packet_;
  }

 private:
  std::mt19937_64 random_;
  Bytes packet_;
};

class Identity : public LiveSwitchTest {
 protected:
  void SettleRings(Switch& sw) {
    // A slot that moved while it had an owner keeps it for an idle time, of two ticks of about a second.
    for (int i = 0; i < 1500 && sw.Services()[0].slots_moved != 0; i++, usleep(10'000)) sw.Tick();
    ASSERT_EQ(sw.Services()[0].slots_moved, 0u);
  }
  // Of the pinned data plane, as if an older build had left it.
  void MakeLayoutOlder() {
    const int meta = bpf_obj_get((PinFolder(bed_.OptionsOf("one")) + "/meta").c_str());
    ASSERT_GE(meta, 0);
    spw_meta value{};
    uint32_t zero = 0;
    ASSERT_EQ(bpf_map_lookup_elem(meta, &zero, &value), 0);
    value.layout--;
    ASSERT_EQ(bpf_map_update_elem(meta, &zero, &value, BPF_ANY), 0);
    close(meta);
  }
  // What an older build leaves that is killed; where it placed flows.
  std::vector<std::string> LeaveOlderLayout() {
    auto sw = Start(bed_.PoolOf({1, 2, 3}));
    EXPECT_TRUE(sw) << error_;
    if (!sw) return {};
    const auto before = Placements(1000);
    Kill(sw);
    MakeLayoutOlder();
    return before;
  }
  std::vector<std::string> Placements(int flows) {
    std::vector<std::string> units;
    AttachedProgram program = Attached();
    Flows source(7);
    for (int i = 0; i < flows; i++) units.push_back(program.UnitOf(source.Next()));
    return units;
  }
};

TEST_F(Identity, SwitchesOfOneSeedFileAndOnePoolFileAgreeWhateverTheirHistory) {
  model::Config one = bed_.PoolOf({1, 2, 3, 4, 5}), two = bed_.PoolOf({1, 2, 3, 4, 5}, "swb");
  one.data_plane.seed_file = two.data_plane.seed_file = bed_.folder() + "/group.seed";
  one.services[0].idle_s = two.services[0].idle_s = 1;
  auto first = Start(one, "one");
  ASSERT_TRUE(first) << error_;

  // The second began with others, more than 32 units, and in another order.
  std::vector<int> many = {9, 5, 3, 8, 1};
  for (int server = 10; server < 25; server++) many.push_back(server);
  model::Config past = bed_.PoolOf(many, "swb");
  past.data_plane.seed_file = two.data_plane.seed_file;
  past.services[0].idle_s = 1;
  auto second = Start(past, "two");
  ASSERT_TRUE(second) << error_;
  for (const std::vector<int>& servers : {std::vector<int>{9, 4, 3, 1}, {7, 1, 4, 5}, {5, 4, 2, 1}}) {
    model::Config next = past;
    next.pools = bed_.PoolOf(servers).pools;
    ASSERT_TRUE(second->Apply(next));
  }
  ASSERT_TRUE(second->Apply(two));
  SettleRings(*second);

  AttachedProgram at_first = Attached("one", "swa"), at_second = Attached("two", "swb");
  ASSERT_TRUE(at_first.found() && at_second.found());
  Flows flows(1);
  constexpr int kFlows = 1'000'000;
  int differ = 0, unplaced = 0;
  std::map<std::string, int> units;
  for (int i = 0; i < kFlows; i++) {
    const Bytes& ack = flows.Next();
    const std::string here = at_first.UnitOf(ack), there = at_second.UnitOf(ack);
    differ += here != there;
    unplaced += here.empty();
    units[here]++;
  }
  EXPECT_EQ(differ, 0) << "of " << kFlows;
  EXPECT_EQ(unplaced, 0);
  EXPECT_EQ(units.size(), 10u) << "units that flows were on";
  std::filesystem::remove(bed_.folder() + "/group.seed");
}

TEST_F(Identity, AUnitThatAnOperatorDrainedIsNamedAtTheNextStart) {
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  ASSERT_TRUE(sw->SetUnitStatus("p", "s2", "cpu", SPW_UNIT_DRAINING));
  Kill(sw);
  sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(),
              ElementsAre("p/s2/cpu stays draining, as set by an operator; the file says up"));
}

// Pins of a version that made rings of another size.
TEST_F(Identity, RingsOfAnotherSizeAreAdoptedAndNamed) {
  model::Config config = bed_.PoolOf({1, 2, 3});
  config.pools[0].ring_slots = 4099;
  auto sw = Start(config);
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), IsEmpty());
  const auto before = Placements(1000);
  Kill(sw);
  config.pools[0].ring_slots = 0;
  sw = Start(config);
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  const char* note =
      "keeps its ring of 4099 slots, while a switch started afresh with this file would make one of 16411";
  EXPECT_THAT(sw->StartWarnings(), ElementsAre(HasSubstr(note)));
  EXPECT_EQ(Placements(1000), before);
  const auto applied = sw->Apply(config);
  ASSERT_TRUE(applied);
  EXPECT_THAT(applied->notes, ElementsAre(HasSubstr(note)));
}

// A datagram flow that was refused an entry is on the ring for as long as the mark says so.
TEST_F(Identity, MarksOfRefusedDatagramsOutliveTheDaemon) {
  auto sw = Start(bed_.PoolOf({1, 2, 3}));
  ASSERT_TRUE(sw) << error_;
  const std::string pin = PinFolder(bed_.OptionsOf("one")) + "/refused";
  const int fd = bpf_obj_get(pin.c_str());
  ASSERT_GE(fd, 0) << pin;
  const uint32_t line = 3;
  spw_refused written{}, read{};
  written.tick[7] = 4711;
  ASSERT_EQ(bpf_map_update_elem(fd, &line, &written, BPF_ANY), 0);
  Kill(sw);
  sw = Start(bed_.PoolOf({1, 2, 3}));
  ASSERT_TRUE(sw) << error_;
  ASSERT_TRUE(sw->adopted());
  const int again = bpf_obj_get(pin.c_str());
  ASSERT_EQ(bpf_map_lookup_elem(again, &line, &read), 0);
  EXPECT_EQ(read.tick[7], 4711);
  close(fd), close(again);
}

TEST_F(Identity, FlowsStayWhereTheyWereAfterAStopThatRemovesAll) {
  auto sw = Start(bed_.PoolOf({1, 2, 3}));
  ASSERT_TRUE(sw) << error_;
  const auto before = Placements(1000);
  ASSERT_TRUE(sw->Remove());
  sw.reset();
  std::filesystem::remove_all(bed_.folder() + "/run");  // as a reboot does
  sw = Start(bed_.PoolOf({3, 1, 2}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_FALSE(sw->adopted());
  EXPECT_EQ(Placements(1000), before);
}

// Pins of a build before this one, which knew no seed file; its ledger means nothing to us.
TEST_F(Identity, TheSeedOfAnotherLayoutIsKept) {
  const auto before = LeaveOlderLayout();
  std::filesystem::remove_all(bed_.folder() + "/run");
  std::filesystem::remove_all(bed_.folder() + "/state");
  auto sw = Start(bed_.PoolOf({1, 2, 3}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_FALSE(sw->adopted());
  EXPECT_THAT(sw->StartWarnings(),
              ElementsAre(AllOf(
                  HasSubstr(fmt::format("layout {}, and this spillwayd's is {}", SPW_LAYOUT - 1, SPW_LAYOUT)),
                  HasSubstr("flows that had entries in it are placed anew"))));
  EXPECT_EQ(Placements(1000), before);
}

// An upgrade whose program this kernel refuses, or has no room for.
TEST_F(Identity, AProgramThatCannotBeLoadedLeavesTheOneOfAnotherLayoutInPlace) {
  const auto before = LeaveOlderLayout();
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next);
  const rlimit few{static_cast<rlim_t>(next) + 6, files.rlim_max};  // maps need more
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  auto sw = Start(bed_.PoolOf({1, 2, 3}));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_FALSE(sw);
  EXPECT_THAT(error_, HasSubstr("loading the BPF program"));
  EXPECT_TRUE(Attached().found());
  EXPECT_EQ(Placements(1000), before);
}

TEST_F(Identity, AFileThatCannotBeTakenLeavesTheOneOfAnotherLayoutInPlace) {
  const auto before = LeaveOlderLayout();
  model::Config config = bed_.PoolOf({1, 2, 3});
  config.data_plane.interfaces.push_back("nosuch0");
  ASSERT_FALSE(Start(config));
  EXPECT_THAT(error_, HasSubstr("nosuch0"));
  EXPECT_TRUE(Attached().found());
  EXPECT_EQ(Placements(1000), before);
}

TEST_F(Identity, AnotherSeedNeverMovesFlowsOfARunningSwitch) {
  model::Config config = bed_.PoolOf({1, 2, 3});
  auto sw = Start(config);
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), IsEmpty());
  const auto before = Placements(1000);

  model::Config other = config;
  other.data_plane.seed_file = bed_.folder() + "/other.seed";
  const auto absent = sw->Check(other);
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("other.seed which does not exist"));
  ASSERT_TRUE(model::ReadOrMakeSeedFile(other.data_plane.seed_file, std::nullopt));
  const auto applied = sw->Apply(other);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(applied.error().message, HasSubstr("switch.seed_file: expected a file with the seed in use"));

  Kill(sw);
  sw = Start(other);
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  EXPECT_THAT(sw->StartWarnings(),
              ElementsAre(HasSubstr("other.seed holds a seed other than the adopted data plane's")));
  EXPECT_EQ(Placements(1000), before);
  std::filesystem::remove(other.data_plane.seed_file);
}

TEST_F(Identity, ASeedFileThatHoldsNoSeedIsAnErrorBeforeAnythingIsTouched) {
  model::Config config = bed_.PoolOf({1});
  config.data_plane.seed_file = bed_.folder() + "/bad.seed";
  std::ofstream(config.data_plane.seed_file) << "42";
  EXPECT_FALSE(Start(config));
  EXPECT_THAT(error_,
              HasSubstr("switch.seed_file: " + config.data_plane.seed_file + ": no seed of 96 hex digits"));
  EXPECT_FALSE(Attached().found());
}

TEST_F(Identity, AMachineWithoutAPlaceForTheSeedStartsAndSaysSo) {
  std::filesystem::remove_all(bed_.folder() + "/state");
  std::ofstream(bed_.folder() + "/state") << "a file where a folder is wanted";
  auto sw = Start(bed_.PoolOf({1}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_THAT(sw->StartWarnings(), ElementsAre(HasSubstr("the seed of the flow hash cannot be saved")));
  Kill(sw);
  std::filesystem::remove(bed_.folder() + "/state");
}

}  // namespace
}  // namespace spillway::switching
