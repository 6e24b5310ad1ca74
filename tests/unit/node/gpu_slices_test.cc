// SPDX-License-Identifier: Apache-2.0
// Slices of NVIDIA GPUs, against a library with NVML's names (fake_mig.cc).
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "base/machine_boot.h"
#include "gateway/executor/executor_config.h"
#include "node/node_agent.h"
#include "node/node_config.h"
#include "node/slices.h"

namespace spillway::node {
namespace {

using scheduler::Profile;
using scheduler::WantedInstance;
using testing::HasSubstr;

constexpr const char* kUuid = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa";
constexpr const char* kWholeUuid = "GPU-11111111-2222-3333-4444-555555555555";

std::string File(const std::string& gpus) {
  return "name: h\ncontroller: /run/c.sock\ngateway: /run/e.sock\nstate: state\ngpus:\n" + gpus;
}
const std::string kWhole = "  - {name: w, device: \"0\", gflop_per_s: 100}\n";
const std::string kCut = std::string("  - {name: c, device: ") + kUuid + ", gflop_per_s: 70, mig: true}\n";

WantedInstance Wanted(uint64_t id, const std::string& gpu, int milli, std::optional<Profile> profile = {},
                      int start = -1) {
  WantedInstance wanted;
  wanted.instance = id;
  wanted.model.name = "m";
  wanted.model.program = R"({"models": [{"name": "m", "kind": "echo", "row_bytes": 8}]})";
  wanted.place = {"h", gpu, milli, profile, start};
  return wanted;
}

class GpuSlicesTest : public testing::Test {
 protected:
  GpuSlicesTest() : library_(dlopen(FAKE_MIG, RTLD_NOW)) {
    config_ = *ParseNodeConfig(File(kWhole + kCut), "n.yaml");
    slices_ = std::move(*SlicesOf(config_, FAKE_MIG));
  }
  ~GpuSlicesTest() override {
    for (const auto& [one, mark] : made_) (void)slices_->Drop(one, mark, Forget);
    EXPECT_EQ(Instances(), 0u);
    dlclose(library_);
  }
  unsigned Instances() const {
    return reinterpret_cast<unsigned (*)()>(dlsym(library_, "FakeMig_Instances"))();
  }
  void FailOnce(const char* how) const {
    reinterpret_cast<void (*)(const char*)>(dlsym(library_, "FakeMig_Fail"))(how);
  }
  void Lose(unsigned gpu, bool is_lost) const {
    reinterpret_cast<void (*)(unsigned, bool)>(dlsym(library_, "FakeMig_Lose"))(gpu, is_lost);
  }
  void Hang(unsigned gpu, bool hangs) const {
    reinterpret_cast<void (*)(unsigned, bool)>(dlsym(library_, "FakeMig_Hang"))(gpu, hangs);
  }
  void SomebodyElseEndsAll() const { reinterpret_cast<void (*)()>(dlsym(library_, "FakeMig_EndAll"))(); }
  void SomebodyElseMakes3gAt(unsigned start, bool computes) const {
    reinterpret_cast<void (*)(unsigned, bool)>(dlsym(library_, "FakeMig_Make3gAt"))(start, computes);
  }
  // The marks that are kept, in order. The program is killed once so many are, or before the last of them.
  struct Killed {};
  Slices::Remember Kept(size_t kill_at = 100, bool is_before = false) {
    kept_.clear();
    return [this, kill_at, is_before](const std::string& mark) -> Result<void> {
      if (kept_.size() + 1 == kill_at && is_before) throw Killed();
      kept_.push_back(mark);
      if (kept_.size() == kill_at) throw Killed();
      return {};
    };
  }
  static Result<void> Forget(const std::string&) { return {}; }
  // The next program, of whose predecessor's marks the last was kept.
  std::unique_ptr<Slices> Restarted(const WantedInstance& one) const {
    auto next = std::move(*SlicesOf(config_, FAKE_MIG));
    next->Restore(one);
    return next;
  }
  std::string LastKept() const { return kept_.empty() ? "" : kept_.back(); }
  Result<std::string> Make(const WantedInstance& wanted) {
    auto made = slices_->Make(wanted, Forget);
    if (made) made_.emplace_back(wanted, *made);
    return made;
  }
  std::string MarkOf(const WantedInstance& wanted) const {
    for (const auto& [one, mark] : made_)
      if (one.instance == wanted.instance) return mark;
    return "";
  }
  Result<void> Drop(const WantedInstance& wanted) { return slices_->Drop(wanted, MarkOf(wanted), Forget); }
  Result<std::optional<SliceDevice>> DeviceOf(const WantedInstance& wanted) {
    return slices_->DeviceOf(wanted, MarkOf(wanted));
  }

