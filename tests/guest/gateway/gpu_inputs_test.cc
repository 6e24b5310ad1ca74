// SPDX-License-Identifier: Apache-2.0
// Slices whose inputs are on a GPU: a card in the host's memory, written over RDMA. Soft-RoCE takes no
// dmabuf; the card's memory is registered by its address, which the CPU may touch until the slice runs, or
// not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>

#include "gateway/executor/cuda_engine.h"
#include "remote_bed.h"
#include "tests/unit/gateway/fake_cuda.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<ModelSpec> GpuSpecs() { return {Mlp({70, 33, 9}, 4, 16), ProductOf(7, 19, 11), Echo(1000, 100)}; }

class GpuInputs : public testing::Test {
 protected:
  GpuInputs() {
    card_.devices = {{"GPU-11111111-2222-3333-4444-555555555555", "Big GPU", 0, "", false, 1 << 30}};
    auto engine = MakeCudaEngine(GpuSpecs(), {{"g", "s0", "0", 100}, {"g", "s1", "0", 100}},
                                 std::make_unique<FakeCuda>(card_));
    engine_ = std::move(engine.value());
  }
  ExecutorOptions Options(InputMemory memory, uint32_t slices = 2) {
    ExecutorOptions options;
    options.gateway = AddressOf(bed_);
    options.name = "far";
    options.memory = memory;
    for (uint32_t i = 0; i < slices; i++)
      options.slices.push_back({"s" + std::to_string(i), "g", 1000, 2, 100'000, 100'000});
    return options;
  }
  std::string MemoryAtTheGateway() {
    return bed_.Ask([](Server& server) { return server.broker().Slices().at(0).memory; });
  }
  void ExpectAnswers(const std::string& tenant = "alice", const std::string& token = "") {
    auto client = bed_.Dial(tenant, token);
    ASSERT_TRUE(client) << client.error().message;
    const auto emulated = MakeEmulatedEngine(GpuSpecs());
    auto slice = (*emulated)->MakeSlice({"s", "g", 1e6, 1, 100'000, 100'000}, {});
    for (uint32_t i = 0; i < GpuSpecs().size(); i++) {
      const ModelCard& card = (*emulated)->models()[i];
      const auto model = client->Describe(card.name);
      ASSERT_TRUE(model) << model.error().message;
      for (uint32_t rows = 1; rows <= card.most_rows; rows += 15) {
        SCOPED_TRACE(testing::Message() << card.name << ", rows " << rows);
        std::vector<std::byte> input(card.InputBytes(rows)), expected(card.OutputBytes(rows));
        for (size_t at = 0; at + 4 <= input.size(); at += 4) {
          const float value = static_cast<float>((at + rows) % 201) / 100.0f - 1.0f;
          std::memcpy(input.data() + at, &value, 4);
        }
        ASSERT_TRUE((*slice)->Run(i, rows, input, expected));
        const auto result = client->Infer(model->index, rows, input, 30s);
        ASSERT_TRUE(result) << result.error().message;
        ASSERT_EQ(result->status, Status::kOk) << result->message;
        ASSERT_EQ(result->outputs.size(), expected.size());
        for (size_t at = 0; at + 4 <= expected.size(); at += 4) {
          float got, wanted;
          std::memcpy(&got, result->outputs.data() + at, 4);
          std::memcpy(&wanted, expected.data() + at, 4);
          ASSERT_NEAR(got, wanted, 1e-4) << at;
        }
        requests_++;
      }
    }
  }

  GatewayBed bed_{RemoteConfig()};
  FakeCard card_;
  std::unique_ptr<Engine> engine_;
  uint64_t requests_ = 0;
};

TEST_F(GpuInputs, AreWrittenIntoItsMemoryAndUsedThere) {
  card_.has_peermem = true;
  Executor executor(Options(InputMemory::kGpu), *engine_);
  const auto joined = executor.Join();
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_THAT(executor.memory(), StartsWith("gpu-peermem (dmabuf: RDMA: registering"));
  EXPECT_THAT(executor.memory(), HasSubstr("Operation not supported"));
  EXPECT_EQ(MemoryAtTheGateway(), "gpu-peermem");
  ExpectAnswers();
  // Two slices with two layers each were uploaded; a request is copied out alone.
  EXPECT_EQ(card_.copies, 2 * 2 + requests_);
  EXPECT_EQ(card_.strangers, 0u);
  executor.Leave();
  EXPECT_EQ(card_.queues, 0);
}

TEST_F(GpuInputs, AreTheHostsWhereTheRdmaDeviceCannotBeGivenTheCardsMemory) {
  Executor executor(Options(InputMemory::kAuto), *engine_);
  const auto joined = executor.Join();
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_THAT(executor.memory(), StartsWith("pinned-host (dmabuf: "));
  EXPECT_THAT(executor.memory(), HasSubstr("nvidia-peermem: RDMA: registering"));
  EXPECT_THAT(executor.memory(), HasSubstr("Bad address"));
  EXPECT_EQ(MemoryAtTheGateway(), "pinned-host");
  ExpectAnswers();
  EXPECT_EQ(card_.copies, 2 * 2 + 2 * requests_);
  EXPECT_TRUE(card_.shared.empty()) << "what no device is given is freed";
}

