// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/cuda_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "fake_cuda.h"
#include "gateway/executor/cuda_product.h"
#include "gateway/executor/nvml.h"
#include "gateway_bed.h"
#include "model_specs.h"

namespace spillway::gateway {
namespace {

using testing::HasSubstr;

constexpr const char* kWhole = "GPU-11111111-2222-3333-4444-555555555555";
constexpr const char* kOther = "GPU-11111111-2222-3333-4444-666666666666";
constexpr const char* kCut = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa";
constexpr const char* kPart1 = "MIG-00000000-0000-0000-0000-000000000001";
constexpr const char* kPart2 = "MIG-00000000-0000-0000-0000-000000000002";

std::vector<ModelSpec> Specs() { return {Mlp({70, 33, 50, 9}, 4, 5), ProductOf(7, 19, 11), Echo(100, 3)}; }

// A slice's memory with a cell's inputs and outputs in it, and the engines that run on it.
class CudaEngineTest : public testing::Test {
 protected:
  CudaEngineTest() {
    card_.devices = {{kWhole, "Big GPU", 0, "", false, 1 << 30}, {kOther, "Big GPU", 1, "", false, 1 << 30}};
  }

  Result<std::unique_ptr<SliceEngine>> MakeSlice() {
    if (!engine_) {
      auto engine = MakeCudaEngine(Specs(), {{"g", "s", "0", 100}}, std::make_unique<FakeCuda>(card_));
      if (!engine) return tl::make_unexpected(engine.error());
      engine_ = std::move(*engine);
    }
    return engine_->MakeSlice(Offer(), {memory_});
  }
  static SliceOffer Offer() { return {"s", "g", 1e6, 1, 4096, 4096}; }

  Result<std::vector<float>> Run(SliceEngine& slice, uint32_t model, int64_t rows, unsigned seed = 1) {
    const ModelCard& card = engine_->models()[model];
    const auto inputs = std::span(memory_).first(card.InputBytes(rows));
    const auto outputs = std::span(memory_).subspan(8192, card.OutputBytes(rows));
    Fill(inputs, seed);
    if (const auto ran = slice.Run(model, rows, inputs, outputs); !ran)
      return tl::make_unexpected(ran.error());
    std::vector<float> numbers(outputs.size() / sizeof(float));
    std::memcpy(numbers.data(), outputs.data(), numbers.size() * sizeof(float));
    return numbers;
  }
  static void Fill(std::span<std::byte> inputs, unsigned seed) {
    std::mt19937 random(seed);
    for (size_t i = 0; i + 4 <= inputs.size(); i += 4) {
      const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
      std::memcpy(inputs.data() + i, &value, 4);
    }
  }

