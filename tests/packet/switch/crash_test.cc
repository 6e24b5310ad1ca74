// SPDX-License-Identifier: Apache-2.0
// spillwayd killed in the middle of a change, and two of them on one instance.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "core/flow_table.h"
#include "live_bed.h"
#include "switch/clock.h"
#include "switch/data_plane.h"

namespace spillway::switching {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

using IsCall = std::function<bool(const __ptrace_syscall_info& entry)>;

bool IsRename(const __ptrace_syscall_info& entry) {
#ifdef SYS_rename
  if (entry.entry.nr == SYS_rename) return true;
#endif
  return entry.entry.nr == SYS_renameat || entry.entry.nr == SYS_renameat2;
}

// The program of an adopted attachment gives way to this build's.
bool IsSwapOfPrograms(const __ptrace_syscall_info& entry) {
  return entry.entry.nr == SYS_bpf && entry.entry.args[0] == BPF_LINK_UPDATE;
}

// Runs `work` in a child that is killed when the `count`th of such calls is done. False: it ended before.
bool KilledAfter(const IsCall& is_call, int count, const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    work();
    _exit(0);
  }
  int status = 0, calls = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  bool in_call = false;
  for (;;) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    if (waitpid(child, &status, 0) < 0 || WIFEXITED(status) || WIFSIGNALED(status)) return false;
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) in_call = is_call(info);
    if (info.op != PTRACE_SYSCALL_INFO_EXIT || !in_call || ++calls < count) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return true;
  }
}

// Files are replaced by renames, so these are the moments between which the state on disk differs.
bool KilledAfterRename(int count, const std::function<void()>& work) {
  return KilledAfter(IsRename, count, work);
}

// A pinned map of buckets, read and written whole.
class PinnedFlowTable {
 public:
  explicit PinnedFlowTable(const Options& options)
      : fd_(bpf_obj_get((PinFolder(options) + "/flow_table").c_str())) {
    bpf_map_info info{};
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd_, &info, &size) == 0) buckets_.resize(info.max_entries);
  }
  ~PinnedFlowTable() {
    if (fd_ >= 0) close(fd_);
  }
  PinnedFlowTable(const PinnedFlowTable&) = delete;
  PinnedFlowTable& operator=(const PinnedFlowTable&) = delete;

  bool found() const { return !buckets_.empty(); }
  void Fill(uint64_t entry) {
    for (uint32_t i = 0; i < buckets_.size(); i++) {
      std::ranges::fill(buckets_[i].entry, entry);
      EXPECT_EQ(bpf_map_update_elem(fd_, &i, &buckets_[i], BPF_ANY), 0);
    }
  }
  size_t CountOthersThan(uint64_t entry) {
    size_t others = 0;
    for (uint32_t i = 0; i < buckets_.size(); i++) {
      EXPECT_EQ(bpf_map_lookup_elem(fd_, &i, &buckets_[i]), 0);
      others += static_cast<size_t>(
          std::ranges::count_if(buckets_[i].entry, [&](uint64_t now) { return now != entry; }));
    }
    return others;
  }

 private:
  int fd_;
  std::vector<spw_bucket> buckets_;
};

class Crash : public LiveSwitchTest {
 protected:
  static Bytes Ack(const std::string& vip, int flow) {
    return Eth().Ip4(fmt::format("198.51.{}.{}", flow / 250, flow % 250 + 1), vip).Tcp(40000, 80);
  }
};

TEST_F(Crash, InAChangeLeavesEachServiceItsOwnUnits) {
  model::Config before = bed_.PoolOf({1, 2});
  before.services[0].ports = {{model::Protocol::kTcp, 80}};
  const model::Config after = bed_.TwoServices();
  int kills = 0;
  for (bool killed = true; killed; kills++) {
    ASSERT_TRUE(Switch::RemoveLeftovers(bed_.OptionsOf("one")));
    auto sw = Start(before);
    ASSERT_TRUE(sw) << error_;
    std::map<int, std::string> placed;
    for (int flow = 0; flow < 500; flow++) placed[flow] = Attached().UnitOf(Ack("203.0.113.10", flow));
    sw.reset();

    killed = KilledAfterRename(kills + 1, [&] { (void)Switch::Start(after, bed_.OptionsOf("one")); });
    sw = Start(after);
    ASSERT_TRUE(sw) << error_;
    EXPECT_TRUE(sw->adopted()) << kills;
    AttachedProgram program = Attached();
    for (int flow = 0; flow < 500; flow++) {
      ASSERT_EQ(program.UnitOf(Ack("203.0.113.10", flow)), placed[flow]) << "killed at rename " << kills + 1;
      ASSERT_THAT(program.UnitOf(Ack("203.0.113.20", flow)),
                  AnyOf(StartsWith("10.0.3."), StartsWith("10.0.4.")))
          << "killed at rename " << kills + 1;
    }
  }
  EXPECT_GE(kills, 3) << "a change should write the ledger before and after";
}