  void* library_;
  NodeConfig config_;
  std::unique_ptr<Slices> slices_;
  std::vector<std::pair<WantedInstance, std::string>> made_;
  std::vector<std::string> kept_;
};

TEST_F(GpuSlicesTest, AProfileIsAMigInstanceThatTheExecutorIsToldOf) {
  const WantedInstance first = Wanted(1, "c", 250, Profile::k2g, 0),
                       second = Wanted(2, "c", 140, Profile::k1gMem, 4);
  const WantedInstance like_first = Wanted(4, "c", 250, Profile::k2g, 2);
  ASSERT_TRUE(Make(first));
  ASSERT_TRUE(Make(second));
  ASSERT_TRUE(Make(like_first));
  EXPECT_EQ(Instances(), 3u);
  std::set<std::string> devices;
  for (const WantedInstance& one : {first, second, like_first}) {
    const auto device = DeviceOf(one);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ((*device)->sm_percent, 100);
    devices.insert((*device)->device);
    const auto file = gateway::ParseExecutorConfig(*ExecutorFile(config_, one, *device), "e.yaml");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(file->cuda);
    EXPECT_EQ(file->places.at(0).device, (*device)->device);
  }
  EXPECT_EQ(devices.size(), 3u);
  for (const std::string& device : devices) EXPECT_THAT(device, testing::StartsWith("MIG-"));
  ASSERT_TRUE(Drop(first));
  EXPECT_EQ(Instances(), 2u);
  ASSERT_TRUE(DeviceOf(like_first));
  ASSERT_TRUE(Drop(first)) << "nothing, where there is none";
  ASSERT_TRUE(Make(Wanted(3, "c", 140, Profile::k1g, 1))) << "its place is free again";
}

TEST_F(GpuSlicesTest, AShareIsOneOfTheMultiprocessorsOfAGpuWithoutMig) {
  const WantedInstance quarter = Wanted(1, "w", 255);
  ASSERT_TRUE(Make(quarter));
  EXPECT_EQ(**DeviceOf(quarter), (SliceDevice{"GPU-11111111-2222-3333-4444-555555555555", 25}));
  EXPECT_EQ((*DeviceOf(Wanted(2, "w", 5)))->sm_percent, 1);
  EXPECT_THAT(Make(Wanted(2, "w", 800)).error().message, HasSubstr("exceeds what is free"));
  EXPECT_THAT(Make(Wanted(2, "c", 500)).error().message, HasSubstr("GPU c: it is divided by MIG"));
  EXPECT_EQ(Instances(), 0u);
}

TEST_F(GpuSlicesTest, WhatTheGpuRefusesLeavesNothing) {
  FailOnce("compute");
  EXPECT_EQ(Make(Wanted(1, "c", 400, Profile::k3g, 4)).error().message,
            "GPU c: NVML: 3g at slice 4: Insufficient Resources");
  EXPECT_EQ(Instances(), 0u);
  ASSERT_TRUE(Make(Wanted(2, "c", 400, Profile::k3g, 4)));
  // One that somebody else made there: the book does not know it.
  auto others = SlicesOf(config_, FAKE_MIG);
  EXPECT_EQ((*others)->Make(Wanted(3, "c", 140, Profile::k1g, 5), Forget).error().message,
            "GPU c: NVML: 1g at slice 5: Insufficient Resources");
  const auto third = (*others)->Make(Wanted(3, "c", 140, Profile::k1g, 0), Forget);
  ASSERT_TRUE(third) << "nor does it keep what was refused";
  EXPECT_TRUE((*others)->Drop(Wanted(3, "c", 140, Profile::k1g, 0), *third, Forget));
}

TEST_F(GpuSlicesTest, AnInstanceInUseStaysAndIsGivenBackLater) {
  const WantedInstance one = Wanted(1, "c", 1000, Profile::k7g, 0);
  ASSERT_TRUE(Make(one));
  FailOnce("busy");
  EXPECT_EQ(Drop(one).error().message, "GPU c: NVML: end a compute instance: In use by another client");
  EXPECT_EQ(Instances(), 1u);
  EXPECT_TRUE(Drop(one));
  EXPECT_EQ(DeviceOf(one).error().message, "GPU c: its MIG instance is gone");
}

TEST_F(GpuSlicesTest, TheNextProgramFindsWhatThisOneMade) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  ASSERT_TRUE(Make(one));
  auto next = SlicesOf(config_, FAKE_MIG);
  (*next)->Restore(one);
  EXPECT_EQ(**(*next)->DeviceOf(one, MarkOf(one)), **DeviceOf(one));
  EXPECT_FALSE((*next)->Make(Wanted(2, "c", 140, Profile::k1g, 6), Forget));
  EXPECT_TRUE((*next)->Drop(one, MarkOf(one), Forget));
}

TEST_F(GpuSlicesTest, AGpuInstanceThatStaysWithoutItsComputeInstanceIsEndedLater) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  const std::string mark = *slices_->Make(one, Kept());
  FailOnce("kept");
  EXPECT_EQ(slices_->Drop(one, mark, Kept()).error().message,
            "GPU c: NVML: end a GPU instance: In use by another client");
  EXPECT_EQ(Instances(), 1u);
  EXPECT_FALSE(slices_->DeviceOf(one, LastKept()));
  EXPECT_FALSE(slices_->Make(Wanted(2, "c", 140, Profile::k1g, 6), Forget)) << "its place is not free";
  // By this program, or by the next.
  FailOnce("kept");
  EXPECT_FALSE(slices_->Drop(one, LastKept(), Forget));
  EXPECT_EQ(Instances(), 1u);
  const auto dropped = Restarted(one)->Drop(one, LastKept(), Forget);
  EXPECT_TRUE(dropped) << dropped.error().message;
  EXPECT_EQ(Instances(), 0u);
}

