// SPDX-License-Identifier: Apache-2.0
#include "lab/compute/options.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

namespace spillway::compute {
namespace {

Settings Parse(const std::string& line) {
  CLI::App app;
  Settings settings;
  AddOptions(app, settings);
  app.parse(line);
  return settings;
}

const std::string kAt = "--listen 127.0.0.1:53 ";

TEST(Options, FillEverySetting) {
  const Settings s =
      Parse(kAt + "--protocol tcp --name s1-cpu --workers 4 --queue 9 --seed 3 synthetic --gflop 2.5");
  ASSERT_EQ(s.listen.size(), 1u);
  EXPECT_TRUE(s.tcp && !s.udp);
  EXPECT_EQ(s.name, "s1-cpu");
  EXPECT_EQ(s.workers, 4u);
  EXPECT_EQ(s.queue_limit, 9u);
  EXPECT_EQ(s.seed, 3u);
  EXPECT_EQ(std::get<SyntheticSettings>(s.what).gflop, 2.5);

  const auto vgg16 = std::get<Vgg16Settings>(Parse(kAt + "vgg16 --size 64 --precision bf16").what);
  EXPECT_EQ(vgg16.size, 64);
  EXPECT_EQ(vgg16.precision, Precision::kBf16);

  const auto knn = std::get<KnnSettings>(Parse(kAt + "knn --vectors 500 --dimensions 8 --neighbours 3").what);
  EXPECT_EQ(knn.vectors, 500u);
  EXPECT_EQ(knn.dimensions, 8u);
  EXPECT_EQ(knn.neighbours, 3u);
}

TEST(Options, ThoseOfAllMayStandBehindTheComputation) {
  EXPECT_EQ(Parse("vgg16 --workers 3 " + kAt).workers, 3u);
}

TEST(Options, LeaveWorkingDefaults) {
  EXPECT_EQ(std::get<Vgg16Settings>(Parse(kAt + "vgg16").what).size, 224);
  EXPECT_EQ(std::get<Vgg16Settings>(Parse(kAt + "vgg16").what).precision, Precision::kF32);
  EXPECT_TRUE(Parse(kAt + "knn").udp);
}

TEST(Options, AreCheckedOneByOneAndTogether) {
  for (const char* bad : {"",
                          "juggling",
                          "synthetic vgg16",
                          "synthetic --gflop 0",
                          "synthetic --gflop much",
                          "synthetic --size 32",
                          "vgg16 --size 50",
                          "vgg16 --size 0",
                          "vgg16 --size 544",
                          "vgg16 --size -32",
                          "vgg16 --size 32x",
                          "vgg16 --precision f16",
                          "knn --vectors 0",
                          "knn --dimensions 5000",
                          "knn --neighbours 0",
                          "knn --vectors 5 --neighbours 6",
                          "knn --vectors 100000000 --dimensions 100",
                          "--workers 0 knn",
                          "--workers 2000 knn",
                          "--queue -1 knn"})
    EXPECT_THROW(Parse(kAt + bad), CLI::ParseError) << bad;
  EXPECT_THROW(Parse("knn"), CLI::ParseError) << "nowhere to listen";
}

}  // namespace
}  // namespace spillway::compute
