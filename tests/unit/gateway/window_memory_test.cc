// SPDX-License-Identifier: Apache-2.0
// What windows hold of their limit, until their memory is free; and who waits for that. The test is the
// gateway's thread, and says when memory is free.
#include "gateway/window_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <latch>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>

#include "base/fd.h"
#include "broker_bed.h"
#include "frames.h"
#include "gateway/session.h"
#include "session_host.h"

namespace spillway::gateway {
namespace {

using testing::HasSubstr;

constexpr uint64_t kLimit = 64 << 10;

BrokerOptions Options() {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.windows = kLimit;
  return options;
}

// Memory that takes as long to free as the test likes.
class SlowMemory {
 public:
  ~SlowMemory() { Free(); }
  std::shared_ptr<void> Take() {
    return {nullptr, [this, begun = begun_, may_go = may_go_](void*) {
              by = std::this_thread::get_id();
              begun->release();
              may_go->wait();
            }};
  }
  // Until somebody frees it.
  void UntilBegun() { begun_->acquire(); }
  void Free() {
    if (!std::exchange(is_freed_, true)) may_go_->count_down();
  }
  std::thread::id by;  // once it is free

 private:
  std::shared_ptr<std::counting_semaphore<>> begun_ = std::make_shared<std::counting_semaphore<>>(0);
  std::shared_ptr<std::latch> may_go_ = std::make_shared<std::latch>(1);
  bool is_freed_ = false;
};

struct WindowMemoryTest : public testing::Test {
  uint64_t Held() { return bed.broker.windows_held(); }
  // Its memory is not free before `memory` is.
  void End(WindowMemory::Held held) { windows->memory.Free(slow.Take(), std::move(held)); }

  BrokerBed bed{Options()};
  std::optional<WindowMemoryBed> windows{std::in_place, bed, 4};
  SlowMemory slow;  // goes first: nobody waits for it any more
};

TEST_F(WindowMemoryTest, IsHeldUntilItIsFreeWhichHappensElsewhere) {
  auto held = windows->memory.Hold(kLimit, kAlice);
  ASSERT_TRUE(held);
  EXPECT_EQ(windows->memory.Hold(1, kAlice).error().code, ErrorCode::kConflict);
  End(std::move(*held));
  slow.UntilBegun();
  windows->posts.Run();
  EXPECT_EQ(Held(), kLimit);
  EXPECT_EQ(windows->memory.Hold(1, kAlice).error().code, ErrorCode::kConflict);
  slow.Free();
  windows->UntilFreed();
  EXPECT_EQ(Held(), 0u);
  EXPECT_NE(slow.by, std::this_thread::get_id());
  EXPECT_TRUE(windows->memory.Hold(kLimit, kAlice));
}

TEST_F(WindowMemoryTest, IsHeldAsLongAsAnybodyHoldsIt) {
  auto held = windows->memory.Hold(kLimit, kAlice);
  ASSERT_TRUE(held);
  const auto maker = std::make_unique<WindowMemory::Held>(*held);
  windows->memory.Free(nullptr, std::move(*held));
  windows->UntilFreed();
  EXPECT_EQ(Held(), kLimit);
  maker->reset();
  windows->posts.Run();
  EXPECT_EQ(Held(), 0u);
}

TEST_F(WindowMemoryTest, ManySmallOnesThatAreNotFreeAreEnough) {
  for (int i = 0; i < 4; i++) {
    EXPECT_FALSE(windows->memory.IsBehind()) << i;
    End(*windows->memory.Hold(1, kAlice));
  }
  EXPECT_TRUE(windows->memory.IsBehind());
  slow.Free();
  windows->UntilFreed();
  EXPECT_FALSE(windows->memory.IsBehind());
}

TEST_F(WindowMemoryTest, AtTheEndAllIsFree) {
  auto slow_held = windows->memory.Hold(1, kAlice);
  const auto memory = std::make_shared<int>(1);
  End(std::move(*slow_held));
  windows->memory.Free(memory, *windows->memory.Hold(1, kAlice));
  windows->memory.WhenFreed([] { FAIL() << "nobody is there to be told"; });
  slow.Free();
  windows.reset();
  EXPECT_EQ(memory.use_count(), 1);
}

// A session of this host's client, who asks for a window while another's memory is not free yet.
struct WindowOfASession : public WindowMemoryTest {
  WindowOfASession() {
    config.broker = bed.broker.options();
    config.tokens = {"", ""};
    bed.Join("e");
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client = base::Fd(ends[1]);
    session = std::make_unique<Session>(host, 1, base::Fd(ends[0]), /*is_unix=*/true);
    Receive(HelloFrame());
    Sent();
  }
  // As much as it reads.
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
  static std::string Asks(uint64_t bytes) {
    FrameHeader header;
    header.type = static_cast<uint8_t>(FrameType::kOpenWindow);
    header.id = 7;
    WindowMeta meta;
    meta.bytes = bytes;
    meta.slots = 4;
    return EncodeFrame(header, MetaBytes(meta));
  }
  // All but the window itself, which goes with its descriptors.
  std::string Sent() {
    std::string all;
    for (auto piece = session->NextWrite(); !piece.empty(); piece = session->NextWrite()) {
      all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      session->Sent(static_cast<int64_t>(piece.size()));
    }
    return all;
  }
  bool Reads() { return !session->NextRead().empty(); }
  // Bob's window, of the whole limit, ends.
  void EndAnother() { End(*windows->memory.Hold(kLimit, kBob)); }

