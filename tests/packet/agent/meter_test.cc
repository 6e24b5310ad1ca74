// SPDX-License-Identifier: Apache-2.0
// The request meter on packets built by hand: the same cases through meter.bpf.c (BPF_PROG_TEST_RUN)
// and through the AF_PACKET accounting, which must agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "meter_subject.h"

namespace spillway::agent {
namespace {

INSTANTIATE_TEST_SUITE_P(Sources, MeterTest, ::testing::Values(Kind::kBpf, Kind::kUser),
                         [](const auto& source) { return source.param == Kind::kBpf ? "bpf" : "af_packet"; });

TEST_P(MeterTest, AnswerEndsItsRequest) {
  const Time before = Now();
  Query(40000, 7);
  EXPECT_EQ(Totals().pending, 1u);
  Answer(40000, 7);
  const auto span = static_cast<uint64_t>((Now() - before).count());
  const MeterTotals totals = Totals();
  EXPECT_EQ(totals.pending, 0u);
  EXPECT_EQ(totals.counts.arrivals, 1u);
  EXPECT_EQ(totals.counts.completed, 1u);
  EXPECT_EQ(totals.counts.timed, 1u);
  EXPECT_LE(totals.counts.latency_sum_ns, span + 1024);
  uint64_t in_histogram = 0;
  for (uint64_t n : totals.counts.histogram) in_histogram += n;
  EXPECT_EQ(in_histogram, 1u);
}

TEST_P(MeterTest, RequestsAreMarkedWithTheBacklogTheyFound) {
  spw_meter_clocks* clocks = subject_->memory().clocks;
  for (uint32_t& slot : clocks->slot_ns) slot = 1'000'000'000;
  for (uint16_t id = 1; id <= 5; id++) Query(40000, id);
  for (uint16_t id = 1; id <= 5; id++) Answer(40000, id);
  const spw_meter_counts counts = Counts();
  for (const auto& outcome : counts.outcome) {
    uint64_t answers = 0, backlog = 0;
    for (const spw_meter_outcome& bin : outcome) answers += bin.answers, backlog += bin.backlog;
    EXPECT_EQ(answers, 5u);
    // 0 + 1 + 2 + 3 + 4 slots, less what drained of them within this test and what marks round off.
    EXPECT_GT(backlog, 6u * SPW_METER_SLOT_FRACTION);
    EXPECT_LE(backlog, 10u * SPW_METER_SLOT_FRACTION);
  }
  for (const uint64_t drained : clocks->drained_ns) {
    EXPECT_GT(static_cast<int64_t>(drained), (Now() + 3s).count());
    EXPECT_LE(static_cast<int64_t>(drained), (Now() + 5s).count());
  }
  uint64_t paced = 0;
  for (const spw_meter_pace& pace : counts.pace) paced += pace.answers;
  EXPECT_EQ(paced, 4u) << "each but the first was there when another was answered";
}

TEST_P(MeterTest, OneSocketMayHaveManyQueriesOutstanding) {
  for (uint16_t id = 1; id <= 20; id++) Query(40000, id);
  EXPECT_EQ(Totals().pending, 20u);
  for (uint16_t id = 20; id >= 1; id--) Answer(40000, id);
  EXPECT_EQ(Totals().pending, 0u);
  EXPECT_EQ(Counts().completed, 20u);
}

TEST_P(MeterTest, RepeatedQueryIsOneRequest) {
  Query(40000, 7);
  Query(40000, 7);
  EXPECT_EQ(Counts().arrivals, 1u);
  EXPECT_EQ(Counts().repeated, 1u);
  EXPECT_EQ(Totals().pending, 1u);
  Answer(40000, 7);
  Answer(40000, 7);
  EXPECT_EQ(Counts().completed, 1u);
  EXPECT_EQ(Counts().unmatched, 1u);
}

TEST_P(MeterTest, OthersAnswersDoNotMatch) {
  Query(40000, 7);
  Answer(40001, 7);
  Answer(40000, 8);
  Out(Packet().Ip4("10.0.0.1", "10.1.0.2").Udp(53, 40000).Dns(7, true));
  EXPECT_EQ(Counts().completed, 0u);
  EXPECT_EQ(Counts().unmatched, 3u);
  EXPECT_EQ(Totals().pending, 1u);
}

TEST_P(MeterTest, UnitsOwnQueriesAreNotItsRequests) {
  Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Udp(53, 53).Dns(9, false));
  In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(53, 53).Dns(9, true));
  EXPECT_EQ(Counts().arrivals, 0u);
  EXPECT_EQ(Counts().unmatched, 0u);
}

