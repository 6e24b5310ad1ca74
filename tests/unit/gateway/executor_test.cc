// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <semaphore>

#include "gateway/executor/mlp.h"
#include "gateway/executor/slice_thread.h"
#include "gateway_bed.h"
#include "model_specs.h"

namespace spillway::gateway {
namespace {

std::vector<ModelSpec> Specs() { return {Mlp({7, 5, 3}, 9, 4), ProductOf(3, 4, 5)}; }

std::vector<float> Numbers(size_t count, float first) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; i++) numbers[i] = first + 0.25f * static_cast<float>(i % 11);
  return numbers;
}

// The textbook's product, in double.
std::vector<double> Multiply(const std::vector<double>& a, const std::vector<float>& b, size_t m, size_t k,
                             size_t n) {
  std::vector<double> c(m * n, 0.0);
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++)
      for (size_t l = 0; l < k; l++) c[i * n + j] += a[i * k + l] * double{b[l * n + j]};
  return c;
}

TEST(EmulatedEngine, AnMlpsResultsAreItsWeightsByTheTextbook) {
  auto engine = MakeEmulatedEngine(Specs());
  auto slice = (*engine)->MakeSlice({"s", "g", 1e6, 1, 4096, 4096}, {});
  ASSERT_TRUE(slice);
  for (const int64_t rows : {1, 3}) {
    const auto input = Numbers(static_cast<size_t>(rows) * 7, -1);
    std::vector<float> output(static_cast<size_t>(rows) * 3);
    ASSERT_TRUE(
        (*slice)->Run(0, rows, std::as_bytes(std::span(input)), std::as_writable_bytes(std::span(output))));
    auto hidden =
        Multiply({input.begin(), input.end()}, MlpWeights(9, 0, 7, 5), static_cast<size_t>(rows), 7, 5);
    for (double& value : hidden) value = std::max(value, 0.0);
    const auto expected = Multiply(hidden, MlpWeights(9, 1, 5, 3), static_cast<size_t>(rows), 5, 3);
    for (size_t i = 0; i < output.size(); i++) EXPECT_NEAR(output[i], expected[i], 1e-4);
  }
}

TEST(EmulatedEngine, AProductOfTwoInputs) {
  auto engine = MakeEmulatedEngine(Specs());
  auto slice = (*engine)->MakeSlice({"s", "g", 1e6, 1, 4096, 4096}, {});
  const auto a = Numbers(12, 1), b = Numbers(20, -2);
  const ModelCard& card = (*engine)->models()[1];
  std::vector<std::byte> inputs(card.InputBytes(1));
  std::memcpy(inputs.data(), a.data(), 48);
  std::memcpy(inputs.data() + 64, b.data(), 80);
  std::vector<float> output(15);
  ASSERT_TRUE((*slice)->Run(1, 1, inputs, std::as_writable_bytes(std::span(output))));
  const auto expected = Multiply({a.begin(), a.end()}, b, 3, 4, 5);
  for (size_t i = 0; i < output.size(); i++) EXPECT_NEAR(output[i], expected[i], 1e-4);
}

TEST(SliceThread, TakesOnlyWhatNamesItsOwnMemoryByItsKeyCellByCell) {
  const SliceOffer offer{"s", "g", 1, 2, 1000, 500};
  const CellLayout layout(offer);
  std::vector<std::byte> memory(layout.Bytes());
  auto engine = MakeEmulatedEngine(Specs());
  Submission good;
  good.key = 77;
  good.input_offset = layout.Input(1);
  good.output_offset = layout.Output(1);
  good.input_bytes = 28;
  good.output_bytes = 12;
  const auto check = [&](auto change) {
    Submission submission = good;
    change(submission);
    return CheckSubmission(offer, 77, {memory}, (*engine)->models(), submission).has_value();
  };
  EXPECT_TRUE(check([](Submission&) {}));
  EXPECT_FALSE(check([](Submission& s) { s.key = 78; }));
  EXPECT_FALSE(check([](Submission& s) { s.model = 2; }));
  EXPECT_FALSE(check([](Submission& s) { s.rows = 5; }));
  EXPECT_FALSE(check([](Submission& s) { s.rows = 0; }));
  EXPECT_FALSE(check([](Submission& s) { s.input_bytes = 29; }));
  EXPECT_FALSE(check([](Submission& s) { s.input_offset += 64; }));
  EXPECT_FALSE(check([&](Submission& s) { s.output_offset = layout.Output(0); }));
  EXPECT_FALSE(check([&](Submission& s) { s.input_offset = layout.Input(2); }));
}

