// SPDX-License-Identifier: Apache-2.0
// One client's session without its socket: what it reads next, and what it waits for. The test is the
// reactor, the slice and the clock.
#include "gateway/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "broker_bed.h"
#include "frames.h"
#include "gateway/transport/shm/window.h"
#include "session_host.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kAnswer = 1 << 20;  // bytes of outputs

class SessionBed {
 public:
  explicit SessionBed(uint64_t memory = 256 << 20) : bed(Options(memory)) {
    config.broker = bed.broker.options();
    config.tokens = {"", ""};
    ModelCard card = SmallModel();
    card.outputs = {{"output", DataType::kU8, {-1, static_cast<int64_t>(kAnswer)}}};
    card.most_rows = 1;
    const auto joined =
        bed.broker.AddExecutor({"host", {card}, {{"s", "gpu0", 1.0, 1, 64, kAnswer}}}, bed.now);
    EXPECT_TRUE(joined) << joined.error().message;
    Receive(HelloFrame());
    SendAll();
  }

  void Receive(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto into = session.NextRead();
      ASSERT_FALSE(into.empty()) << "it reads nothing";
      const size_t now = std::min(bytes.size(), into.size());
      std::memcpy(into.data(), bytes.data(), now);
      session.Got(static_cast<int64_t>(now));
      bytes.remove_prefix(now);
    }
  }
  // Asks, and the slice answers; the answer stays with the session.
  void AskAndAnswer() {
    const size_t before = bed.delivered.size();
    Receive(InferFrame(before + 1, "abcd"));
    ASSERT_EQ(bed.delivered.size(), before + 1) << "it was refused";
    const std::vector<std::byte> outputs(kAnswer);
    ASSERT_TRUE(bed.broker.Complete(0, bed.delivered.back().id, Status::kOk, outputs, Duration(1), bed.now));
  }
  void SendAll() {
    for (auto piece = session.NextWrite(); !piece.empty(); piece = session.NextWrite())
      session.Sent(static_cast<int64_t>(piece.size()));
  }
  bool Reads() { return !session.NextRead().empty(); }

  BrokerBed bed;
  GatewayConfig config;
  RegionTable regions;
  WindowMemoryBed windows{bed};
  SessionHost host = HostOf(config, bed, regions, windows);
  Session session{host, 1, base::Fd(), false};

 private:
  static BrokerOptions Options(uint64_t memory) {
    BrokerOptions options = BrokerBed::TwoTenants();
    options.memory = memory;
    return options;
  }
};

TEST(Session, ReadsNothingWhileEightMegabytesOfAnswersWait) {
  SessionBed client;
  for (int i = 0; i < 8; i++) {
    EXPECT_TRUE(client.Reads()) << i;
    client.AskAndAnswer();
  }
  EXPECT_FALSE(client.Reads());
  const auto piece = client.session.NextWrite();
  client.session.Sent(static_cast<int64_t>(piece.size() - 1));
  EXPECT_FALSE(client.Reads()) << "all but a byte of what is on its way is sent";
  client.SendAll();
  EXPECT_TRUE(client.Reads());
}

TEST(Session, ReadsNothingWhileOneMegabyteOfAnswersWaitsAndTheMemoryIsFull) {
  SessionBed client(8 * kAnswer);
  Broker& broker = client.bed.broker;
  broker.Hold(8 * kAnswer);
  EXPECT_TRUE(client.Reads()) << "it has no answers to wait for";
  broker.Release(8 * kAnswer);
  client.AskAndAnswer();
  EXPECT_TRUE(client.Reads());
  const uint64_t rest = 8 * kAnswer - broker.memory_held();
  broker.Hold(rest);
  EXPECT_FALSE(client.Reads());
  broker.Release(rest);
  EXPECT_TRUE(client.Reads());
  client.SendAll();
  EXPECT_EQ(broker.memory_held(), 0u);
}

// Answers to what costs nothing to ask are memory that nobody agreed to: of many connections they would take
// what is kept for others.
TEST(Session, AnswersThatNobodyReadsLeaveOthersTheirReserves) {
  constexpr uint64_t kReserve = 2 << 20;
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 8 << 20;
  options.tenants[kBob].reserve = kReserve;
  BrokerBed bed(options);
  GatewayConfig config;
  config.broker = bed.broker.options();
  config.tokens = {"", ""};
  RegionTable regions;
  WindowMemoryBed windows{bed};
  SessionHost host = HostOf(config, bed, regions, windows);
  std::vector<std::unique_ptr<Session>> sessions;
  const auto receive = [](Session& session, const std::string& frame) {
    const auto into = session.NextRead();
    if (into.size() < frame.size()) return false;
    std::memcpy(into.data(), frame.data(), frame.size());
    session.Got(static_cast<int64_t>(frame.size()));
    return true;
  };
  const std::string nobody = DescribeFrame(1, std::string(100, 'x'));
  for (uint64_t i = 0; i < 32; i++) {
    sessions.push_back(std::make_unique<Session>(host, i, base::Fd(), false));
    ASSERT_TRUE(receive(*sessions.back(), HelloFrame()));
    while (receive(*sessions.back(), nobody)) {
    }
  }
  EXPECT_GT(bed.broker.memory_held(), options.memory / 2) << "little was piled up";
  const uint64_t others = 32 * (17 << 10);  // which each may have whatever there is: 16 KiB and an answer
  EXPECT_TRUE(bed.broker.HasMemory({kBob, Front::kFrames}, kReserve - others));
}