  FakeCard card_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(16384);
  std::unique_ptr<Engine> engine_;
};

TEST_F(CudaEngineTest, AnswersAsTheEmulatedEngineDoes) {
  auto slice = MakeSlice();
  ASSERT_TRUE(slice) << slice.error().message;
  auto emulated = MakeEmulatedEngine(Specs());
  auto other = (*emulated)->MakeSlice(Offer(), {});
  for (uint32_t model = 0; model < 3; model++)
    for (int64_t rows = 1; rows <= (*emulated)->models()[model].most_rows; rows++) {
      SCOPED_TRACE(testing::Message() << "model " << model << ", rows " << rows);
      const auto got = Run(**slice, model, rows);
      ASSERT_TRUE(got);
      const ModelCard& card = (*emulated)->models()[model];
      std::vector<std::byte> inputs(card.InputBytes(rows)), outputs(card.OutputBytes(rows));
      Fill(inputs, 1);
      ASSERT_TRUE((*other)->Run(model, rows, inputs, outputs));
      for (size_t i = 0; i < got->size(); i++) {
        float expected;
        std::memcpy(&expected, outputs.data() + i * 4, 4);
        EXPECT_NEAR((*got)[i], expected, 1e-4) << i;
      }
    }
}

TEST_F(CudaEngineTest, SaysWhichGpuASliceIsOnAndOfAnInstanceItsGpusAndWhatItsMemoryIs) {
  ASSERT_TRUE(MakeSlice());
  EXPECT_EQ(engine_->GpuOf(Offer()), kWhole);
  EXPECT_EQ(engine_->MemoryOf(Offer()), "pinned-host");
  FakeCard cut;
  cut.devices = {{kCut, "Big GPU", 0, "", true, 1 << 30}, {kPart1, "Part", 0, kCut, false, 1 << 30}};
  auto parts = MakeCudaEngine(Specs(), {{"g", "s", kPart1, 100}}, std::make_unique<FakeCuda>(cut));
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_EQ((*parts)->GpuOf(Offer()), kCut);
}

TEST_F(CudaEngineTest, WeightsAreUploadedOnceAndRequestsAreCopiedFromPinnedMemoryAlone) {
  auto slice = MakeSlice();
  ASSERT_TRUE(slice);
  const uint64_t layers = 3;
  EXPECT_EQ(card_.uploads_unpinned, layers);
  const uint64_t allocated = card_.allocations, copied = card_.copies;
  for (int i = 0; i < 3; i++) ASSERT_TRUE(Run(**slice, 0, 5));
  EXPECT_EQ(card_.uploads_unpinned, layers) << "a request's inputs were not where the card may read them";
  EXPECT_EQ(card_.allocations, allocated) << "a request allocates";
  EXPECT_EQ(card_.copies, copied + 3 * 2) << "a request is one copy in and one out";
  EXPECT_EQ(card_.products, 3 * layers);
}

TEST_F(CudaEngineTest, WhatOneRequestFailedWithIsToldAndTheNextOneRuns) {
  auto slice = MakeSlice();
  ASSERT_TRUE(slice);
  const auto before = Run(**slice, 0, 2);
  card_.fail_product_after = 1;
  const auto failed = Run(**slice, 0, 2);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kSystem);
  EXPECT_EQ(failed.error().message, "model mlp: launch: too many resources requested");
  EXPECT_EQ(card_.pending, 0u) << "what is left in the stream would write into another request's cell";
  card_.fail_product_after = FakeCard::kNever;
  EXPECT_EQ(Run(**slice, 0, 2).value(), before.value());
}

TEST_F(CudaEngineTest, ALostDeviceIsToldAsSuchWhereverItIsNoticed) {
  for (int calls = 1; calls <= 5; calls++) {
    card_.lose_after = FakeCard::kNever;
    auto slice = MakeSlice();
    ASSERT_TRUE(slice);
    card_.lose_after = calls;  // five pieces are a request: in, three products, out
    const auto run = Run(**slice, 0, 1);
    ASSERT_FALSE(run) << calls;
    EXPECT_EQ(run.error().code, ErrorCode::kUnavailable) << calls;
  }
}

TEST_F(CudaEngineTest, ModelsThatDoNotFitAreNamedWithTheirSize) {
  card_.memory = 70 * 33 * 4 + 100;
  const auto slice = MakeSlice();
  ASSERT_FALSE(slice);
  EXPECT_EQ(slice.error().message, "6600 bytes for model mlp's layer 1: out of memory");
  EXPECT_EQ(card_.queues, 0);
  EXPECT_EQ(card_.memory, 70 * 33 * 4 + 100u) << "what was allocated is free again";
}

TEST(FindCudaDevices, ByIndexAndByUuid) {
  FakeCard card;
  card.devices = {{kWhole, "", 0, "", false, 0},
                  {kCut, "", 1, "", true, 0},
                  {kPart1, "", 1, kCut, false, 0},
                  {kPart2, "", 1, kCut, false, 0},
                  {kOther, "", 2, "", false, 0}};
  FakeCuda driver(card);
  const auto find = [&](std::vector<CudaPlace> places) -> std::string {
    const auto found = FindCudaDevices(driver, places);
    if (!found) return found.error().message;
    std::string text;
    for (const CudaDevice& device : *found) text += device.uuid + " ";
    return text;
  };
  EXPECT_EQ(find({{"g", "a", "2", 100}, {"g", "b", kWhole, 25}}), std::string(kOther) + " " + kWhole + " ");
  EXPECT_EQ(find({{"g", "a", kPart2, 100}}), std::string(kPart2) + " ");
  EXPECT_THAT(
      find({{"g", "a", "3", 100}}),
      testing::StartsWith(std::string("slice g/a: device 3: no such device, expected one of 0 = ") + kWhole));
  EXPECT_THAT(find({{"g", "a", "3", 100, "e.yaml:6: gpus[g].slices[a]"}}),
              testing::StartsWith("e.yaml:6: gpus[g].slices[a]: device 3: no such device"));
  EXPECT_THAT(find({{"g", "a", "1", 100}}), HasSubstr("divided into MIG instances"));
  EXPECT_THAT(find({{"g", "a", kPart1, 50}}), HasSubstr("sm_percent is allowed only for a whole GPU"));
  EXPECT_THAT(find({{"g", "a", kPart1, 100}, {"g", "b", kPart2, 100}}), HasSubstr("an executor for each"));
  EXPECT_THAT(find({{"g", "a", "0", 100}, {"g", "b", kPart2, 100}}), HasSubstr("an executor for each"));
  EXPECT_EQ(find({{"g", "a", kPart1, 100}, {"g", "b", kPart1, 100}}),
            std::string(kPart1) + " " + kPart1 + " ");
  card.devices.clear();
  EXPECT_EQ(find({{"g", "a", "0", 100}}), "engine cuda: this machine has no GPU");
}

TEST(IsCudaDevice, KnowsTheFormsOfNvidiaSmi) {
  for (const char* good : {"0", "15", kWhole, kPart1, "GPU-ABCDEF00-2222-3333-4444-555555555555"})
    EXPECT_TRUE(IsCudaDevice(good)) << good;
  for (const char* bad :
       {"", "-1", "1x", "99999", "GPU-", "gpu0", "GPU-11111111-2222-3333-4444-55555555555",
        "GPU-11111111-2222-3333-4444-55555555555g", "GPU-111111112-222-3333-4444-555555555555"})
    EXPECT_FALSE(IsCudaDevice(bad)) << bad;
}

TEST(Nvml, ListsGpusEachFollowedByItsInstances) {
  const auto devices = ListNvmlDevices(FAKE_NVML);
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 4u);
  const auto is = [&](size_t i, const char* uuid, uint32_t index, bool in_instances, const char* gpu) {
    const CudaDevice& device = (*devices)[i];
    EXPECT_EQ(device.uuid, uuid);
    EXPECT_EQ(device.index, index);
    EXPECT_EQ(device.in_instances, in_instances);
    EXPECT_EQ(device.gpu, gpu);
  };
  is(0, kWhole, 0, false, "");
  is(1, kCut, 1, true, "");
  is(2, kPart1, 1, false, kCut);
  is(3, kPart2, 1, false, kCut);
  EXPECT_EQ((*devices)[3].name, "Cut GPU MIG 1g.5gb");
  EXPECT_EQ((*devices)[3].memory_bytes, uint64_t{5} << 30);
}