TEST_F(Crash, InAFirstStartLeavesNothingThatIsTakenForGood) {
  const model::Config config = bed_.TwoServices();
  // A ledger of maps that are gone: /run outlived them.
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  sw.reset();
  for (int kills = 0; kills < 4; kills++) {
    ASSERT_TRUE(RemovePins(bed_.OptionsOf("one")));
    (void)KilledAfterRename(kills + 1, [&] { (void)Switch::Start(config, bed_.OptionsOf("one")); });
    sw = Start(config);
    ASSERT_TRUE(sw) << error_;
    AttachedProgram program = Attached();
    for (int flow = 0; flow < 500; flow++) {
      ASSERT_THAT(program.UnitOf(Ack("203.0.113.10", flow)),
                  AnyOf(StartsWith("10.0.1."), StartsWith("10.0.2.")));
      ASSERT_THAT(program.UnitOf(Ack("203.0.113.20", flow)),
                  AnyOf(StartsWith("10.0.3."), StartsWith("10.0.4.")));
    }
    sw.reset();
  }
}

// The program that takes over is in force before the change is whole: what it reads must be there by then.
TEST_F(Crash, AProgramThatTakesOverLeavesTheEntriesOfLiveFlowsAlone) {
  const model::Config config = bed_.PoolOf({1, 2});
  auto sw = Start(config);
  ASSERT_TRUE(sw) << error_;
  sw.reset();
  // Datagrams are remembered wherever there is a place.
  const auto send_new_flows = [this](uint16_t port) {
    const AttachedProgram program = Attached();
    for (int flow = 0; flow < 500; flow++)
      ASSERT_NE(
          program.UnitOf(Eth()
                             .Ip4(fmt::format("198.51.{}.{}", flow / 250, flow % 250 + 1), "203.0.113.10")
                             .Udp(port, 80)),
          "");
  };
  PinnedFlowTable table(bed_.OptionsOf("one"));
  ASSERT_TRUE(table.found());
  send_new_flows(40000);
  ASSERT_GT(table.CountOthersThan(0), 400u) << "with places, entries are written";

  const uint64_t live = spw_flow_entry(0x1234567, 0, SPW_FLOW_OPEN, NowTick() - 10);
  table.Fill(live);
  ASSERT_TRUE(KilledAfter(IsSwapOfPrograms, 1, [&] { (void)Switch::Start(config, bed_.OptionsOf("one")); }));
  ASSERT_TRUE(Attached().found());
  send_new_flows(50000);
  EXPECT_EQ(table.CountOthersThan(live), 0u) << "entries of flows that were seen ten ticks ago";
}

// As after `stop --keep`, or in a change that was killed: flows of the server that went still have entries.
TEST_F(Crash, ACodeThatWasInUseIsNotGivenOutAnewAfterARestart) {
  auto sw = Start(bed_.PoolOf({1, 2, 3}));
  ASSERT_TRUE(sw) << error_;
  ASSERT_TRUE(sw->Apply(bed_.PoolOf({1, 2})));
  sw.reset();
  sw = Start(bed_.PoolOf({1, 2, 9}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  for (const UnitView& unit : sw->Units()) {
    if (unit.server == "s9") {
      EXPECT_EQ(spw_unit_server(unit.id), 3u) << "s3 had 2";
    }
  }
}

TEST_F(Crash, ASecondSpillwaydOnTheSamePinsIsRefusedWhateverItsRunDirectory) {
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  Options elsewhere = bed_.OptionsOf("one");
  elsewhere.run_dir = bed_.folder() + "/elsewhere";
  const auto second = Switch::Start(bed_.PoolOf({1}), elsewhere);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr("instance one is already run by another spillwayd"));
  EXPECT_FALSE(Switch::RemoveLeftovers(elsewhere));
  EXPECT_TRUE(Attached().found());
  sw.reset();
  sw = nullptr;
  const auto now = Switch::Start(bed_.PoolOf({1}), elsewhere);
  EXPECT_TRUE(now) << now.error().message;
}

// Whoever can open the folder that is locked can lock it.
TEST_F(Crash, NoOtherUserCanKeepSpillwaydFromStarting) {
  const std::string parent = bed_.OptionsOf("one").bpffs + "/spillway-lock";
  mkdir(parent.c_str(), 0755);
  ASSERT_EQ(chmod(parent.c_str(), 0755), 0) << "as an earlier version made it";
  auto sw = Start(bed_.PoolOf({1}));
  ASSERT_TRUE(sw) << error_;
  struct stat status {};
  ASSERT_EQ(stat(parent.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

// A scrape of /metrics holds the mutex that the watchdog's tick needs: it reads no slots.
TEST_F(Crash, ViewsTellOfRingsAsOfTheLastTickWithoutReadingThem) {
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  double sum = 0;
  for (const UnitView& unit : sw->Units()) sum += unit.ring_share;
  EXPECT_NEAR(sum, 1, 1e-9);
  const uint32_t slots = sw->Services()[0].ring_slots;

  const int fd = bpf_obj_get((PinFolder(bed_.OptionsOf("one")) + "/ring_slots").c_str());
  ASSERT_GE(fd, 0);
  const spw_ring_slot moved{0, 1, spw_slot_tick(NowTick()), 0};
  for (uint32_t i = 0; i < slots; i++) ASSERT_EQ(bpf_map_update_elem(fd, &i, &moved, BPF_ANY), 0);
  close(fd);
  EXPECT_EQ(sw->Services()[0].slots_moved, 0u) << "read for the view";
  sw->Tick();
  EXPECT_EQ(sw->Services()[0].slots_moved, slots);
}

}  // namespace
}  // namespace spillway::switching