TEST_P(MeterTest, OtherPortsAndProtocolsAreForeign) {
  In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 54).Dns(1, false));
  In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 80).Payload(20));
  In(Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 53, "A").Payload(20));
  EXPECT_EQ(Counts().arrivals, 0u);
  EXPECT_EQ(Counts().malformed, 0u);
}

// A server need not answer these; as requests they would fill its queue till the time-out.
TEST_P(MeterTest, JunkOnADnsPortIsNoRequest) {
  for (int i = 0; i < 10; i++) {
    const auto port = static_cast<uint16_t>(40000 + i);
    In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(port, 53).Payload(40));
    In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(port, 53).Payload(4));
  }
  EXPECT_EQ(Totals().pending, 0u);
  EXPECT_EQ(Counts().arrivals, 0u);
  EXPECT_EQ(Counts().malformed, 20u);
}

TEST_P(MeterTest, SixAndTagsAreRead) {
  In(Packet().Vlan(5).Vlan(6).Ip6("2001:db8::1", "2001:db8::2").Udp(40000, 53).Dns(1, false));
  EXPECT_EQ(Totals().pending, 1u);
  Out(Packet().Ip6("2001:db8::2", "2001:db8::3").Udp(53, 40000).Dns(1, true));
  EXPECT_EQ(Totals().pending, 1u);
  Out(Packet().Ip6("2001:db8::2", "2001:db8::1").Udp(53, 40000).Dns(1, true));
  EXPECT_EQ(Totals().pending, 0u);
  EXPECT_EQ(Counts().completed, 1u);
}

TEST_P(MeterTest, LaterFragmentsHaveNoPorts) {
  In(Packet().Ip4("10.1.0.1", "10.0.0.1", 10).Udp(40000, 53).Dns(1, false));
  EXPECT_EQ(Counts().arrivals, 0u);
  In(Packet().Ip4("10.1.0.1", "10.0.0.1", 0x2000).Udp(40000, 53).Dns(1, false));  // first of several
  EXPECT_EQ(Counts().arrivals, 1u);
}

TEST_P(MeterTest, TcpIsMeasuredToTheFirstByte) {
  TcpIn("S", 0);
  TcpOut("SA", 0);
  TcpIn("A", 0);
  EXPECT_EQ(Counts().connections, 1u);
  EXPECT_EQ(Counts().arrivals, 0u);
  TcpIn("A", 500);
  TcpIn("A", 500);  // the rest of the request
  TcpOut("A", 0);
  EXPECT_EQ(Totals().pending, 1u);
  TcpOut("A", 1000);
  TcpOut("A", 1000);  // the rest of the answer
  EXPECT_EQ(Counts().completed, 1u);
  EXPECT_EQ(Counts().unmatched, 0u);
  TcpIn("A", 10);  // kept alive: the next request
  TcpOut("FA", 10);
  EXPECT_EQ(Counts().arrivals, 2u);
  EXPECT_EQ(Counts().completed, 2u);
  EXPECT_EQ(Totals().pending, 0u);
}

TEST_P(MeterTest, PaddingOfAnAckIsNoData) {
  auto frame = Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 80, "A").Build();
  frame.resize(60, 0);  // Ethernet's minimum
  subject_->In(frame);
  EXPECT_EQ(Counts().arrivals, 0u);
}

