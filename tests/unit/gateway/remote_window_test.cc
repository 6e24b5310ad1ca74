// SPDX-License-Identifier: Apache-2.0
// A session's window over RDMA, without RDMA: the test is the device, the slice and the clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <latch>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "broker_bed.h"
#include "frames.h"
#include "gateway/session.h"
#include "session_host.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint64_t kWindowBytes = 4096;
constexpr uint32_t kWindowSlots = 2;
constexpr uint64_t kWindowHolds = kWindowBytes + RemoteWindow::Overhead(kWindowSlots);

struct FakeWindow : public RemoteWindow {
  FakeWindow(uint64_t bytes, uint32_t of)
      : memory(std::make_shared<std::vector<std::byte>>(bytes)), ring(of) {}

  [[nodiscard]] State state() const override { return is; }
  [[nodiscard]] uint64_t ticket() const override { return 77; }
  [[nodiscard]] std::span<std::byte> bytes() const override { return *memory; }
  [[nodiscard]] std::shared_ptr<const void> keeper() const override { return memory; }
  [[nodiscard]] std::shared_ptr<void> TakeMemory() override { return std::move(memory); }
  [[nodiscard]] uint32_t slots() const override { return ring; }
  bool TakeSubmission(Submission& into) override {
    if (came.empty()) return false;
    into = came.front();
    came.pop_front();
    return true;
  }
  [[nodiscard]] uint64_t AnswersWaiting() const override { return 0; }
  void Complete(const Completion& completion, uint64_t offset) override {
    answers.emplace_back(completion, offset);
  }
  [[nodiscard]] bool HasSentAll() override { return true; }
  [[nodiscard]] std::string Fault() const override { return fault; }
  [[nodiscard]] int bell() const override { return -1; }
  bool PrepareToWait() override { return came.empty(); }
  void DoneWaiting() override {}

  State is = State::kMaking;
  std::string fault;
  std::shared_ptr<std::vector<std::byte>> memory;
  uint32_t ring;
  std::deque<Submission> came;
  std::vector<std::pair<Completion, uint64_t>> answers;
};

struct FakeDevice : public WindowListener {
  [[nodiscard]] base::SocketAddress address() const override {
    return base::SocketAddress::Parse("192.0.2.7:7411").value();
  }
  [[nodiscard]] int events() const override { return -1; }
  [[nodiscard]] std::vector<uint64_t> Serve() override { return {}; }
  [[nodiscard]] Result<std::unique_ptr<RemoteWindow>> Expect(uint64_t, uint64_t bytes, uint32_t slots,
                                                             std::shared_ptr<const void> part) override {
    if (is_gone) return Fail(ErrorCode::kSystem, "the gateway's RDMA device has gone");
    auto made = std::make_unique<FakeWindow>(bytes, slots);
    window = made.get();
    held = part;
    return made;
  }

  bool is_gone = false;
  FakeWindow* window = nullptr;  // the last
  std::weak_ptr<const void> held;
};

class RemoteWindowOfASession : public testing::Test {
 protected:
  void SetUp() override {
    config.broker = bed.broker.options();
    config.tokens = {"", ""};
    bed.Join("e");
    Open();
  }
  void Open() {
    session = std::make_unique<Session>(host, 1, base::Fd(), /*is_unix=*/false);
    Receive(HelloFrame());
    EXPECT_THAT(Sent().meta, HasSubstr("\"rdma_window\":true"));
  }
  void Receive(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto into = session->NextRead();
      ASSERT_FALSE(into.empty());
      const size_t now = std::min(bytes.size(), into.size());
      std::memcpy(into.data(), bytes.data(), now);
      session->Got(static_cast<int64_t>(now));
      bytes.remove_prefix(now);
    }
  }
  // The one frame that the session has to send; of no type if there is none.
  Frame Sent() {
    const auto bytes = session->NextWrite();
    if (bytes.empty()) return {};
    Frame frame;
    std::memcpy(&frame.header, bytes.data(), sizeof(frame.header));
    frame.meta.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(frame.header),
                      bytes.size() - sizeof(frame.header));
    session->Sent(static_cast<int64_t>(bytes.size()));
    return frame;
  }
  void Ask(uint64_t id, uint64_t bytes = kWindowBytes, uint32_t slots = kWindowSlots) {
    FrameHeader header;
    header.type = static_cast<uint8_t>(FrameType::kOpenWindow);
    header.id = id;
    WindowMeta meta;
    meta.bytes = bytes;
    meta.slots = slots;
    Receive(EncodeFrame(header, MetaBytes(meta)));
  }
  void News(RemoteWindow::State state) {
    device.window->is = state;
    session->HandleWindowNews();
  }
  // Asked for, told, connected.
  void Connect() {
    Ask(5);
    News(RemoteWindow::State::kReady);
    key = nlohmann::json::parse(Sent().meta)["key"].get<uint64_t>();
    News(RemoteWindow::State::kConnected);
  }
  void Submit(uint64_t id, uint64_t of_key) {
    Submission submission;
    submission.id = id;
    submission.key = of_key;
    submission.input_bytes = 4;
    submission.output_offset = 1024;
    submission.output_bytes = 64;
    device.window->came.push_back(submission);
    session->TakeSubmissions();
  }
  // Once what has ended is free.
  uint64_t Held() {
    windows.UntilFreed();
    return bed.broker.windows_held();
  }

  BrokerBed bed;
  GatewayConfig config;
  RegionTable regions;
  FakeDevice device;
  WindowMemoryBed windows{bed};
  SessionHost host = HostOf(config, bed, regions, windows, &device);
  std::unique_ptr<Session> session;
  uint64_t key = 0;
};