  GatewayConfig config;
  RegionTable regions;
  SessionHost host = HostOf(config, bed, regions, *windows);
  base::Fd client;
  std::unique_ptr<Session> session;
};

TEST_F(WindowOfASession, IsOpenedOnceWhatEndedBeforeIsFree) {
  EndAnother();
  Receive(Asks(kLimit));
  EXPECT_EQ(session->window(), nullptr);
  EXPECT_EQ(Sent(), "") << "it is not refused";
  EXPECT_FALSE(Reads());
  slow.Free();
  windows->UntilFreed();
  ASSERT_NE(session->window(), nullptr);
  EXPECT_EQ(Held(), kLimit);
  EXPECT_TRUE(Reads());
}

TEST_F(WindowOfASession, IsNotOvertakenByWhatItsClientSentBehind) {
  EndAnother();
  // In one piece with the frame before it.
  Receive(DescribeFrame(6, "other") + Asks(kLimit) + DescribeFrame(8, "m"));
  EXPECT_THAT(Sent(), HasSubstr("other"));
  EXPECT_FALSE(Reads());
  slow.Free();
  windows->UntilFreed();
  EXPECT_NE(session->window(), nullptr);
  EXPECT_THAT(Sent(), HasSubstr("\"name\":\"m\""));
}

TEST_F(WindowOfASession, IsRefusedWhereOthersGoOnHoldingTheMemory) {
  const auto stays = windows->memory.Hold(kLimit / 2, kBob);
  End(*windows->memory.Hold(kLimit / 2, kBob));
  Receive(Asks(kLimit));
  EXPECT_EQ(Sent(), "");
  slow.Free();
  windows->UntilFreed();
  EXPECT_EQ(session->window(), nullptr);
  EXPECT_THAT(Sent(), HasSubstr("the memory for windows is full"));
  EXPECT_TRUE(Reads());
  Receive(Asks(kLimit / 2));
  EXPECT_NE(session->window(), nullptr);
}

TEST_F(WindowOfASession, WaitsWhereManySmallOnesAreNotFree) {
  for (int i = 0; i < 4; i++) End(*windows->memory.Hold(1, kBob));
  Receive(Asks(4096));
  EXPECT_EQ(session->window(), nullptr);
  EXPECT_EQ(Held(), 4u) << "what it waits for it does not hold yet";
  slow.Free();
  windows->UntilFreed();
  EXPECT_NE(session->window(), nullptr);
}

TEST_F(WindowOfASession, WhoseClientHasGoneMeanwhileIsNotOpened) {
  EndAnother();
  Receive(Asks(kLimit));
  session.reset();
  slow.Free();
  windows->UntilFreed();
  EXPECT_EQ(Held(), 0u);
}

TEST_F(WindowOfASession, HoldsItsMemoryUntilThatIsFree) {
  Receive(Asks(kLimit));
  ASSERT_NE(session->window(), nullptr);
  windows->memory.Free(slow.Take(), nullptr);  // which is done before
  session.reset();
  EXPECT_EQ(regions.size(), 0u) << "nobody names it any more";
  windows->posts.Run();
  EXPECT_EQ(Held(), kLimit);
  slow.Free();
  windows->UntilFreed();
  EXPECT_EQ(Held(), 0u);
}

}  // namespace
}  // namespace spillway::gateway