TEST(Nvml, SaysWhatIsMissing) {
  EXPECT_EQ(ListNvmlDevices("/no/such/library.so").error().message,
            "no NVIDIA driver: /no/such/library.so cannot be loaded");
  setenv("SPILLWAY_FAKE_NVML", "broken", 1);
  EXPECT_EQ(ListNvmlDevices(FAKE_NVML).error().message, "NVML: nvmlInit: Driver/library version mismatch");
  unsetenv("SPILLWAY_FAKE_NVML");
}

// The block of threads as threads of the host.
struct HostBlock {
  int x, y;
  int64_t tile_x, tile_y, part;
  std::barrier<>* barrier;
  void Sync() const { barrier->arrive_and_wait(); }
};

template <int kTile, int kEach>
std::vector<float> MultiplyInTiles(const ProductArguments& of) {
  constexpr int kSide = kTile / kEach;
  std::vector<float> c(static_cast<size_t>(of.m * of.n), -77.0f);
  std::vector<float> partials(static_cast<size_t>(of.parts) * c.size(), -77.0f);
  ProductArguments arguments = of;
  arguments.c = c.data();
  arguments.partials = partials.data();
  ProductTiles<kTile> tiles;
  float sums[kSumThreads][kSumWide];
  const auto in_threads = [](int wide, int count, auto run) {
    std::barrier barrier(count);
    std::vector<std::thread> threads;
    for (int t = 0; t < count; t++)
      threads.emplace_back([&, t] { run(HostBlock{t % wide, t / wide, 0, 0, 0, &barrier}); });
    for (std::thread& thread : threads) thread.join();
  };
  in_threads(kSide, kSide * kSide, [&](HostBlock block) {
    for (block.part = 0; block.part < of.parts; block.part++)
      for (block.tile_y = 0; block.tile_y * kTile < of.m; block.tile_y++)
        for (block.tile_x = 0; block.tile_x * kTile < of.n; block.tile_x++) {
          ProductTile<kTile, kEach>(block, tiles, arguments);
          block.Sync();  // tiles have blocks of their own on the card
        }
  });
  if (of.parts == 1) return c;
  in_threads(kSumWide, kSumWide * kSumThreads, [&](HostBlock block) {
    for (; block.tile_x * kSumWide < of.m * of.n; block.tile_x++) {
      ProductSum(block, sums, arguments);
      block.Sync();
    }
  });
  return c;
}

