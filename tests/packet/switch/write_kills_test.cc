// SPDX-License-Identifier: Apache-2.0
// spillwayd killed between two writes into the memory that the data plane reads (switch/write_point.h): while
// it is away, and when another has taken over, packets of established flows go where they went, and new flows
// to units of their service. Kills between files: crash_test.cc; at random times:
// tests/e2e/switch/kills_test.cc.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "live_bed.h"
#include "switch/data_plane.h"
#include "switch/write_point.h"

namespace spillway::switching {
namespace {

using testing::AnyOf;
using testing::StartsWith;

using Work = std::function<void()>;

// In the source. The text of `file` is the program's own, so a child's pointer is its parent's.
using Place = std::pair<const char*, uint32_t>;

// In memory that a child and its parent share.
struct WriteLog {
  static constexpr uint32_t kMost = 1u << 18;
  uint32_t count;
  uint32_t die_after;        // writes; 0: never
  uint32_t die_at_new_site;  // the first write of the so-manieth place in the source; 0: never
  Place places[kMost];
};

WriteLog* Log() {
  static auto* const log = static_cast<WriteLog*>(
      mmap(nullptr, sizeof(WriteLog), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return log;
}

void Note(const std::source_location& where) {
  static std::set<Place> sites;
  const Place place(where.file_name(), where.line());
  WriteLog& log = *Log();
  if (log.count < WriteLog::kMost) log.places[log.count] = place;
  log.count++;
  if (log.die_at_new_site != 0) sites.insert(place);
  if (log.count == log.die_after || (log.die_at_new_site != 0 && sites.size() == log.die_at_new_site))
    raise(SIGKILL);
}

// In a child. True: it was killed. `count` and `places` of Log() are then its writes.
bool IsKilled(uint32_t after, uint32_t at_new_site, const Work& work) {
  Log()->count = 0;
  Log()->die_after = after;
  Log()->die_at_new_site = at_new_site;
  const pid_t child = fork();
  if (child == 0) {
    after_write = Note;
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  EXPECT_TRUE(is_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << "it crashed: " << status;
  return is_killed;
}

// The writes to be killed after, of those that Log() has: of each place in the source all if they are few,
// else, as of a ring's slots, the first three, the last, and some between.
std::vector<uint32_t> PointsOf(const WriteLog& log) {
  constexpr size_t kFew = 8;
  std::map<Place, std::vector<uint32_t>> places;
  for (uint32_t i = 0; i < std::min(log.count, WriteLog::kMost); i++) places[log.places[i]].push_back(i + 1);
  std::vector<uint32_t> points;
  for (const auto& [place, writes] : places)
    for (size_t i = 0; i < writes.size(); i++)
      if (writes.size() <= kFew || i < 3 || i == writes.size() - 1 || i % (writes.size() / 4) == 0)
        points.push_back(writes[i]);
  return points;
}

// What an instance has in its maps and files, so that it can be as before again.
class Saved {
 public:
  explicit Saved(const Options& options) {
    for (const char* name : {"services", "replies", "ring_slots", "units", "servers", "pools", "server_keys",
                             "flow_table", "flow_filter"}) {
      const int fd = bpf_obj_get((PinFolder(options) + "/" + name).c_str());
      bpf_map_info info{};
      uint32_t size = sizeof(info);
      if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) != 0) throw std::runtime_error(name);
      // Of the rings' slots those that are used.
      const size_t bytes = std::min(size_t{info.value_size} * info.max_entries, size_t{4} << 20);
      void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      close(fd);
      if (at == MAP_FAILED) throw std::runtime_error(name);
      const char* const first = static_cast<const char*>(at);
      maps_.push_back({static_cast<char*>(at), std::vector<char>(first, first + bytes)});
    }
    for (const std::string& file : {options.run_dir + "/" + options.instance + ".ledger",
                                    options.state_dir + "/" + options.instance + ".reports"}) {
      std::ifstream in(file);
      if (in) files_[file] = {std::istreambuf_iterator<char>(in), {}};
    }
  }
  ~Saved() {
    for (const Map& map : maps_) munmap(map.at, map.content.size());
  }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  void Restore() const {
    for (const Map& map : maps_) std::copy(map.content.begin(), map.content.end(), map.at);
    for (const auto& [file, content] : files_) std::ofstream(file) << content;
  }

 private:
  struct Map {
    char* at;
    std::vector<char> content;
  };
  std::vector<Map> maps_;
  std::map<std::string, std::string> files_;
};

class WriteKills : public LiveSwitchTest {
 protected:
  static Bytes Packet(const std::string& vip, int flow, uint8_t flags, uint16_t port = 40000) {
    return Eth()
        .Ip4(fmt::format("198.51.{}.{}", flow / 250, flow % 250 + 1), vip)
        .Tcp(port, 80, flags)
        .Seq(static_cast<uint32_t>(flow) << 16 | (flags == kSyn ? 0 : 1));
  }
  // By whole handshakes, so that those that leave the ring have entries.
  void Establish() {
    const AttachedProgram program = Attached();
    for (int flow = 0; flow < kFlows; flow++) {
      (void)program.UnitOf(Packet("203.0.113.10", flow, kSyn));
      unit_[flow] = program.UnitOf(Packet("203.0.113.10", flow, kAck));
      ASSERT_NE(unit_[flow], "");
    }
  }
  // `gone`: a server that may have left.
  void ExpectFlows(const std::string& when, const std::string& gone = "none", bool has_second = false) {
    const AttachedProgram program = Attached();
    ASSERT_TRUE(program.found()) << when;
    for (const auto& [flow, unit] : unit_) {
      if (unit.starts_with(gone)) continue;
      ASSERT_EQ(program.UnitOf(Packet("203.0.113.10", flow, kAck)), unit) << when << ", flow " << flow;
    }
    for (int flow = 0; flow < kNewFlows; flow++) {
      ASSERT_THAT(program.UnitOf(Packet("203.0.113.10", flow, kSyn, 50000)),
                  AnyOf(StartsWith("10.0.1."), StartsWith("10.0.2."), StartsWith("10.0.5.")))
          << when;
      // The other service, if it is there, has its own.
      const std::string other = program.UnitOf(Packet("203.0.113.20", flow, kSyn, 50000));
      if (!has_second && other.empty()) continue;
      ASSERT_THAT(other, AnyOf(StartsWith("10.0.3."), StartsWith("10.0.4."))) << when;
    }
  }
  // `work` killed at each of its points, then done whole by one who goes on from there.
  void KillAtEachWriteOf(const std::string& name, const Work& work, const std::string& gone = "none",
                         bool has_second = false) {
    const Saved saved(bed_.OptionsOf("one"));
    ASSERT_FALSE(IsKilled(0, 0, work));
    ASSERT_GT(Log()->count, 0u) << name;
    ASSERT_LT(Log()->count, WriteLog::kMost) << name;
    const std::vector<uint32_t> points = PointsOf(*Log());
    for (const uint32_t point : points) {
      saved.Restore();
      ASSERT_TRUE(IsKilled(point, 0, work)) << name << " " << point;
      const auto [file, line] = Log()->places[point - 1];
      const std::string when = fmt::format("{}, killed after write {}, of {}:{}", name, point, file, line);
      ASSERT_NO_FATAL_FAILURE(ExpectFlows(when, gone));
      ASSERT_FALSE(IsKilled(0, 0, work));
      ASSERT_NO_FATAL_FAILURE(ExpectFlows(when + ", and done again", gone, has_second));
    }
    kills_ += points.size();
    saved.Restore();
  }

  static constexpr int kFlows = 150, kNewFlows = 20;
  std::map<int, std::string> unit_;
  size_t kills_ = 0;
};

TEST_F(WriteKills, InAnyChangeMoveNoEstablishedFlow) {
  const model::Config one = bed_.PoolOf({1, 2}), two = bed_.TwoServices();
  model::Config more = two;
  more.pools[0].servers.push_back(bed_.PoolOf({5}).pools[0].servers[0]);
  more.pools[0].servers[0].key->fill(77);
  more.pools[0].servers[0].units[0].capacity = 2;
  more.pools[0].servers[1].units[1].drain = true;
  auto sw = Start(one);
  ASSERT_TRUE(sw) << error_;
  Establish();
  const auto applies = [&](const model::Config& config) { return [&] { (void)sw->Apply(config); }; };
  ASSERT_NO_FATAL_FAILURE(KillAtEachWriteOf("a service comes", applies(two), "none", true));
  ASSERT_TRUE(sw->Apply(two));
  ASSERT_NO_FATAL_FAILURE(KillAtEachWriteOf("a server comes, one drains", applies(more), "none", true));
  ASSERT_TRUE(sw->Apply(more));
  Establish();  // some of them on server 5
  ASSERT_NO_FATAL_FAILURE(KillAtEachWriteOf("all of that goes", applies(one), "10.0.5."));
  const std::vector<FailingUnit> failing = {{"p", "s1", "cpu", {}, false}};
  ASSERT_NO_FATAL_FAILURE(KillAtEachWriteOf("a unit is ejected", [&] { sw->SetFailing(failing); }));
  EXPECT_GT(kills_, 200u);
}

// The same by a daemon that begins: it knows of what was written only what it finds.
TEST_F(WriteKills, InOneStartAfterTheOtherMoveNoEstablishedFlow) {
  auto sw = Start(bed_.PoolOf({1, 2}));
  ASSERT_TRUE(sw) << error_;
  Establish();
  Kill(sw);
  const model::Config after = bed_.TwoServices();
  uint32_t site = 1;
  for (; IsKilled(0, site, [&] { (void)Switch::Start(after, bed_.OptionsOf("one")); }); site += 2)
    ASSERT_NO_FATAL_FAILURE(ExpectFlows(fmt::format("killed at place {}", site)));
  EXPECT_GT(site, 10u);
  ASSERT_NO_FATAL_FAILURE(ExpectFlows("started", "none", true));
}

}  // namespace
}  // namespace spillway::switching