TEST(CellLayout, CellsDoNotOverlap) {
  for (const uint64_t input : {1, 63, 64, 4096, 5000})
    for (const uint64_t output : {1, 100, 4096}) {
      const CellLayout layout(SliceOffer{"s", "g", 1, 5, input, output});
      for (uint32_t cell = 0; cell < 5; cell++) {
        EXPECT_LE(layout.Input(cell) + input, cell == 4 ? layout.HostPart() : layout.Input(cell + 1));
        EXPECT_LE(layout.Output(cell) + output, cell == 4 ? layout.GivenUp(0) : layout.Output(cell + 1));
        EXPECT_LE(layout.GivenUp(cell) + 8, cell == 4 ? layout.Bytes() : layout.GivenUp(cell + 1));
        EXPECT_EQ(layout.Input(cell) % 4096 + layout.Output(cell) % 4096, 0u) << "cells share a page";
      }
    }
}

// An address that nobody may touch, such as a GPU's.
class Untouchable : public DeviceMemory {
 public:
  explicit Untouchable(uint64_t size) : bytes_(reinterpret_cast<std::byte*>(4096), size) {}
  [[nodiscard]] std::span<std::byte> bytes() const override { return bytes_; }
  [[nodiscard]] Result<base::Fd> Export() override { return Fail(ErrorCode::kSystem, "no"); }

 private:
  std::span<std::byte> bytes_;
};

TEST(SliceMemory, OnAGpuHasInputsAloneAndWhatTheCpuReadsAndWritesIsTheHosts) {
  const SliceOffer offer{"s", "g", 1, 2, 5000, 500};
  const CellLayout layout(offer);
  Untouchable device(layout.HostPart());
  std::vector<std::byte> host(layout.Bytes() - layout.HostPart());
  const SliceMemory memory{host, &device};
  const auto engine = MakeEmulatedEngine(Specs());
  Submission submission;
  submission.id = 9;
  submission.key = 77;
  submission.input_offset = layout.Input(1);
  submission.output_offset = layout.Output(1);
  submission.input_bytes = 28;
  submission.output_bytes = 12;
  const auto cell = CheckSubmission(offer, 77, memory, (*engine)->models(), submission);
  ASSERT_TRUE(cell);
  EXPECT_EQ(cell->inputs.data(), device.bytes().data() + layout.Input(1));
  EXPECT_EQ(cell->outputs.data(), host.data() + 4096);
  EXPECT_EQ(RoomForText(offer, memory, submission).data(), cell->outputs.data());
  EXPECT_EQ(RoomForText(offer, memory, submission).size(), kMaxMessage);
  EXPECT_FALSE(IsGivenUp(offer, memory, submission));
  host[2 * 4096 + 8] = std::byte{9};  // the second word behind two cells of outputs
  EXPECT_TRUE(IsGivenUp(offer, memory, submission));
}

