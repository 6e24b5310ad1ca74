// SPDX-License-Identifier: Apache-2.0
// Recorded load reports stay refused, across restarts, reboots and changes of keys.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "live_bed.h"
#include "switch/data_plane.h"
#include "switch/heard_file.h"

namespace spillway::switching {
namespace {

class Replay : public LiveSwitchTest {
 protected:
  // A recorded report of unit 0 of the server of code 0, which is s1, whose key is 1 unless it was changed.
  static Bytes Recorded(uint64_t boot_id, uint32_t sequence, uint8_t key_byte = 1) {
    spw_report report{};
    report.boot_id = boot_id;
    report.sequence = sequence;
    uint8_t key[16];
    std::memset(key, key_byte, sizeof(key));
    const spw_siphash_key secret = spw_siphash_key_of(key);
    spw_report_wire wire{};
    spw_report_encode(&wire, &report, &secret);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&wire);
    return Eth().Ip4("10.0.1.1", "192.0.2.1").Udp(5000, 9870).Payload(Bytes(bytes, bytes + sizeof(wire)));
  }
  model::Config WithKey(uint8_t key_byte) const {
    model::Config config = bed_.PoolOf({1, 2});
    config.pools[0].servers[0].key->fill(key_byte);
    return config;
  }
  // What the data plane knows of the server of code 0, as a stranger reads it.
  spw_server_key Entry() const {
    const int fd = bpf_obj_get((PinFolder(bed_.OptionsOf("one")) + "/server_keys").c_str());
    const uint32_t code = 0;
    spw_server_key entry{};
    EXPECT_EQ(bpf_map_lookup_elem(fd, &code, &entry), 0);
    close(fd);
    return entry;
  }
  void SetEntry(const spw_server_key& entry) const {
    const int fd = bpf_obj_get((PinFolder(bed_.OptionsOf("one")) + "/server_keys").c_str());
    const uint32_t code = 0;
    EXPECT_EQ(bpf_map_update_elem(fd, &code, &entry, BPF_ANY), 0);
    close(fd);
  }
  bool IsAccepted(Switch& sw, const Bytes& report) {
    const spw_counters before = sw.Counters();
    Attached().Run(report);
    const spw_counters after = sw.Counters();
    EXPECT_EQ(after.reports_accepted - before.reports_accepted + after.reports_stale - before.reports_stale,
              1u);
    return after.reports_accepted > before.reports_accepted;
  }
};

TEST_F(Replay, OfWhatWasHeardBeforeTheDataPlaneWasRemovedIsStale) {
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 7)));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 7)));
  ASSERT_TRUE(sw->Remove());
  sw.reset();
  std::filesystem::remove_all(bed_.folder() + "/run");
  sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_FALSE(sw->adopted());
  EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 7)));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(999, 100)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 8))) << "the agent itself is heard at once";
}

TEST_F(Replay, OfAServerThatWentAndCameAgainIsStale) {
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 7)));
  ASSERT_TRUE(sw->Apply(bed_.PoolOf({2})));
  model::Config again = bed_.PoolOf({1, 2});
  again.pools[0].servers[0].code = 0;  // what the recording says
  ASSERT_TRUE(sw->Apply(again));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 7)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1001, 1)));
}

TEST_F(Replay, OfAServerThatComesUnderAnotherNameIsStale) {
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(2000, 7)));
  ASSERT_TRUE(sw->Apply(bed_.PoolOf({2})));
  model::Config renamed = bed_.PoolOf({1, 2});
  renamed.pools[0].servers[0].name = "another";
  renamed.pools[0].servers[0].code = 0;
  ASSERT_TRUE(sw->Apply(renamed));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(2000, 7)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(2000, 8)));
}

TEST_F(Replay, IsTakenAgainOnceAnOperatorSaysForget) {
  auto sw = Start(bed_.PoolOf({1}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 7)));
  ASSERT_TRUE(sw->ForgetReports("p", "s1", "cpu"));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(10, 1)));
  ASSERT_TRUE(sw->ForgetReports("p", "s1", "cpu"));
  ASSERT_TRUE(sw->Remove());
  sw.reset();
  sw = Start(bed_.PoolOf({1}));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(10, 1)));
}

// Whoever stole a key can say the highest numbers there are: a new key must end that.
TEST_F(Replay, OfAnotherKeysReportsDoesNotSilenceTheAgentThatHasTheNewKey) {
  auto sw = Start(WithKey(1));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(UINT64_MAX, 7)));
  ASSERT_TRUE(sw->Apply(WithKey(9)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 1, 9)));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 1, 9)));

  // Likewise where the key changes while spillwayd is away, with the maps kept and without.
  EXPECT_TRUE(IsAccepted(*sw, Recorded(UINT64_MAX, 7, 9)));
  Kill(sw);
  sw = Start(WithKey(8));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 1, 8)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(UINT64_MAX, 7, 8)));
  ASSERT_TRUE(sw->Remove());
  sw.reset();
  sw = Start(WithKey(7));
  ASSERT_TRUE(sw) << error_;
  EXPECT_FALSE(sw->adopted());
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 1, 7)));
}

