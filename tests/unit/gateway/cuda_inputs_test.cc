// SPDX-License-Identifier: Apache-2.0
// Inputs in a GPU's memory, as far as neither a GPU nor an RDMA device is needed; with one, soft-RoCE's, it
// goes on in tests/guest/gateway/gpu_inputs_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>

#include "fake_cuda.h"
#include "gateway/executor/cuda_engine.h"
#include "gateway_bed.h"
#include "model_specs.h"

namespace spillway::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<ModelSpec> InputsSpecs() {
  return {Mlp({70, 33, 50, 9}, 4, 5), ProductOf(7, 19, 11), Echo(100, 3)};
}

class CudaInputsTest : public testing::Test {
 protected:
  CudaInputsTest() {
    card_.devices = {{"GPU-11111111-2222-3333-4444-555555555555", "Big GPU", 0, "", false, 1 << 30}};
    auto engine = MakeCudaEngine(InputsSpecs(), {{"g", "s", "0", 100}}, std::make_unique<FakeCuda>(card_));
    engine_ = std::move(engine.value());
    inputs_ = engine_->MakeInputs(offer_, layout_.HostPart()).value();
  }
  // On a thread of its own, as a slice is, the memory having been made on another.
  Result<std::unique_ptr<SliceEngine>> MakeSlice() {
    return engine_->MakeSlice(offer_, {host_, inputs_.get()});
  }

  // Delivered into cell 1 by RDMA, and run.
  Result<std::vector<std::byte>> Run(SliceEngine& slice, uint32_t model, int64_t rows,
                                     std::span<const std::byte> inputs) {
    const auto there = inputs_->bytes().subspan(layout_.Input(1), inputs.size());
    card_.Write(there.data(), inputs);
    std::vector<std::byte> outputs(engine_->models()[model].OutputBytes(rows));
    const auto at = std::span(host_).subspan(layout_.Output(1) - layout_.HostPart(), outputs.size());
    if (const auto ran = slice.Run(model, rows, there, at); !ran) return tl::make_unexpected(ran.error());
    std::copy(at.begin(), at.end(), outputs.begin());
    return outputs;
  }
  std::vector<std::byte> Inputs(uint32_t model, int64_t rows) {
    std::vector<std::byte> inputs(engine_->models()[model].InputBytes(rows));
    for (size_t i = 0; i + 4 <= inputs.size(); i += 4) {
      const float value = static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
      std::memcpy(inputs.data() + i, &value, 4);
    }
    return inputs;
  }
  void ExpectAnswersAsEmulated(SliceEngine& slice) {
    auto emulated = MakeEmulatedEngine(InputsSpecs());
    auto other = (*emulated)->MakeSlice(offer_, {});
    for (uint32_t model = 0; model < engine_->models().size(); model++)
      for (int64_t rows = 1; rows <= engine_->models()[model].most_rows; rows++) {
        SCOPED_TRACE(testing::Message() << "model " << model << ", rows " << rows);
        const auto inputs = Inputs(model, rows);
        const auto got = Run(slice, model, rows, inputs);
        ASSERT_TRUE(got) << got.error().message;
        std::vector<std::byte> expected(got->size());
        ASSERT_TRUE((*other)->Run(model, rows, inputs, expected));
        for (size_t i = 0; i + 4 <= got->size(); i += 4) {
          float number, wanted;
          std::memcpy(&number, got->data() + i, 4);
          std::memcpy(&wanted, expected.data() + i, 4);
          EXPECT_NEAR(number, wanted, 1e-4) << i;
        }
      }
  }

  FakeCard card_;
  const SliceOffer offer_{"s", "g", 1e6, 2, 4096, 4096};
  const CellLayout layout_{offer_};
  std::mt19937 random_{1};
  std::vector<std::byte> host_ = std::vector<std::byte>(layout_.Bytes() - layout_.HostPart());
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<DeviceMemory> inputs_;
};