template <int kTile, int kEach>
void CheckTiles(int64_t m, int64_t k, int64_t n, bool relu, int64_t depth) {
  SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n << " by " << depth);
  std::mt19937 random(static_cast<unsigned>(m * 1000 + k * 10 + n));
  std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
  for (auto* numbers : {&a, &b})
    for (float& number : *numbers) number = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  const auto c = MultiplyInTiles<kTile, kEach>(
      {a.data(), b.data(), nullptr, m, k, n, relu, depth, ProductParts(k, depth)});
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++)
        sum += double{a[static_cast<size_t>(i * k + l)]} * double{b[static_cast<size_t>(l * n + j)]};
      if (relu) sum = std::max(sum, 0.0);
      ASSERT_NEAR(c[static_cast<size_t>(i * n + j)], sum, 1e-4) << i << "," << j;
    }
}

TEST(CudaProduct, TilesMakeTheWholeProductWhateverItsSize) {
  for (const int64_t m : {1, 8, 9, 17})
    for (const int64_t k : {1, 15, 16, 33})
      for (const int64_t n : {1, 7, 8, 20}) CheckTiles<8, 4>(m, k, n, (m + k + n) % 2 == 0, k);
  // As it is launched.
  CheckTiles<kProductTile, kProductEach>(65, 40, 70, true, ProductDepth(65, 40, 70));
}

TEST(CudaProduct, PartsOfKAddUpToTheWholeProduct) {
  for (const int64_t m : {1, 9})
    for (const int64_t k : {17, 160, 163})
      for (const int64_t n : {1, 20}) CheckTiles<8, 4>(m, k, n, (m + k + n) % 2 == 0, 16);
  CheckTiles<8, 4>(3, 500, 50, true, 48);
  CheckTiles<8, 4>(3, 500, 50, false, 48);
}