TEST_F(Replay, OfAKeyThatComesBackIsStaleWhateverWasHeardUnderAnother) {
  auto sw = Start(WithKey(1));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 7)));
  ASSERT_TRUE(sw->Apply(WithKey(9)));
  ASSERT_TRUE(sw->Apply(WithKey(1)));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 7)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 8)));

  ASSERT_TRUE(sw->Apply(WithKey(9)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(500, 1, 9)));
  ASSERT_TRUE(sw->Apply(WithKey(1)));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 8)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 9)));

  // Also where the key changes while spillwayd is away, which had not written what it heard last.
  Kill(sw);
  spw_server_key unsaved = Entry();
  unsaved.seen[0].sequence = 20;
  SetEntry(unsaved);
  sw = Start(WithKey(9));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  EXPECT_FALSE(IsAccepted(*sw, Recorded(500, 1, 9)));
  ASSERT_TRUE(sw->Apply(WithKey(1)));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 20)));
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 21)));
}

TEST_F(Replay, OfWhatAnEarlierVersionWroteDownIsStale) {
  for (const char* written : {R"({"p/s1/cpu": [1000, 7]})", R"({"p/s1/cpu": [1000, 7, %]})"}) {
    std::string text = written;
    if (const size_t at = text.find('%'); at != std::string::npos) {
      const std::vector<uint8_t> key(16, 1);
      text.replace(at, 1, fmt::format("{}", KeyTag(spw_siphash_key_of(key.data()))));
    }
    std::filesystem::create_directories(bed_.folder() + "/state");
    std::ofstream(bed_.folder() + "/state/one.reports") << text;
    auto sw = Start(WithKey(1));
    ASSERT_TRUE(sw) << error_;
    EXPECT_FALSE(IsAccepted(*sw, Recorded(1000, 7))) << text;
    EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 8))) << text;
    ASSERT_TRUE(sw->Remove());
  }
}

// A CPU that took a report's key and place before the key was changed, and writes the report's number later:
// at the last moment at which it may still be at it, which is when the daemon begins to wait for the
// programs that run, having told those that begin later to take nothing; for a daemon that does not wait,
// when it is done.
class LateReport {
 public:
  explicit LateReport(std::function<void()> write) : write_(std::move(write)) {}

  void During(const std::function<void()>& work, const std::function<bool()>& is_silenced) {
    const pid_t child = fork();
    if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      work();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (;;) {
      ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
      if (waitpid(child, &status, 0) < 0 || WIFEXITED(status) || WIFSIGNALED(status)) break;
      if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
      if (!is_written_ && IsWait(child) && is_silenced()) Write();
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!is_written_) Write();
  }

 private:
  // The call by which the kernel waits for the programs that run: an update of a map of maps.
  static bool IsWait(pid_t child) {
    __ptrace_syscall_info info{};
    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_bpf ||
        info.entry.args[0] != BPF_MAP_UPDATE_ELEM)
      return false;
    const long fd = ptrace(PTRACE_PEEKDATA, child, info.entry.args[1], nullptr) & 0xffffffff;
    std::ifstream in(fmt::format("/proc/{}/fdinfo/{}", child, fd));
    for (std::string line; std::getline(in, line);)
      if (line == fmt::format("map_type:\t{}", static_cast<int>(BPF_MAP_TYPE_ARRAY_OF_MAPS))) return true;
    return false;
  }
  void Write() {
    is_written_ = true;
    write_();
  }

  std::function<void()> write_;
  bool is_written_ = false;
};

TEST_F(Replay, OfAReportThatIsBeingAcceptedWhileTheKeyChangesCountsForTheOldKey) {
  auto sw = Start(WithKey(1));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 7)));
  Kill(sw);
  LateReport late([&] {
    spw_server_key entry = Entry();
    entry.seen[0].boot_id = UINT64_MAX;
    SetEntry(entry);
  });
  late.During([&] { EXPECT_TRUE(Start(WithKey(9))) << error_; },
              [&] {
                const uint8_t old[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
                const spw_siphash_key key = spw_siphash_key_of(old);
                const spw_server_key now = Entry();
                return now.configured == 0 && std::memcmp(&now.key, &key, sizeof(key)) == 0;
              });
  sw = Start(WithKey(9));
  ASSERT_TRUE(sw) << error_;
  EXPECT_TRUE(sw->adopted());
  EXPECT_TRUE(IsAccepted(*sw, Recorded(1000, 1, 9))) << "the agent with the new key is heard";
  ASSERT_TRUE(sw->Apply(WithKey(1)));
  EXPECT_FALSE(IsAccepted(*sw, Recorded(UINT64_MAX, 7))) << "a recording of what was taken then";
}

}  // namespace
}  // namespace spillway::switching