TEST_F(GpuInputs, AreTheHostsOnceTheCardHasNoRoomForTheModelsBesideThem) {
  card_.has_peermem = true;
  ExecutorOptions options = Options(InputMemory::kAuto, 1);
  options.slices[0].cells = 4;  // whose inputs are more than the models and their tensors
  card_.memory = CellLayout(options.slices[0]).HostPart() + 100;
  Executor executor(options, *engine_);
  ASSERT_TRUE(executor.Join());
  EXPECT_THAT(executor.memory(), StartsWith("gpu-peermem"));
  const base::Fd stop = MakeEventFd().value();
  const auto served = executor.Serve(stop.get());
  ASSERT_TRUE(served) << served.error().message;
  EXPECT_TRUE(*served) << "it is to be joined again";
  bed_.Until([](Server& server) { return server.counts().executors == 0; });
  ASSERT_TRUE(executor.Join());
  EXPECT_EQ(executor.memory(),
            "pinned-host (no room for the inputs beside the models: slice g/s0: 9240 bytes for model mlp's "
            "layer 0: "
            "out of memory)");
  EXPECT_EQ(MemoryAtTheGateway(), "pinned-host");
  ExpectAnswers();
}

TEST_F(GpuInputs, ThatAreInsistedOnEndTheExecutorWhereTheModelsDoNotFitBesideThem) {
  card_.has_peermem = true;
  const CellLayout layout(Options(InputMemory::kGpu, 1).slices[0]);
  card_.memory = layout.HostPart() + 100;
  Executor executor(Options(InputMemory::kGpu, 1), *engine_);
  ASSERT_TRUE(executor.Join());
  const base::Fd stop = MakeEventFd().value();
  const auto served = executor.Serve(stop.get());
  ASSERT_FALSE(served);
  EXPECT_THAT(served.error().message,
              HasSubstr("slice g/s0: 9240 bytes for model mlp's layer 0: out of memory"));
}

TEST_F(GpuInputs, OfACardWithoutRoomForTheModelsEvenSoEndTheExecutor) {
  card_.has_peermem = true;
  const CellLayout layout(Options(InputMemory::kAuto, 1).slices[0]);
  card_.memory = layout.HostPart();
  Executor executor(Options(InputMemory::kAuto, 1), *engine_);
  ASSERT_TRUE(executor.Join());
  const base::Fd stop = MakeEventFd().value();
  ASSERT_TRUE(executor.Serve(stop.get()));
  bed_.Until([](Server& server) { return server.counts().executors == 0; });
  card_.memory = 100;
  ASSERT_TRUE(executor.Join());
  const auto served = executor.Serve(stop.get());
  ASSERT_FALSE(served);
  EXPECT_THAT(served.error().message, HasSubstr("out of memory"));
}

TEST_F(GpuInputs, AreInsistedOnWithTheReason) {
  Executor executor(Options(InputMemory::kGpu), *engine_);
  const auto joined = executor.Join();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kSystem);
  EXPECT_THAT(joined.error().message, HasSubstr("slice g/s0: inputs in its GPU's memory: dmabuf: "));
  card_.no_shared = "the GPU or its driver has no GPUDirect RDMA";
  EXPECT_THAT(executor.Join().error().message,
              HasSubstr("bytes: the GPU or its driver has no GPUDirect RDMA"));
  EXPECT_EQ(card_.queues, 0);
}

TEST_F(GpuInputs, AreTheHostsWhereThatIsAskedFor) {
  card_.has_peermem = true;
  Executor executor(Options(InputMemory::kHost), *engine_);
  ASSERT_TRUE(executor.Join());
  EXPECT_EQ(executor.memory(), "pinned-host");
  EXPECT_EQ(MemoryAtTheGateway(), "pinned-host");
  ExpectAnswers();
}

TEST_F(GpuInputs, OfOneTenantAreGoneFromTheCardBeforeAnothersCome) {
  card_.has_peermem = true;
  Executor executor(Options(InputMemory::kGpu, 1), *engine_);
  ASSERT_TRUE(executor.Join());
  auto alice = bed_.Dial(), bob = bed_.Dial("bob", "bobs-token");
  const auto model = alice->Describe("echo");
  const auto secret = std::vector(100 * 1000, std::byte{0xAA});
  ASSERT_EQ(alice->Infer(model->index, 100, secret, 30s)->outputs, secret);
  EXPECT_TRUE(card_.SharedHas(std::byte{0xAA})) << "or this test sees nothing";
  const auto own = std::vector(1000, std::byte{0xBB});
  ASSERT_EQ(bob->Infer(model->index, 1, own, 30s)->outputs, own);
  EXPECT_FALSE(card_.SharedHas(std::byte{0xAA}));
  EXPECT_TRUE(card_.SharedHas(std::byte{0xBB}));
}

TEST_F(GpuInputs, OfACardThatIsLostGoToAnotherExecutor) {
  card_.has_peermem = true;
  Executor executor(Options(InputMemory::kGpu), *engine_);
  ASSERT_TRUE(executor.Join());
  const base::Fd stop = MakeEventFd().value();
  auto served = std::async(std::launch::async, [&] { return executor.Serve(stop.get()); });
  ExpectAnswers();
  card_.lose_after = 1;
  auto client = bed_.Dial();
  const auto model = client->Describe("echo");
  const auto input = Pattern(1000);
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, input, 60s); });
  const auto ended = served.get();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message, HasSubstr("the device is lost"));
  EXPECT_EQ(card_.queues, 0) << "its memory was given back all the same";
  auto emulated = MakeEmulatedEngine(GpuSpecs());
  ExecutorOptions options = Options(InputMemory::kHost);
  options.name = "other";
  Executor other(options, **emulated);
  ASSERT_TRUE(other.Join());
  const auto answered = asked.get();
  EXPECT_EQ(answered->status, Status::kOk) << answered->message;
  EXPECT_EQ(answered->outputs, input);
}

}  // namespace
}  // namespace spillway::gateway
