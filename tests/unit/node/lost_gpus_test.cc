// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs that fall off the bus, or whose driver hangs.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "base/machine_boot.h"
#include "gpu_slices_bed.h"
#include "node/gpu_watch.h"
#include "node/patient_mig.h"

namespace spillway::node {
namespace {

using scheduler::Profile;
using scheduler::WantedInstance;
using testing::HasSubstr;

using LostGpus = GpuSlicesTest;

// Until it is seen: a watch asks when it likes.
template <class Done>
void Await(const Done& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), until);
    std::this_thread::yield();
  }
}

TEST_F(LostGpus, AGpuThatFallsOffTheBusIsLostUntilItAnswersAgain) {
  const auto watch = std::move(*GpuWatch::Open({{"w", kWholeUuid}, {"c", kUuid}}, FAKE_MIG, kOften));
  EXPECT_THAT(watch->Lost(), testing::IsEmpty());
  Lose(0, true);
  Await([&] { return watch->Lost().count("w") != 0; });
  EXPECT_THAT(watch->Lost(), testing::ElementsAre(testing::Pair("w", "NVML: presence check: GPU is lost")));
  Lose(0, false);
  Await([&] { return watch->Lost().empty(); });
}

TEST_F(LostGpus, AGpuThatComesAndGoesStaysLost) {
  GpuWatchTimes times = kOften;
  times.steady = std::chrono::hours(1);
  const auto watch = std::move(*GpuWatch::Open({{"w", kWholeUuid}, {"c", kUuid}}, FAKE_MIG, times));
  Lose(0, true);
  Await([&] { return watch->Lost().count("w") != 0; });
  Lose(0, false);
  const unsigned before = Answers();
  Await([&] { return Answers() > before + 400; });
  EXPECT_EQ(watch->Lost().count("w"), 1u);
}

TEST_F(LostGpus, AGpuWhoseDriverHangsIsLostAndHoldsUpNobody) {
  GpuWatchTimes times = kOften;
  times.patience = std::chrono::seconds(1);
  auto watch = std::move(*GpuWatch::Open({{"w", kWholeUuid}, {"c", kUuid}}, FAKE_MIG, times));
  Hang(0, true);
  Await([&] { return watch->Lost().count("w") != 0; });
  EXPECT_THAT(watch->Lost(), testing::ElementsAre(testing::Pair("w", "its driver has not answered for 1 s")));
  // The other GPU serves on.
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 0);
  ASSERT_TRUE(Make(one));
  EXPECT_TRUE(DeviceOf(one));
  EXPECT_TRUE(Drop(one));
  watch.reset();  // ends though that question is never answered
  Hang(0, false);
}

TEST_F(LostGpus, WhatIsAskedOfAGpuThatHangsIsGivenUp) {
  const auto mig = MakePatientMig(std::move(*Mig::Open(FAKE_MIG)), std::chrono::seconds(2));
  const MigPlace place{kUuid, Profile::k3g, 0};
  Hang(1, true);
  int remembered = 0;
  const auto remember = [&](unsigned) -> Result<void> {
    ++remembered;
    return {};
  };
  EXPECT_EQ(mig->Make(place, remember).error().message, "its driver has not answered for 2 s");
  EXPECT_EQ(mig->Find(place).error().message, "its driver has not answered for 2 s");
  EXPECT_TRUE(mig->Find({kWholeUuid, Profile::k3g, 0})) << "another GPU";
  Hang(1, false);
  // What was begun ends itself.
  Await([&] { return mig->Find(place).has_value(); });
  EXPECT_EQ(*mig->Find(place), std::nullopt);
  EXPECT_EQ(remembered, 0);
  const auto made = mig->Make(place, remember);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(remembered, 1);
  const auto there = mig->Find(place);
  ASSERT_TRUE(there && *there);
  EXPECT_TRUE(mig->Drop(place, (*there)->id));
}

// Until the call has come to its end nobody knows whether something is there.
TEST_F(LostGpus, ASliceWhoseMakingWasGivenUpKeepsItsPlaceUntilTheGpuAnswers) {
  auto mig = MakePatientMig(std::move(*Mig::Open(FAKE_MIG)), std::chrono::seconds(2));
  const auto slices =
      MakeGpuSlices(config_.gpus, {{"w", kWholeUuid}, {"c", kUuid}}, std::move(mig), nullptr, base::BootId());
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 0);
  Hang(1, true);
  EXPECT_FALSE(slices->Make(one, Kept()));
  ASSERT_FALSE(LastKept().empty());
  EXPECT_FALSE(slices->Drop(one, LastKept(), Forget));
  EXPECT_FALSE(slices->Make(Wanted(2, "c", 400, Profile::k3g, 0), Forget)) << "its place";
  Hang(1, false);
  Await([&] { return slices->Drop(one, LastKept(), Forget).has_value(); });
  EXPECT_EQ(Instances(), 0u);
}

TEST_F(LostGpus, AnErrorThatSaysNothingCountsOnlyWhereItComesAgainAndAgain) {
  const auto watch = std::move(*GpuWatch::Open({{"w", kWholeUuid}, {"c", kUuid}}, FAKE_MIG, kOften));
  AnswerUnknown(0, 2);
  const unsigned before = Answers();
  Await([&] { return Answers() > before + 400; });
  EXPECT_THAT(watch->Lost(), testing::IsEmpty());
  AnswerUnknown(0, 1'000'000);
  Await([&] { return watch->Lost().count("w") != 0; });
  AnswerUnknown(0, 0);
  Await([&] { return watch->Lost().empty(); });
}

TEST_F(LostGpus, NothingIsMadeOrEndedOnALostGpu) {
  const WantedInstance one = Wanted(1, "c", 400, Profile::k3g, 0), share = Wanted(2, "w", 500);
  ASSERT_TRUE(Make(one) && Make(share));
  Lose(0, true);
  Lose(1, true);
  Await([&] { return slices_->Lost().size() == 2; });
  for (const auto& other : {Wanted(3, "c", 400, Profile::k3g, 4), Wanted(4, "w", 100)})
    EXPECT_THAT(Make(other).error().message, HasSubstr("NVML: presence check: GPU is lost"));
  EXPECT_EQ(DeviceOf(one).error().message, "NVML: presence check: GPU is lost");
  EXPECT_EQ(Drop(one).error().message, "GPU c: NVML: presence check: GPU is lost");
  EXPECT_TRUE(Drop(share));  // nothing of it is on the GPU
  Lose(0, false);
  Lose(1, false);
  Await([&] { return slices_->Lost().empty(); });
  EXPECT_TRUE(Drop(one));
  EXPECT_EQ(Instances(), 0u);
}

TEST_F(LostGpus, ALostGpuDoesNotKeepTheProgramFromItsStart) {
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

}  // namespace
}  // namespace spillway::node
