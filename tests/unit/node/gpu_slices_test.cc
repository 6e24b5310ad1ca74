// SPDX-License-Identifier: Apache-2.0
// Slices of NVIDIA GPUs that answer.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "gateway/executor/executor_config.h"
#include "gpu_slices_bed.h"
#include "node/node_agent.h"

namespace spillway::node {
namespace {

using scheduler::Profile;
using scheduler::WantedInstance;
using testing::HasSubstr;

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
  EXPECT_THAT(Make(Wanted(2, "c", 500)).error().message, HasSubstr("GPU c: MIG is enabled on it"));
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
              "GPU c: the node agent exited while making its MIG instance");
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
  EXPECT_THAT(dropped.error().message,
              testing::MatchesRegex("GPU c: GPU instance [0-9]+ occupies the slice, has no "
                                    "compute instance and may not be Spillway's: "
                                    "if nothing else uses it, run nvidia-smi mig -dgi -gi [0-9]+"));
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
            "GPU c: NVML: 3g at slice 4: Insufficient Resources; its GPU instance could not be destroyed");
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
  EXPECT_EQ(
      problem("  - {name: w, device: \"0\", gflop_per_s: 1, mig: true}\n"),
      "n.yaml:6: gpus[w].mig: expected false, the current MIG mode of GPU 0 (nvidia-smi -mig changes it)");
  EXPECT_EQ(problem(kCut + "  - {name: d, device: \"1\", gflop_per_s: 1, mig: true}\n"),
            "n.yaml:7: gpus[d].device: expected a GPU that no other entry names, got the one of c");
  EXPECT_THAT(problem("  - {name: w, device: MIG-1, gflop_per_s: 1}\n"),
              HasSubstr("n.yaml:6: gpus[w].device: expected an index as in nvidia-smi or GPU-UUID"));
  EXPECT_THAT(problem(kWhole + "  - {name: e, gflop_per_s: 1}\n"),
              HasSubstr("n.yaml:5: gpus: expected `device` of every GPU or of none"));
  const auto config = ParseNodeConfig(File(kWhole), "n.yaml");
  EXPECT_EQ(SlicesOf(*config, "/no/such/library.so").error().message,
            "n.yaml:6: gpus[w].device: no NVIDIA driver: /no/such/library.so cannot be loaded");
}

}  // namespace
}  // namespace spillway::node