TEST_F(GpuSlicesTest, KilledBetweenTheEndsOfItsTwoPartsTheNextProgramEndsTheRest) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  const std::string mark = *slices_->Make(one, Kept());
  EXPECT_THROW((void)slices_->Drop(one, mark, Kept(1)), Killed);
  EXPECT_TRUE(Restarted(one)->Drop(one, LastKept(), Forget));
  EXPECT_EQ(Instances(), 0u);
}

TEST_F(GpuSlicesTest, KilledAtAnyPointOfMakingOneTheNextProgramKnowsWhatIsIts) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  struct Point {
    size_t mark;
    bool is_before;
    unsigned left;
  };
  for (const auto& [mark, is_before, left] : {Point{1, false, 0}, Point{2, false, 1}, Point{3, true, 1}}) {
    SCOPED_TRACE(testing::Message() << "mark " << mark << (is_before ? ", before" : ", after"));
    auto killed = std::move(*SlicesOf(config_, FAKE_MIG));
    if (mark < 3) {
      EXPECT_THROW((void)killed->Make(one, Kept(mark, is_before)), Killed);
    } else {
      ASSERT_TRUE(killed->Make(one, Kept()));  // and its mark is not kept
    }
    EXPECT_EQ(Instances(), left);
    const auto next = Restarted(one);
    EXPECT_EQ(next->DeviceOf(one, LastKept()).error().message,
              "GPU c: the node agent ended while it made its MIG instance");
    const auto dropped = next->Drop(one, LastKept(), Forget);
    EXPECT_TRUE(dropped) << dropped.error().message;
    EXPECT_EQ(Instances(), 0u);
  }
}

// Between the driver's call and the file's rename nothing tells ours from another's.
TEST_F(GpuSlicesTest, KilledBeforeAGpuInstancesIdWasKeptItIsNamedAndKeepsItsPlace) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  EXPECT_THROW((void)slices_->Make(one, Kept(2, true)), Killed);
  ASSERT_EQ(Instances(), 1u);
  const auto next = Restarted(one);
  const auto dropped = next->Drop(one, LastKept(), Forget);
  ASSERT_FALSE(dropped);
  EXPECT_THAT(dropped.error().message, testing::MatchesRegex("GPU c: GPU instance [0-9]+ at its place has no "
                                                             "compute instance and may be somebody else's: "
                                                             "nvidia-smi mig -dgi -gi [0-9]+, if it is not"));
  EXPECT_EQ(Instances(), 1u);
  EXPECT_FALSE(next->Make(Wanted(2, "c", 400, Profile::k3g, 4), Forget));
  SomebodyElseEndsAll();
  EXPECT_TRUE(next->Drop(one, LastKept(), Forget));
}

TEST_F(GpuSlicesTest, WhatIsLeftOfOneThatCouldNotBeMadeIsEndedLater) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  FailOnce("compute kept");
  const auto made = slices_->Make(one, Kept());
  EXPECT_EQ(made.error().message,
            "GPU c: NVML: 3g at slice 4: Insufficient Resources; its GPU instance stays");
  ASSERT_NE(LastKept(), "");
  EXPECT_TRUE(slices_->Drop(one, LastKept(), Forget));
  EXPECT_EQ(Instances(), 0u);
  FailOnce("compute");
  EXPECT_FALSE(slices_->Make(one, Kept()));
  EXPECT_EQ(LastKept(), "") << "nothing is left";
}