TEST_P(MeterTest, ConnectionThatEndsTakesItsRequestAlong) {
  TcpIn("A", 10);
  TcpIn("RA", 0);
  EXPECT_EQ(Totals().pending, 0u);
  TcpIn("A", 10);
  TcpOut("FA", 0);
  EXPECT_EQ(Totals().pending, 0u);
  EXPECT_EQ(Counts().abandoned, 2u);
  TcpIn("A", 10);
  TcpIn("FA", 0);  // the client has said all; it may still wait for the answer
  TcpOut("A", 10);
  EXPECT_EQ(Counts().completed, 1u);
}

TEST_P(MeterTest, UnansweredRequestsAreGivenUp) {
  Query(40000, 1);
  Query(40000, 2);
  EXPECT_GE(Totals(3s).oldest, 3s - 50ms);  // the coarse clock lags by a kernel tick
  EXPECT_LE(Totals(3s).oldest, 4s);
  const MeterTotals totals = Totals(11s);
  EXPECT_EQ(totals.given_up, 2u);
  EXPECT_EQ(totals.pending, 0u);
  Answer(40000, 1);
  EXPECT_EQ(Counts().unmatched, 1u);
}

TEST_P(MeterTest, FullTableLosesItsOldestAndCountsIt) {
  for (uint16_t id = 1; id <= 200; id++) Query(40000, id);
  const MeterTotals totals = Totals();
  EXPECT_EQ(totals.counts.arrivals, 200u);
  EXPECT_LE(totals.pending, 64u);
  EXPECT_EQ(totals.counts.overwritten, 200 - totals.pending);
}

TEST_P(MeterTest, SampleIsTimedAndAllAreCounted) {
  subject_->memory().config->sample_mask = 7;
  for (uint16_t id = 0; id < 4000; id++) {
    Query(40000, id);
    Answer(40000, id);
  }
  const spw_meter_counts counts = Counts();
  EXPECT_EQ(counts.completed, 4000u);
  // Binomial(4000, 1/8): mean 500, standard deviation 21; five of them.
  EXPECT_NEAR(static_cast<double>(counts.timed), 500, 105);
}

TEST_P(MeterTest, TruncatedAndTornPacketsNeverFault) {
  std::vector<std::vector<uint8_t>> whole = {
      Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 53).Dns(1, false).Build(),
      Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 80, "A").Payload(8).Build(),
      Packet().Vlan(3).Ip6("2001:db8::1", "2001:db8::2").Udp(40000, 53).Dns(1, false).Build(),
      Packet().Ip6("2001:db8::1", "2001:db8::2").Tcp(40000, 80, "A").Payload(8).Build(),
      Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, "A", 1).Text("HTTP/1.1 503 x").Build(),
      Packet().Ip4("10.0.0.1", "10.1.0.1").Udp(53, 40000).Dns(1, true, 2).Build(),
      Packet()
          .Ip4("10.0.0.1", "10.1.0.1")
          .Icmp(3, 3, Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 53).Dns(1, false), 30)
          .Build(),
      Packet()
          .Ip6("2001:db8::2", "2001:db8::1")
          .Icmp(1, 4, Packet().Ip6("2001:db8::1", "2001:db8::2").Udp(40000, 53).Dns(1, false), 50)
          .Build()};
  for (const auto& frame : whole) {
    // The kernel makes no test packet that is cut within its IP header; the accounting alone meets those.
    const bool v6 = frame.size() > 60 && frame[12] != 0x08;
    const size_t shortest = GetParam() == Kind::kUser ? 1 : v6 ? 58 : 34;
    for (size_t size = shortest; size < frame.size(); size++) {  // test runs want an Ethernet header and more
      subject_->In({frame.begin(), frame.begin() + static_cast<long>(size)});
      subject_->Out({frame.begin(), frame.begin() + static_cast<long>(size)});
    }
  }
  EXPECT_EQ(Counts().arrivals, 0u);
  EXPECT_GT(Counts().malformed, 0u);

  std::mt19937 random(1);
  for (int i = 0; i < 5000; i++) {
    auto frame = whole[random() % whole.size()];
    for (int flips = random() % 4 + 1; flips > 0; flips--)
      frame[12 + random() % (frame.size() - 12)] = static_cast<uint8_t>(random());
    if (i % 2)
      subject_->In(frame);
    else
      subject_->Out(frame);
  }
  EXPECT_LE(Totals().pending, 64u);
}