// Whose device never comes back from a request, until it is let go.
class HangingEngine : public Engine {
 public:
  const std::vector<ModelCard>& models() const override { return cards; }
  Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer&, const SliceMemory&) override {
    class Slice : public SliceEngine {
     public:
      explicit Slice(HangingEngine& engine) : engine_(engine) {}
      Result<void> Run(uint32_t, int64_t, std::span<const std::byte>, std::span<std::byte>) override {
        engine_.entered.set_value();
        engine_.let_go.get_future().wait();
        return {};
      }

     private:
      HangingEngine& engine_;
    };
    return std::make_unique<Slice>(*this);
  }

  std::vector<ModelCard> cards{CardOf(Mlp({7, 5, 3}, 9, 4))};
  std::promise<void> entered, let_go;
};

TEST(Executor, TellsOfASliceThatDoesNotEnd) {
  GatewayBed bed;
  HangingEngine engine;
  ExecutorOptions options = bed.Executor("host");
  options.stuck_after = std::chrono::milliseconds(1);
  std::string told;
  options.on_stuck = [&](const Error& error) {
    told = error.message;
    engine.let_go.set_value();
  };
  Executor executor(options, engine);
  ASSERT_TRUE(executor.Join());
  auto client = bed.Dial();
  const auto model = client->Describe("mlp");
  ASSERT_TRUE(model);
  std::vector<std::byte> input(model->card.InputBytes(1));
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, input); });
  engine.entered.get_future().wait();
  executor.Leave();
  EXPECT_EQ(told, "a slice's device does not answer");
  asked.wait();
}

// One request at a time is let through; how many ran, and how many at once.
class StepEngine : public Engine {
 public:
  const std::vector<ModelCard>& models() const override { return cards; }
  Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer&, const SliceMemory&) override {
    class Slice : public SliceEngine {
     public:
      explicit Slice(StepEngine& engine) : engine_(engine) {}
      Result<void> Run(uint32_t, int64_t, std::span<const std::byte>, std::span<std::byte>) override {
        engine_.ran++;
        engine_.ran.notify_all();
        engine_.steps.acquire();
        return {};
      }

     private:
      StepEngine& engine_;
    };
    return std::make_unique<Slice>(*this);
  }
  void UntilRan(int count) {
    for (int now = ran; now < count; now = ran) ran.wait(now);
  }

  std::vector<ModelCard> cards{CardOf(Mlp({7, 5, 3}, 9, 4))};
  std::atomic<int> ran{0};
  std::counting_semaphore<> steps{0};
};

TEST(Executor, DoesNotRunWhatWasGivenUpMeanwhile) {
  GatewayBed bed;
  StepEngine engine;
  Executor executor(bed.Executor("host"), engine);
  ASSERT_TRUE(executor.Join());
  auto first = bed.Dial(), second = bed.Dial();
  const auto model = first->Describe("mlp");
  const std::vector<std::byte> input(model->card.InputBytes(1));
  auto asked = std::async(std::launch::async, [&] { return first->Infer(model->index, 1, input); });
  engine.UntilRan(1);
  // The slice has it in its ring, behind the first; by its deadline nobody wants it.
  const auto late = second->Infer(model->index, 1, input, std::chrono::milliseconds(5));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->status, Status::kDeadline);
  engine.steps.release();
  EXPECT_EQ(asked.get()->status, Status::kOk);
  auto third = std::async(std::launch::async, [&] { return first->Infer(model->index, 1, input); });
  engine.UntilRan(2);
  engine.steps.release(2);
  EXPECT_EQ(third.get()->status, Status::kOk);
  EXPECT_EQ(engine.ran, 2) << "what nobody wants was run";
}