TEST_F(GpuSlicesTest, NothingIsMadeThatCouldNotBeWrittenDownBefore) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  for (const size_t good : {0, 1}) {
    size_t marks = 0;
    const auto made = slices_->Make(one, [&](const std::string&) -> Result<void> {
      if (marks++ == good) return Fail(ErrorCode::kSystem, "write 1.json: No space left on device");
      return {};
    });
    EXPECT_EQ(made.error().message, "GPU c: write 1.json: No space left on device");
    EXPECT_EQ(Instances(), 0u);
  }
}

TEST_F(GpuSlicesTest, WhatSomebodyElseMadeWhileNoProgramRanIsLeftAlone) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  const auto expect_left_alone = [&](bool computes) {
    SomebodyElseEndsAll();
    SomebodyElseMakes3gAt(4, computes);
    const auto next = Restarted(one);
    EXPECT_FALSE(next->DeviceOf(one, LastKept()));
    (void)next->Drop(one, LastKept(), Forget);
    EXPECT_EQ(Instances(), 1u) << LastKept() << (computes ? "" : ", without a compute instance");
    SomebodyElseEndsAll();
  };
  for (const bool computes : {true, false}) {
    for (const size_t mark : {1, 2}) {
      EXPECT_THROW((void)Restarted(one)->Make(one, Kept(mark)), Killed);
      expect_left_alone(computes);
    }
    std::string mark = *Restarted(one)->Make(one, Kept());
    kept_ = {mark};
    expect_left_alone(computes);
    mark = *Restarted(one)->Make(one, Kept());
    FailOnce("kept");
    EXPECT_FALSE(Restarted(one)->Drop(one, mark, Kept()));
    expect_left_alone(computes);
  }
}

TEST_F(GpuSlicesTest, WhatSomebodyElseMadeInItsPlaceIsNeitherUsedNorEnded) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4),
                       theirs = Wanted(2, "c", 400, Profile::k3g, 4);
  const std::string mark = *slices_->Make(one, Forget);
  ASSERT_TRUE(slices_->Drop(one, mark, Forget));
  ASSERT_TRUE(Make(theirs));
  for (const std::string& old :
       {mark, std::string(), "another-boot" + MarkOf(theirs).substr(MarkOf(theirs).find(' '))}) {
    EXPECT_FALSE(slices_->DeviceOf(one, old)) << old;
    EXPECT_TRUE(slices_->Drop(one, old, Forget)) << old;
    EXPECT_EQ(Instances(), 1u) << old;
  }
}

TEST_F(GpuSlicesTest, WhereMigWasSwitchedOffOrTheGpuHasAnotherNameARecordStillEnds) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 4);
  ASSERT_TRUE(Make(one));
  const auto off = MakeGpuSlices({{"c", "A100-40", 0, false}}, {{"c", kUuid}}, nullptr, nullptr, "boot");
  EXPECT_FALSE(off->DeviceOf(one, MarkOf(one)));
  EXPECT_TRUE(off->Drop(one, MarkOf(one), Forget));
  const auto renamed = SlicesOf(
      *ParseNodeConfig(
          File(std::string("  - {name: d, device: ") + kUuid + ", gflop_per_s: 70, mig: true}\n"), "n.yaml"),
      FAKE_MIG);
  EXPECT_TRUE((*renamed)->Drop(one, MarkOf(one), Forget));
  EXPECT_EQ(Instances(), 0u);
}

// Until it is seen: a watch asks when it likes.
template <class Done>
void Await(const Done& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), until);
    std::this_thread::yield();
  }
}

constexpr GpuWatchTimes kOften{.ask_again = std::chrono::milliseconds(1),
                               .patience = std::chrono::milliseconds(1000)};

TEST_F(GpuSlicesTest, AGpuThatFallsOffTheBusIsLostUntilItAnswersAgain) {
  const auto watch = std::move(*GpuWatch::Open({{"w", kWholeUuid}, {"c", kUuid}}, FAKE_MIG, kOften));
  EXPECT_THAT(watch->Lost(), testing::IsEmpty());
  Lose(0, true);
  Await([&] { return watch->Lost().count("w") != 0; });
  EXPECT_THAT(watch->Lost(), testing::ElementsAre(testing::Pair("w", "NVML: is it there: GPU is lost")));
  Lose(0, false);
  Await([&] { return watch->Lost().empty(); });
}