TEST(CudaProduct, FewTilesAreCutIntoPartsThatCoverKAndFitTheirRoom) {
  for (const int64_t m : {1, 64, 65, 500, 100'000})
    for (const int64_t n : {1, 4, 64, 1000, 1 << 20})
      for (const int64_t k : {1, 15, 64, 65, 784, 150'528, 1 << 20}) {
        SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n);
        const int64_t depth = ProductDepth(m, k, n), parts = ProductParts(k, depth);
        EXPECT_GE(parts * depth, k);
        EXPECT_LT((parts - 1) * depth, k) << "a part without work";
        if (parts > 1) {
          EXPECT_LE(parts * m * n, kMaxPartials);
        }
      }
  // ResNet-50's input of one image onto 4 results: one tile.
  EXPECT_GT(ProductParts(150'528, ProductDepth(1, 150'528, 4)), 400);
  EXPECT_EQ(ProductParts(4096, ProductDepth(4096, 4096, 4096)), 1);
}

// An executor on the fake card, at a gateway.
TEST(CudaExecutor, EndsWithTheReasonWhenItsDeviceIsLostAndItsRequestRunsElsewhere) {
  GatewayBed bed;
  FakeCard card;
  card.devices = {{kWhole, "Big GPU", 0, "", false, 0}};
  auto engine = MakeCudaEngine(Specs(), {{"gpu0", "s0", "0", 100}}, std::make_unique<FakeCuda>(card));
  ASSERT_TRUE(engine) << engine.error().message;
  Executor executor(bed.Executor("dies"), **engine);
  ASSERT_TRUE(executor.Join());
  const int stop = eventfd(0, EFD_CLOEXEC);
  auto served = std::async(std::launch::async, [&] { return executor.Serve(stop); });

  auto client = bed.Dial();
  const auto model = client->Describe("mlp");
  ASSERT_TRUE(model);
  std::vector<std::byte> input(model->card.InputBytes(1));
  auto first = client->Infer(model->index, 1, input);
  ASSERT_TRUE(first && first->status == Status::kOk) << first->message;

  card.fail_product_after = 0;
  const auto failed = client->Infer(model->index, 1, input);
  EXPECT_EQ(failed->status, Status::kFailed);
  EXPECT_THAT(failed->message, HasSubstr("launch: too many resources"));

  card.lose_after = 1;
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, input); });
  const auto ended = served.get();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "slice gpu0/s0: model mlp: wait: the device is lost");
  auto emulated = MakeEmulatedEngine(Specs());
  Executor other(bed.Executor("lives"), **emulated);
  ASSERT_TRUE(other.Join());
  const auto answered = asked.get();
  EXPECT_EQ(answered->status, Status::kOk) << answered->message;
  close(stop);
}

TEST(CudaExecutor, EndsWithTheReasonWhenASliceCannotBeMade) {
  GatewayBed bed;
  FakeCard card;
  card.devices = {{kWhole, "Big GPU", 0, "", false, 0}};
  card.memory = 100;
  auto engine = MakeCudaEngine(Specs(), {{"gpu0", "s0", "0", 100}}, std::make_unique<FakeCuda>(card));
  Executor executor(bed.Executor("poor"), **engine);
  const int stop = eventfd(0, EFD_CLOEXEC);
  const auto ran = executor.Run(stop);
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message,
              HasSubstr("slice gpu0/s0: 9240 bytes for model mlp's layer 0: out of memory"));
  close(stop);
}

TEST(CudaDriver, SaysWhatIsMissingWhereThereIsNoGpu) {
  auto driver = MakeCudaDriver();
  if (driver && (*driver)->Devices()) GTEST_SKIP() << "there is a GPU";
  if (!driver) {
    EXPECT_THAT(driver.error().message, testing::StartsWith("engine cuda: not in this build"));
    return;
  }
  const auto engine = MakeCudaEngine(Specs(), {{"g", "s", "0", 100}}, std::move(*driver));
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(engine.error().message, testing::StartsWith("engine cuda: no NVIDIA driver: "));
}

}  // namespace
}  // namespace spillway::gateway
