// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/program_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::gateway {
namespace {

using testing::HasSubstr;

const std::vector<CudaDevice> kAlike = {{"GPU-a1", "H100", 0, "", false, 0},
                                        {"GPU-b2", "H100", 1, "", true, 0},
                                        {"MIG-c3", "H100 MIG 1g", 1, "GPU-b2", false, 0}};

std::string Gpu(const GpuWishes& wishes, const std::vector<CudaDevice>& devices = kAlike) {
  const auto gpu = ProgramGpu(wishes, devices);
  return gpu ? *gpu : gpu.error().message;
}

TEST(ProgramGpu, IsWhatTheProgramNamesOrTheFirstThatCudaShows) {
  EXPECT_EQ(Gpu({}), "GPU-a1");
  EXPECT_EQ(Gpu({.visible = "1,0"}), "GPU-b2");
  EXPECT_EQ(Gpu({.visible = "GPU-b"}), "GPU-b2") << "CUDA takes beginnings";
  EXPECT_EQ(Gpu({.visible = ""}), "");
  EXPECT_EQ(Gpu({.visible = "-1"}), "");
  EXPECT_EQ(Gpu({.named = "1", .visible = "0"}), "GPU-b2");
  EXPECT_EQ(Gpu({.named = "none"}), "");
  EXPECT_EQ(Gpu({}, {}), "") << "no driver, no GPU";
}

TEST(ProgramGpu, IsTheOneOfItsNumberAmongThoseThatCudaShows) {
  EXPECT_EQ(Gpu({.ordinal = 1}), "GPU-b2");
  EXPECT_EQ(Gpu({.visible = "1,0", .ordinal = 1}), "GPU-a1");
  EXPECT_EQ(Gpu({.visible = "1,MIG-c3", .ordinal = 1}), "GPU-b2");
  EXPECT_EQ(Gpu({.visible = "1", .ordinal = 1}), "") << "CUDA shows it no such device";
  EXPECT_EQ(Gpu({.named = "0", .ordinal = 1}), "GPU-a1") << "what is named goes first";
}

TEST(ProgramGpu, OfAnInstanceIsItsGpu) {
  EXPECT_EQ(Gpu({.named = "MIG-c3"}), "GPU-b2");
  EXPECT_EQ(Gpu({.visible = "MIG-c3"}), "GPU-b2");
}

TEST(ProgramGpu, IsNotGuessed) {
  EXPECT_THAT(Gpu({.named = "7"}), HasSubstr("expected none, an index as in nvidia-smi"));
  EXPECT_THAT(Gpu({.named = "0"}, {}), HasSubstr("got 0"));
  const std::vector<CudaDevice> unlike = {{"GPU-a1", "T4", 0, "", false, 0},
                                          {"GPU-b2", "H100", 1, "", false, 0}};
  EXPECT_THAT(Gpu({}, unlike), HasSubstr("their order in CUDA is not known"));
  EXPECT_EQ(Gpu({.by_bus = true}, unlike), "GPU-a1");
  EXPECT_EQ(Gpu({.named = "1"}, unlike), "GPU-b2");
}

}  // namespace
}  // namespace spillway::gateway