TEST_F(RemoteWindowOfASession, IsToldOnceItsMemoryIsThere) {
  Ask(5);
  EXPECT_FALSE(Sent().Is(FrameType::kRemoteWindow));
  EXPECT_EQ(Held(), kWindowHolds);
  News(RemoteWindow::State::kReady);
  const Frame told = Sent();
  ASSERT_TRUE(told.Is(FrameType::kRemoteWindow));
  EXPECT_EQ(told.header.id, 5u);
  const auto place = nlohmann::json::parse(told.meta);
  EXPECT_EQ(place["address"], "192.0.2.7");
  EXPECT_EQ(place["port"], 7411);
  EXPECT_EQ(place["ticket"], 77);
  EXPECT_EQ(place["bytes"], kWindowBytes);
  News(RemoteWindow::State::kReady);
  EXPECT_FALSE(Sent().Is(FrameType::kRemoteWindow)) << "told twice";
  Ask(6);
  EXPECT_THAT(Sent().meta, HasSubstr("there is a window already"));
  session.reset();
  EXPECT_EQ(Held(), 0u);
  EXPECT_EQ(regions.size(), 0u);
}

TEST_F(RemoteWindowOfASession, HasItsInputsReadWhereTheyWereWrittenAndOutputsPutThere) {
  Connect();
  std::memcpy(device.window->memory->data(), "abcd", 4);
  Submit(9, key);
  ASSERT_EQ(bed.delivered.size(), 1u);
  EXPECT_EQ(bed.delivered[0].inputs.data(), device.window->memory->data());
  ASSERT_TRUE(bed.Done(0));
  ASSERT_EQ(device.window->answers.size(), 1u);
  const auto& [completion, offset] = device.window->answers[0];
  EXPECT_EQ(completion.id, 9u);
  EXPECT_EQ(completion.status, 0u);
  EXPECT_EQ(completion.output_bytes, 2u);
  EXPECT_EQ(offset, 1024u);
}

TEST_F(RemoteWindowOfASession, IsNotNamedByAnotherKey) {
  Connect();
  std::vector<std::byte> others(4096);
  const uint64_t another = regions.Register(2, others);
  for (const uint64_t wrong : {another, key + 1, uint64_t{0}}) Submit(9, wrong);
  EXPECT_TRUE(bed.delivered.empty());
  ASSERT_EQ(device.window->answers.size(), 3u);
  for (const auto& [completion, offset] : device.window->answers) {
    EXPECT_EQ(completion.status, static_cast<uint32_t>(Status::kDenied));
    EXPECT_EQ(completion.output_bytes, 0u);
  }
}

TEST_F(RemoteWindowOfASession, WithMoreRequestsThanSlotsEndsTheSession) {
  Connect();
  Submit(1, key);
  Submit(2, key);
  EXPECT_FALSE(session->over());
  Submit(3, key);
  EXPECT_TRUE(session->over());
  EXPECT_THAT(session->fault(), HasSubstr("more requests than slots"));
}

TEST_F(RemoteWindowOfASession, ThatBreaksEndsTheSession) {
  Connect();
  device.window->fault = "the window's connection was closed";
  session->HandleWindowNews();
  session->TakeSubmissions();
  EXPECT_TRUE(session->over());
  EXPECT_EQ(session->fault(), "the window's connection was closed");
}