TEST(Executor, GetsNoRequestsBeforeAllItsEnginesAreMade) {
  struct Slow : StepEngine {
    Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer& offer,
                                                   const SliceMemory& memory) override {
      loads.acquire();
      loaded++;
      return StepEngine::MakeSlice(offer, memory);
    }
    std::counting_semaphore<> loads{0};
    std::atomic<int> loaded{0};
  };
  GatewayBed bed;
  Slow slow;
  StepEngine engine;
  std::vector<std::string> told;  // on the server's thread
  bed.Ask([&](Server& server) {
    server.OnExecutors([&](const std::string& name, bool is_here) {
      told.push_back(name + (is_here ? " is ready" : " has gone"));
    });
    return 0;
  });
  Executor starting(bed.Executor("starting", 2), slow);
  ASSERT_TRUE(starting.Join());
  slow.loads.release();
  auto client = bed.Dial();
  const auto model = client->Describe("mlp");
  ASSERT_TRUE(model);
  const auto is_ready = [&] {
    return bed.Ask([&](Server& server) { return server.broker().ModelReady(model->index); });
  };
  while (slow.loaded < 1) std::this_thread::yield();
  EXPECT_FALSE(is_ready());
  // Another that is ready has them all.
  Executor other(bed.Executor("other", 1, 1), engine);
  ASSERT_TRUE(other.Join());
  bed.Until([&](Server&) { return !told.empty(); });
  engine.steps.release(8);
  const std::vector<std::byte> input(model->card.InputBytes(1));
  for (int i = 0; i < 8; i++) EXPECT_EQ(client->Infer(model->index, 1, input)->status, Status::kOk);
  EXPECT_EQ(slow.ran, 0);
  other.Leave();
  slow.steps.release();
  auto asked = std::async(std::launch::async, [&] { return client->Infer(model->index, 1, input); });
  bed.Until([](Server& server) { return server.broker().queued() == 1; });
  slow.loads.release();
  EXPECT_EQ(asked.get()->status, Status::kOk);
  EXPECT_TRUE(is_ready());
  EXPECT_EQ(bed.Ask([&](Server&) { return told; }),
            (std::vector<std::string>{"other is ready", "other has gone", "starting is ready"}));
  bed.Ask([&](Server& server) {
    server.OnExecutors(nullptr);
    return 0;
  });
}

TEST(Executor, ThatDoesNotMakeItsEnginesInTimeIsLetGo) {
  struct Stuck : StepEngine {
    Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer&, const SliceMemory&) override {
      let_go.acquire();
      return Fail(ErrorCode::kSystem, "let go");
    }
    std::binary_semaphore let_go{0};
  };
  GatewayConfig config = GatewayBed::Config();
  config.start = std::chrono::milliseconds(1);
  GatewayBed bed(config);
  Stuck stuck;
  ExecutorOptions options = bed.Executor("host");
  options.stuck_after = std::chrono::milliseconds(1);
  std::string told;
  options.on_stuck = [&](const Error& error) {
    told = error.message;
    stuck.let_go.release();
  };
  const base::Fd stop = std::move(*MakeEventFd());
  Executor executor(options, stuck);
  ASSERT_TRUE(executor.Join());
  EXPECT_FALSE(bed.Ask([](Server& server) { return server.IsReady(); }));
  [[maybe_unused]] const auto served = executor.Serve(stop.get());
  EXPECT_EQ(told, "a slice's device does not answer");
}

TEST(Executor, ThatEndsBeforeItIsReadyWasNeverThere) {
  struct Broken : StepEngine {
    Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer&, const SliceMemory&) override {
      return Fail(ErrorCode::kSystem, "no room for its weights");
    }
  };
  GatewayBed bed;
  Broken broken;
  int told = 0;
  bed.Ask([&](Server& server) {
    server.OnExecutors([&](const std::string&, bool) { told++; });
    return 0;
  });
  const base::Fd stop = std::move(*MakeEventFd());
  Executor executor(bed.Executor("host"), broken);
  ASSERT_TRUE(executor.Join());
  EXPECT_THAT(executor.Serve(stop.get()).error().message, testing::HasSubstr("no room for its weights"));
  bed.Until([](Server& server) { return !server.broker().Slices().at(0).alive; });
  EXPECT_EQ(bed.Ask([&](Server&) { return told; }), 0);
  bed.Ask([&](Server& server) {
    server.OnExecutors(nullptr);
    return 0;
  });
}