TEST(Session, IsLateWhoseAnswersAreNotReadAtAll) {
  SessionBed client;
  client.AskAndAnswer();
  client.bed.now += 30s;
  EXPECT_FALSE(client.session.IsLate(client.bed.now, 30s));
  client.bed.now += 1s;
  EXPECT_TRUE(client.session.IsLate(client.bed.now, 30s));
}

// A byte now and then would keep the memory for as long as the client likes.
TEST(Session, IsLateWhoReadsTooSlowly) {
  SessionBed client;
  for (int i = 0; i < 4; i++) client.AskAndAnswer();
  client.session.NextWrite();
  for (int second = 0; second < 60; second++) {
    client.session.Sent(64 << 10);
    client.bed.now += 1s;
    EXPECT_FALSE(client.session.IsLate(client.bed.now, 30s)) << second;
  }
  client.SendAll();
  client.AskAndAnswer();
  client.session.NextWrite();
  for (int second = 0; second < 30; second++) {
    client.session.Sent(1);
    client.bed.now += 1s;
    EXPECT_FALSE(client.session.IsLate(client.bed.now, 30s)) << second;
  }
  client.bed.now += 1s;
  EXPECT_TRUE(client.session.IsLate(client.bed.now, 30s));
  EXPECT_EQ(client.session.fault(), "its answers were not read within limits.receive");
}

TEST(Session, KeepsNoBuffersWhileItIsIdle) {
  SessionBed client;
  EXPECT_GT(client.session.FreeIdleBuffers(), 0u) << "it was welcomed";
  EXPECT_EQ(client.session.FreeIdleBuffers(), 0u);
  client.AskAndAnswer();
  EXPECT_EQ(client.session.FreeIdleBuffers(), 0u) << "its answer waits";
}

TEST(Session, OneThatHasReadAllIsNotLate) {
  SessionBed client;
  client.AskAndAnswer();
  client.SendAll();
  client.bed.now += 60s;
  EXPECT_FALSE(client.session.IsLate(client.bed.now, 30s));
}

// A client that submits as fast as it is served, whatever: the loop has others to look after.
TEST(Session, TakesNoMoreThanItsShareOfATurnFromAWindow) {
  BrokerBed bed;
  GatewayConfig config;
  config.broker = bed.broker.options();
  config.tokens = {"", ""};
  RegionTable regions;
  WindowMemoryBed windows{bed};
  SessionHost host = HostOf(config, bed, regions, windows);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const base::Fd client(ends[1]);
  Session session{host, 1, base::Fd(ends[0]), true};
  const auto receive = [&](const std::string& bytes) {
    const auto into = session.NextRead();
    std::memcpy(into.data(), bytes.data(), bytes.size());
    session.Got(static_cast<int64_t>(bytes.size()));
  };
  receive(HelloFrame());
  for (auto piece = session.NextWrite(); !piece.empty(); piece = session.NextWrite())
    session.Sent(static_cast<int64_t>(piece.size()));
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kOpenWindow);
  WindowMeta window;
  window.bytes = 4096;
  window.slots = 1024;
  receive(EncodeFrame(header, MetaBytes(window)).substr(0, sizeof(header)));
  receive(std::string(MetaBytes(window)));
  ASSERT_NE(session.window(), nullptr);
  std::array<std::byte, sizeof(FrameHeader) + sizeof(WindowMeta)> frame;
  auto sent = ReceiveWithDescriptors(client.get(), frame);
  ASSERT_TRUE(sent);
  auto end = ShmClientWindow::Map(std::move(sent->fds), window.bytes, window.slots);
  ASSERT_TRUE(end) << end.error().message;
  for (uint64_t i = 0; i < 1000; i++) {
    Submission wrong;
    wrong.id = i;
    ASSERT_TRUE((*end)->Submit(wrong));
  }
  EXPECT_TRUE(session.TakeSubmissions());
  EXPECT_LE(session.window()->AnswersWaiting(), 100u);
  EXPECT_FALSE(session.window()->PrepareToWait()) << "the next turn's are there";
}

}  // namespace
}  // namespace spillway::gateway
