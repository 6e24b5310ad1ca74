// SPDX-License-Identifier: Apache-2.0
// What only a card can show; skipped where there is none. tests/gpu/run asks for these.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "gateway/executor/cuda_engine.h"
#include "model_specs.h"

namespace spillway::gateway {
namespace {

// The GPU or MIG instance that is asked, as executor.yaml's `device`.
std::string CardOfTests() {
  const char* const given = std::getenv("SPILLWAY_CUDA_DEVICE");
  return given != nullptr ? given : "0";
}

// nullptr: there is no GPU, or none in this build.
std::unique_ptr<CudaDriver> CardDriverOfTests() {
  auto driver = MakeCudaDriver();
  if (!driver) return nullptr;
  const auto devices = (*driver)->Devices();
  return devices && !devices->empty() ? std::move(*driver) : nullptr;
}

class CudaCardTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = CardDriverOfTests();
    if (!driver) GTEST_SKIP() << "no GPU";
    auto engine = MakeCudaEngine(specs_, {{"g", "s", CardOfTests(), 100}}, std::move(driver));
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
  }

  std::vector<ModelSpec> specs_ = {Mlp({70, 333, 501, 1029, 9}, 4, 130), ProductOf(200, 300, 170),
                                   Echo(1000, 16), Mlp({16384, 4}, 2, 5), Mlp({1, 1}, 3, 2)};
  std::unique_ptr<Engine> engine_;
};