TEST(Executor, SaysTheHostsNameThatContainersOfItShare) {
  GatewayBed bed;
  StepEngine engine;
  Executor executor(bed.Executor("one"), engine);
  ASSERT_TRUE(executor.Join());
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  ASSERT_FALSE(boot.empty());
  EXPECT_EQ(bed.Ask([](Server& server) { return server.broker().gpus().at(0).identity; }), boot + "/gpu0");
}

TEST(Executor, SaysWhatMemoryItsEngineHasInputsDeliveredTo) {
  struct Pinning : StepEngine {
    std::string MemoryOf(const SliceOffer&) const override { return "pinned-host"; }
  };
  GatewayBed bed;
  StepEngine engine;
  Pinning pinning;
  Executor one(bed.Executor("one"), engine), two(bed.Executor("two"), pinning);
  ASSERT_TRUE(one.Join() && two.Join());
  const auto memories = bed.Ask([](Server& server) {
    std::map<std::string, std::string> by_executor;
    for (const auto& slice : server.broker().Slices()) by_executor[slice.executor] = slice.memory;
    return by_executor;
  });
  EXPECT_EQ(memories, (std::map<std::string, std::string>{{"one", "host"}, {"two", "pinned-host"}}));
}

// Of two hosts as they say themselves, at one address.
TEST(Executor, OfAnotherHostHasAnotherGpuThoughItIsNamedAlike) {
  GatewayConfig config = GatewayBed::Config();
  config.broker.isolation = scheduler::Isolation::kGpu;
  GatewayBed bed(config);
  const auto join = [&](const std::string& name, const std::string& host) {
    ExecutorOffer offer{name, {CardOf(Mlp({7, 5, 3}, 9, 4))}, bed.Executor(name).slices};
    offer.host = host;
    return JoinGateway({bed.executors_path()}, offer);
  };
  const auto one = join("one", "here"), two = join("two", "there"), three = join("three", "there");
  ASSERT_TRUE(one && two && three);
  const auto slices = bed.Ask([](Server& server) {
    std::map<std::string, uint32_t> by_gpu;
    for (const auto& gpu : server.broker().gpus()) by_gpu[gpu.identity] = gpu.slices;
    return by_gpu;
  });
  EXPECT_EQ(slices, (std::map<std::string, uint32_t>{{"here/gpu0", 1}, {"there/gpu0", 2}}));
}

// G8's experiment: as MIG needs it, two executors have slices of one GPU.
TEST(Executor, TwoOnOneGpuNeverRunTwoTenantsSideBySide) {
  GatewayConfig config = GatewayBed::Config();
  config.broker.isolation = scheduler::Isolation::kGpu;
  GatewayBed bed(config);
  StepEngine engine;
  Executor one(bed.Executor("one"), engine), two(bed.Executor("two"), engine);
  ASSERT_TRUE(one.Join());
  ASSERT_TRUE(two.Join());
  auto alice = bed.Dial("alice"), bob = bed.Dial("bob", "bobs-token");
  const auto model = alice->Describe("mlp");
  const std::vector<std::byte> input(model->card.InputBytes(1));
  auto alices = std::async(std::launch::async, [&] { return alice->Infer(model->index, 1, input); });
  engine.UntilRan(1);
  auto bobs = std::async(std::launch::async, [&] { return bob->Infer(model->index, 1, input); });
  bed.Until([](Server& server) { return server.broker().queued() + server.broker().running() == 2; });
  EXPECT_EQ(bed.Ask([](Server& server) { return server.broker().running(); }), 1u);
  EXPECT_EQ(engine.ran, 1) << "two tenants side by side on one GPU";
  engine.steps.release();
  EXPECT_EQ(alices.get()->status, Status::kOk);
  engine.UntilRan(2);
  engine.steps.release();
  EXPECT_EQ(bobs.get()->status, Status::kOk);
}

}  // namespace
}  // namespace spillway::gateway