TEST_P(MeterTest, FramesForOthersAreNotOurs) {
  if (GetParam() == Kind::kUser) GTEST_SKIP() << "AF_PACKET tells by the packet type, before the accounting";
  In(Packet().To({2, 0, 0, 0, 0, 9}).Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 53).Dns(1, false));
  EXPECT_EQ(Counts().arrivals, 0u);
}

// AF_PACKET copies the frame's head only.
TEST(PacketAccounting, ReadsNoStatusBeyondTheHead) {
  const auto request = Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 80, "A").Payload(9).Build();
  const auto answer =
      Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, "A", 1).Text("HTTP/1.1 503 x").Build();
  PacketAccounting accounting(Dns(), kSeed);
  const auto feed = [&](const std::vector<uint8_t>& frame, size_t head, spw_meter_direction direction) {
    std::vector<uint8_t> buffer(frame.size() + 2);  // what lies beyond the head would tell
    std::copy(frame.begin(), frame.end(), buffer.begin() + 2);
    accounting.OnFrame({buffer.data() + 2, head}, static_cast<uint32_t>(frame.size()), direction, Now());
  };
  constexpr size_t kHeaders = 14 + 20 + 20;
  for (size_t head = kHeaders; head <= answer.size(); head++) {
    const uint64_t before = accounting.memory().counts[0].errors;
    feed(request, request.size(), SPW_METER_INGRESS);
    feed(answer, head, SPW_METER_EGRESS);
    EXPECT_EQ(accounting.memory().counts[0].errors - before, head >= kHeaders + SPW_METER_STATUS_LINE)
        << head;
  }
  EXPECT_EQ(accounting.memory().counts[0].completed, answer.size() - kHeaders + 1);
}

class NoticeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: loads a BPF program";
    AgentConfig config = Dns();
    config.trigger.queue_high = 2;
    config.trigger.release_queue = 1;
    subject_ = std::make_unique<BpfSubject>(config);
  }
  void Query(uint16_t id) {
    subject_->In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(4000, 53).Dns(id, false).Build());
  }
  void Answer(uint16_t id) {
    subject_->Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Udp(53, 4000).Dns(id, true).Build());
  }
  uint32_t Event() {
    const auto notice = subject_->program().TakeNotices();
    return notice ? notice->event : static_cast<uint32_t>(SPW_METER_NOTHING);
  }
  std::unique_ptr<BpfSubject> subject_;
};

TEST_F(NoticeTest, TellsOnceAndOnlyWhenAsked) {
  spw_meter_shared* shared = subject_->memory().shared;
  for (uint16_t id = 1; id <= 4; id++) Query(id);
  EXPECT_EQ(Event(), SPW_METER_NOTHING);
  shared->watch = SPW_METER_WATCH_BUSY;
  Query(5);
  EXPECT_EQ(Event(), SPW_METER_QUEUE_HIGH);
  Query(6);
  EXPECT_EQ(Event(), SPW_METER_NOTHING);

  shared->watch = SPW_METER_WATCH_DRAINED;
  for (uint16_t id = 1; id <= 4; id++) Answer(id);
  EXPECT_EQ(Event(), SPW_METER_NOTHING);
  Answer(5);
  EXPECT_EQ(Event(), SPW_METER_DRAINED);
}

TEST_F(NoticeTest, SlowAnswerIsToldAtOnce) {
  subject_->memory().config->threshold_steps = 0;
  subject_->memory().shared->watch = SPW_METER_WATCH_BUSY;
  Query(1);
  const Time begun = Now();
  while (Now() - begun < 3us) {  // longer than one step
  }
  Answer(1);
  const auto notice = subject_->program().TakeNotices();
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->event, static_cast<uint32_t>(SPW_METER_OVER_THRESHOLD));
  EXPECT_GT(notice->latency_ns, 0u);
  EXPECT_EQ(subject_->memory().shared->watch, 0u);
}

}  // namespace
}  // namespace spillway::agent