// The CPU may not touch the card's memory in these tests: a slice that did would end them.
TEST_F(CudaInputsTest, AreUsedWhereTheyWereDeliveredAndOutputsAloneAreCopied) {
  std::async(std::launch::async, [&] {
    auto slice = MakeSlice();
    ASSERT_TRUE(slice) << slice.error().message;
    const uint64_t copied = card_.copies, allocated = card_.allocations;
    ExpectAnswersAsEmulated(**slice);
    const uint64_t requests = 5 + 1 + 3;
    EXPECT_EQ(card_.copies, copied + requests) << "a request is a copy out and no copy in";
    EXPECT_EQ(card_.allocations, allocated) << "a request allocates";
    EXPECT_EQ(card_.strangers, 0u) << "a queue was used by a thread that has not entered it";
  }).get();
}

TEST_F(CudaInputsTest, OfACardThatDoesNotOrderWhatOthersWriteAreAcquiredBeforeEachRequest) {
  card_.is_unordered = true;
  auto slice = MakeSlice();
  ASSERT_TRUE(slice) << slice.error().message;
  ExpectAnswersAsEmulated(**slice);
}

TEST_F(CudaInputsTest, SpareTheSliceARoomOfItsOwnForThem) {
  const uint64_t with = card_.memory;
  auto slice = MakeSlice();
  ASSERT_TRUE(slice);
  const uint64_t of_slice = with - card_.memory;
  std::vector<std::byte> host(layout_.Bytes());
  const uint64_t before = card_.memory;
  auto other = engine_->MakeSlice(offer_, {host});
  ASSERT_TRUE(other);
  EXPECT_EQ(before - card_.memory, of_slice + engine_->models()[1].InputBytes(1)) << "the largest inputs";
}

TEST_F(CudaInputsTest, OfALostDeviceAreToldAsSuchWhereverItIsNoticed) {
  for (int calls = 0; calls <= 5; calls++) {
    card_.lose_after = FakeCard::kNever;
    auto slice = MakeSlice();
    ASSERT_TRUE(slice);
    card_.lose_after = calls;  // a request: to acquire, three products, out
    const auto run = Run(**slice, 0, 1, Inputs(0, 1));
    ASSERT_FALSE(run) << calls;
    EXPECT_EQ(run.error().code, ErrorCode::kUnavailable) << calls;
  }
}

TEST_F(CudaInputsTest, OutliveTheSliceWhoseMemoryOnTheHostIsThenItsOwnersAgain) {
  auto slice = MakeSlice();
  ASSERT_TRUE(slice);
  EXPECT_EQ(card_.pinned, 1);
  slice->reset();
  EXPECT_EQ(card_.pinned, 0) << "memory that may go is still the card's";
  EXPECT_EQ(card_.queues, 1) << "an RDMA device may still write into it";
  inputs_.reset();
  EXPECT_EQ(card_.queues, 0);
  EXPECT_EQ(card_.memory, uint64_t{1} << 30) << "what was allocated is free again";
}

TEST_F(CudaInputsTest, ThatDoNotFitAreNamedWithTheirSize) {
  card_.memory = 100;
  const auto none = engine_->MakeInputs(offer_, 8192);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "8192 bytes: out of memory");
  EXPECT_EQ(card_.queues, 1);
}

// -- how an RDMA device is given them
class FakeRegistrar : public DeviceRegistrar {
 public:
  explicit FakeRegistrar(FakeCard& card) : card_(card) {}
  Result<std::unique_ptr<DeviceRegistration>> ByDmabuf(int dmabuf, std::span<std::byte> memory) override {
    EXPECT_GE(dmabuf, 0);
    return Register("dmabuf", memory, no_dmabuf);
  }
  Result<std::unique_ptr<DeviceRegistration>> ByAddress(std::span<std::byte> memory) override {
    return Register("address", memory, no_peermem);
  }
  std::string no_dmabuf, no_peermem;
  std::vector<std::string> log;
  std::span<std::byte> registered;

 private:
  struct Registration : public DeviceRegistration {
    Registration(FakeRegistrar& from) : registrar(from) {}
    ~Registration() override {
      registrar.log.push_back(registrar.card_.shared.empty() ? "given back too late" : "given back");
    }
    [[nodiscard]] uint32_t remote_key() const override { return 7; }
    FakeRegistrar& registrar;
  };
  Result<std::unique_ptr<DeviceRegistration>> Register(const std::string& way, std::span<std::byte> memory,
                                                       const std::string& error) {
    log.push_back(way);
    if (!error.empty()) return Fail(ErrorCode::kSystem, error);
    registered = memory;
    return std::make_unique<Registration>(*this);
  }
  FakeCard& card_;
};