TEST_F(RemoteWindowOfASession, ThatCannotBeMadeLeavesTheSessionToFrames) {
  device.is_gone = true;
  Ask(4);
  EXPECT_THAT(Sent().meta, HasSubstr("device has gone"));
  EXPECT_EQ(Held(), 0u);
  device.is_gone = false;
  Ask(5);
  device.window->fault = "no memory";
  News(RemoteWindow::State::kMaking);
  const Frame refused = Sent();
  EXPECT_TRUE(refused.Is(FrameType::kError));
  EXPECT_EQ(refused.header.id, 5u);
  EXPECT_EQ(refused.header.status, static_cast<uint16_t>(Status::kBusy));
  EXPECT_EQ(Held(), 0u);
  // Told, but the device then does not take it.
  Ask(6);
  News(RemoteWindow::State::kReady);
  EXPECT_TRUE(Sent().Is(FrameType::kRemoteWindow));
  device.window->fault = "registering";
  News(RemoteWindow::State::kReady);
  EXPECT_EQ(Held(), 0u);
  EXPECT_FALSE(session->over());
  Receive(DescribeFrame(7, "m"));
  EXPECT_TRUE(Sent().Is(FrameType::kModel));
  // Accepted, but its client never says that it is connected.
  Ask(8);
  News(RemoteWindow::State::kReady);
  EXPECT_TRUE(Sent().Is(FrameType::kRemoteWindow));
  News(RemoteWindow::State::kConnecting);
  EXPECT_EQ(Held(), kWindowHolds);
  device.window->fault = "unreachable";
  News(RemoteWindow::State::kConnecting);
  EXPECT_EQ(Held(), 0u);
  EXPECT_FALSE(session->over());
}

TEST_F(RemoteWindowOfASession, ThatNobodyConnectsIsGivenUpInTime) {
  Ask(5);
  bed.now += 40s;
  session->EndLateWindow(bed.now, 30s);
  EXPECT_EQ(Held(), kWindowHolds) << "its client was not told where to connect";
  News(RemoteWindow::State::kReady);
  EXPECT_TRUE(Sent().Is(FrameType::kRemoteWindow));
  bed.now += 29s;
  session->EndLateWindow(bed.now, 30s);
  EXPECT_EQ(Held(), kWindowHolds);
  bed.now += 2s;
  session->EndLateWindow(bed.now, 30s);
  EXPECT_EQ(Held(), 0u);
  EXPECT_EQ(regions.size(), 0u);
  EXPECT_FALSE(session->over());
  Connect();
  bed.now += 3600s;
  session->EndLateWindow(bed.now, 30s);
  EXPECT_EQ(Held(), kWindowHolds) << "it is connected";
}

TEST_F(RemoteWindowOfASession, IsGivenBackWhenItsClientCancelsItOrIsRefused) {
  Ask(5);
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kCancel);
  header.id = 5;
  Receive(EncodeFrame(header, ""));
  EXPECT_EQ(Held(), 0u);
  Ask(6, bed.broker.options().windows + 4096);
  EXPECT_EQ(Sent().header.status, static_cast<uint16_t>(Status::kTooLarge));
  EXPECT_EQ(Held(), 0u);
}

TEST_F(RemoteWindowOfASession, WhoseClientVanishesHasNoRequestsLeftAndItsMemoryGone) {
  Connect();
  Submit(1, key);
  ASSERT_EQ(bed.delivered.size(), 1u);
  const std::weak_ptr<std::vector<std::byte>> memory = device.window->memory;
  EXPECT_FALSE(device.held.expired());
  const auto may_go = std::make_shared<std::latch>(1);
  windows.memory.Free({nullptr, [may_go](void*) { may_go->wait(); }}, nullptr);
  session.reset();
  EXPECT_EQ(bed.given_up.size(), 1u);
  EXPECT_FALSE(memory.expired()) << "it is freed behind what ended before, not by the gateway's thread";
  EXPECT_EQ(bed.broker.windows_held(), kWindowHolds);
  may_go->count_down();
  EXPECT_EQ(Held(), 0u);
  EXPECT_TRUE(memory.expired()) << "though the slice still works on what was copied of it";
  EXPECT_TRUE(bed.Done(0)) << "and its answer is nobody's";
}

}  // namespace
}  // namespace spillway::gateway