TEST_F(GpuSlicesTest, AGpuWhoseDriverHangsIsLostAndHoldsUpNobody) {
  auto watch = std::move(*GpuWatch::Open({{"w", kWholeUuid}, {"c", kUuid}}, FAKE_MIG, kOften));
  Hang(1, true);
  Await([&] { return watch->Lost().count("c") != 0; });
  EXPECT_THAT(watch->Lost(), testing::ElementsAre(testing::Pair("c", "its driver has not answered for 1 s")));
  watch.reset();  // ends though that question is never answered
  watch = std::move(*GpuWatch::Open({{"w", kWholeUuid}}, FAKE_MIG, kOften));
  EXPECT_THAT(watch->Lost(), testing::IsEmpty());
  Hang(1, false);
}

TEST_F(GpuSlicesTest, NothingIsMadeOrEndedOnALostGpu) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 0), share = Wanted(2, "w", 500);
  ASSERT_TRUE(Make(one) && Make(share));
  Lose(0, true);
  Lose(1, true);
  Await([&] { return slices_->Lost().size() == 2; });
  for (const auto& other : {Wanted(3, "c", 400, Profile::k3g, 4), Wanted(4, "w", 100)})
    EXPECT_THAT(Make(other).error().message, HasSubstr("NVML: is it there: GPU is lost"));
  EXPECT_EQ(DeviceOf(one).error().message, "NVML: is it there: GPU is lost");
  EXPECT_EQ(Drop(one).error().message, "GPU c: NVML: is it there: GPU is lost");
  EXPECT_TRUE(Drop(share));  // nothing of it is on the GPU
  Lose(0, false);
  Lose(1, false);
  Await([&] { return slices_->Lost().empty(); });
  EXPECT_TRUE(Drop(one));
  EXPECT_EQ(Instances(), 0u);
}

TEST_F(GpuSlicesTest, ALostGpuDoesNotKeepTheProgramFromItsStart) {
  Lose(1, true);
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 0);
  auto slices = SlicesOf(config_, FAKE_MIG);
  ASSERT_TRUE(slices) << slices.error().message;
  EXPECT_THAT((*slices)->Lost(), testing::ElementsAre(testing::Pair(
                                     "c", fmt::format("this machine has no GPU {} that answers", kUuid))));
  EXPECT_TRUE((*slices)->Make(Wanted(2, "w", 500), Forget));
  (*slices)->Restore(one);  // of the program before; nobody knows whether it is still there
  EXPECT_FALSE((*slices)->Drop(one, fmt::format("{} {} MIG-1 7", base::BootId(), kUuid), Forget));
  Lose(1, false);
}

TEST(GpuFile, IsCheckedAgainstWhatIsThere) {
  const auto problem = [](const std::string& gpus) {
    const auto config = ParseNodeConfig(File(gpus), "n.yaml");
    if (!config) return config.error().message;
    const auto slices = SlicesOf(*config, FAKE_MIG);
    return slices ? std::string() : slices.error().message;
  };
  EXPECT_EQ(problem(kWhole + kCut), "");
  EXPECT_EQ(problem("  - {name: w, device: \"7\", gflop_per_s: 1}\n"),
            "n.yaml:6: gpus[w].device: this machine has no GPU 7");
  EXPECT_EQ(problem("  - {name: w, device: \"0\", gflop_per_s: 1, mig: true}\n"),
            "n.yaml:6: gpus[w].mig: expected false, as GPU 0 is (nvidia-smi -mig changes it)");
  EXPECT_EQ(problem(kCut + "  - {name: d, device: \"1\", gflop_per_s: 1, mig: true}\n"),
            "n.yaml:7: gpus[d].device: it is that of c, too");
  EXPECT_THAT(problem("  - {name: w, device: MIG-1, gflop_per_s: 1}\n"),
              HasSubstr("n.yaml:6: gpus[w].device: expected an index as in nvidia-smi or GPU-UUID"));
  EXPECT_THAT(problem(kWhole + "  - {name: e, gflop_per_s: 1}\n"),
              HasSubstr("n.yaml:5: gpus: expected `device` of every GPU or of none"));
  const auto config = ParseNodeConfig(File(kWhole), "n.yaml");
  EXPECT_EQ(SlicesOf(*config, "/no/such/library.so").error().message,
            "no NVIDIA driver: /no/such/library.so cannot be loaded");
}

}  // namespace
}  // namespace spillway::node