class RegisterDeviceMemoryTest : public CudaInputsTest {
 protected:
  FakeRegistrar registrar_{card_};
};

TEST_F(RegisterDeviceMemoryTest, IsByDmabufWhereThatCanBe) {
  const auto* const at = inputs_->bytes().data();
  const auto registered = RegisterDeviceMemory(std::move(inputs_), registrar_);
  ASSERT_TRUE(registered) << registered.error().message;
  EXPECT_EQ(registered->kind, "gpu-dmabuf");
  EXPECT_EQ(registered->why_not_better, "");
  EXPECT_EQ(registered->registration->remote_key(), 7u);
  EXPECT_THAT(registrar_.log, ElementsAre("dmabuf"));
  EXPECT_EQ(registrar_.registered.data(), at);
  EXPECT_GE(registrar_.registered.size(), layout_.HostPart());
}

TEST_F(RegisterDeviceMemoryTest, IsByPeermemWhereTheDriverExportsNoDmabuf) {
  card_.no_dmabuf = "expected a driver of CUDA 11.7 or newer";
  const auto registered = RegisterDeviceMemory(std::move(inputs_), registrar_);
  ASSERT_TRUE(registered) << registered.error().message;
  EXPECT_EQ(registered->kind, "gpu-peermem");
  EXPECT_EQ(registered->why_not_better, "dmabuf: expected a driver of CUDA 11.7 or newer");
  EXPECT_THAT(registrar_.log, ElementsAre("address"));
}

TEST_F(RegisterDeviceMemoryTest, IsByPeermemWhereTheRdmaDeviceTakesNoDmabuf) {
  registrar_.no_dmabuf = "RDMA: registering 8192 bytes of a dmabuf: Operation not supported";
  const auto registered = RegisterDeviceMemory(std::move(inputs_), registrar_);
  ASSERT_TRUE(registered) << registered.error().message;
  EXPECT_EQ(registered->kind, "gpu-peermem");
  EXPECT_THAT(registered->why_not_better, HasSubstr("dmabuf: RDMA: registering"));
  EXPECT_THAT(registrar_.log, ElementsAre("dmabuf", "address"));
}

TEST_F(RegisterDeviceMemoryTest, SaysWhyNeitherWayIsOpenAndFreesTheMemory) {
  registrar_.no_dmabuf = "Operation not supported";
  registrar_.no_peermem = "Bad address";
  const auto registered = RegisterDeviceMemory(std::move(inputs_), registrar_);
  ASSERT_FALSE(registered);
  EXPECT_EQ(registered.error().message, "dmabuf: Operation not supported; nvidia-peermem: Bad address");
  EXPECT_EQ(card_.queues, 0);
}

TEST_F(RegisterDeviceMemoryTest, IsGivenBackBeforeTheMemoryIsFreed) {
  { const auto registered = RegisterDeviceMemory(std::move(inputs_), registrar_); }
  EXPECT_THAT(registrar_.log, ElementsAre("dmabuf", "given back"));
  EXPECT_EQ(card_.queues, 0);
}

// At a gateway of this machine, which writes by its CPU.
TEST_F(CudaInputsTest, AreTheHostsWhereTheGatewayIsNotReachedByRdma) {
  GatewayBed bed;
  ExecutorOptions options = bed.Executor("here");
  options.slices[0].gpu = "g";
  options.slices[0].name = "s";
  options.memory = InputMemory::kAuto;
  {
    Executor executor(options, *engine_);
    ASSERT_TRUE(executor.Join());
    EXPECT_EQ(executor.memory(), "pinned-host (the gateway is on this machine)");
    EXPECT_EQ(bed.Ask([](Server& server) { return server.broker().Slices().at(0).memory; }), "pinned-host");
    auto client = bed.Dial();
    const auto model = client->Describe("echo");
    const std::vector<std::byte> input(300, std::byte{5});
    EXPECT_EQ(client->Infer(model->index, 3, input)->outputs, input);
  }
  options.memory = InputMemory::kGpu;
  Executor insists(options, *engine_);
  const auto joined = insists.Join();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kSystem) << "kUnavailable would be tried again for ever";
  EXPECT_THAT(joined.error().message, HasSubstr("inputs in a GPU's memory: expected a gateway over RDMA"));
}

}  // namespace
}  // namespace spillway::gateway