TEST_F(CudaCardTest, SlicesOfOneCardAnswerAsTheEmulatedEngineDoesAtOnce) {
  auto emulated = MakeEmulatedEngine(specs_);
  const SliceOffer offer{"s", "g", 1e6, 1, 1 << 20, 1 << 20};
  const auto ask = [&](unsigned seed) {
    std::vector<std::byte> memory(2 << 20);
    auto slice = engine_->MakeSlice(offer, {memory});
    ASSERT_TRUE(slice) << slice.error().message;
    auto other = (*emulated)->MakeSlice(offer, {});
    std::mt19937 random(seed);
    for (uint32_t model = 0; model < specs_.size(); model++)
      for (int64_t rows = 1; rows <= engine_->models()[model].most_rows; rows += rows < 8 ? 1 : 61) {
        SCOPED_TRACE(testing::Message() << "model " << model << ", rows " << rows);
        const ModelCard& card = engine_->models()[model];
        const auto inputs = std::span(memory).first(card.InputBytes(rows));
        const auto outputs = std::span(memory).subspan(1 << 20, card.OutputBytes(rows));
        for (size_t i = 0; i + 4 <= inputs.size(); i += 4) {
          const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
          std::memcpy(inputs.data() + i, &value, 4);
        }
        std::vector<std::byte> expected(outputs.size());
        ASSERT_TRUE((*other)->Run(model, rows, inputs, expected));
        const auto ran = (*slice)->Run(model, rows, inputs, outputs);
        ASSERT_TRUE(ran) << ran.error().message;
        for (size_t i = 0; i + 4 <= outputs.size(); i += 4) {
          float got, wanted;
          std::memcpy(&got, outputs.data() + i, 4);
          std::memcpy(&wanted, expected.data() + i, 4);
          ASSERT_NEAR(got, wanted, 1e-3) << i;
        }
      }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; i++) threads.emplace_back(ask, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaCardTest, WhatWasPinnedIsFreeForTheNextSlice) {
  std::vector<std::byte> memory(1 << 20);
  for (int i = 0; i < 3; i++) {
    const auto slice = engine_->MakeSlice({"s", "g", 1e6, 1, 4096, 4096}, {memory});
    ASSERT_TRUE(slice) << slice.error().message;
    const auto twice = engine_->MakeSlice({"s", "g", 1e6, 1, 4096, 4096}, {memory});
    ASSERT_FALSE(twice) << "pinned twice";
    EXPECT_EQ(twice.error().code, ErrorCode::kSystem) << "the device is not lost by it";
  }
}

// Without an RDMA device: what it would write, a copy does.
TEST_F(CudaCardTest, InputsThatAreOnTheCardAreUsedThere) {
  const SliceOffer offer{"s", "g", 1e6, 2, 1 << 20, 1 << 20};
  auto inputs = engine_->MakeInputs(offer, CellLayout(offer).HostPart());
  if (!inputs) GTEST_SKIP() << inputs.error().message;
  const auto dmabuf = (*inputs)->Export();
  fmt::print("measured: dmabuf: {}\n", dmabuf ? "exported" : dmabuf.error().message);
  const CellLayout layout(offer);
  std::vector<std::byte> host(layout.Bytes() - layout.HostPart());
  auto slice = engine_->MakeSlice(offer, {host, inputs->get()});
  ASSERT_TRUE(slice) << slice.error().message;
  auto emulated = MakeEmulatedEngine(specs_);
  auto other = (*emulated)->MakeSlice(offer, {});
  auto writer = MakeCudaDriver();
  ASSERT_TRUE(writer);
  const auto devices = FindCudaDevices(**writer, {{"g", "s", CardOfTests(), 100}});
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_TRUE((*writer)->Use(*devices));
  auto queue = (*writer)->Open(devices->front(), 100);
  ASSERT_TRUE(queue) << queue.error().message;
  std::mt19937 random(1);
  for (uint32_t model = 0; model < specs_.size(); model++) {
    SCOPED_TRACE(testing::Message() << "model " << model);
    const ModelCard& card = engine_->models()[model];
    std::vector<std::byte> given(card.InputBytes(1)), expected(card.OutputBytes(1));
    for (size_t i = 0; i + 4 <= given.size(); i += 4) {
      const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
      std::memcpy(given.data() + i, &value, 4);
    }
    const auto there = (*inputs)->bytes().subspan(layout.Input(1), given.size());
    ASSERT_TRUE((*queue)->CopyIn(there.data(), given));
    ASSERT_TRUE((*queue)->Wait());
    const auto outputs = std::span(host).first(expected.size());
    ASSERT_TRUE((*other)->Run(model, 1, given, expected));
    const auto ran = (*slice)->Run(model, 1, there, outputs);
    ASSERT_TRUE(ran) << ran.error().message;
    for (size_t i = 0; i + 4 <= outputs.size(); i += 4) {
      float got, wanted;
      std::memcpy(&got, outputs.data() + i, 4);
      std::memcpy(&wanted, expected.data() + i, 4);
      ASSERT_NEAR(got, wanted, 1e-3) << i;
    }
  }
}

// A product that fills the card, by slices that have a share of it each. tests/gpu/run keeps the times.
TEST(CudaMpsTest, SharesOfTheCardAnswerAlike) {
  auto driver = CardDriverOfTests();
  if (!driver) GTEST_SKIP() << "no GPU";
  std::vector<CudaPlace> places;
  for (const int percent : {100, 50, 25, 10})
    places.push_back({"g", "s" + std::to_string(percent), CardOfTests(), percent});
  constexpr int64_t kRows = 512;
  auto engine = MakeCudaEngine({Mlp({64, 4096, 4096, 4096, 16}, 1, kRows)}, places, std::move(driver));
  if (!engine) GTEST_SKIP() << engine.error().message;  // such as an instance, which has no shares
  const ModelCard& card = (*engine)->models()[0];
  std::vector<std::byte> memory(card.InputBytes(kRows) + card.OutputBytes(kRows));
  const auto inputs = std::span(memory).first(card.InputBytes(kRows));
  const auto outputs = std::span(memory).subspan(inputs.size());
  for (size_t i = 0; i + 4 <= inputs.size(); i += 4) {
    const float value = static_cast<float>(i % 201) / 100.0f - 1.0f;
    std::memcpy(inputs.data() + i, &value, 4);
  }
  std::vector<std::byte> expected;
  for (const CudaPlace& place : places) {
    auto slice = (*engine)->MakeSlice({place.slice, "g", 1e6, 1, inputs.size(), outputs.size()}, {memory});
    if (!slice) GTEST_SKIP() << slice.error().message;
    double best_ms = 1e9;
    for (int i = 0; i < 10; i++) {
      const auto begun = std::chrono::steady_clock::now();
      const auto ran = (*slice)->Run(0, kRows, inputs, outputs);
      ASSERT_TRUE(ran) << ran.error().message;
      best_ms = std::min(
          best_ms,
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count());
    }
    fmt::print("measured: sm_percent {}: {:.3f} ms\n", place.sm_percent, best_ms);
    RecordProperty("ms_at_" + std::to_string(place.sm_percent), fmt::format("{:.3f}", best_ms));
    if (expected.empty()) expected.assign(outputs.begin(), outputs.end());
    // How k is cut into parts does not depend on the share.
    EXPECT_TRUE(std::equal(outputs.begin(), outputs.end(), expected.begin())) << place.sm_percent;
  }
}

}  // namespace
}  // namespace spillway::gateway
