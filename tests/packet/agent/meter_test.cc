// SPDX-License-Identifier: Apache-2.0
// The request meter on packets built by hand: the same cases through meter.bpf.c (BPF_PROG_TEST_RUN)
// and through the AF_PACKET accounting, which must agree.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <random>

#include "agent/bpf_program.h"
#include "agent/packet_accounting.h"
#include "bpf/meter_backlog.h"
#include "packet.h"

namespace spillway::agent {
namespace {

using test::Packet;
using namespace std::chrono_literals;

constexpr spw_seed kSeed = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 11};

Time Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// One way to feed the meter.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void In(const std::vector<uint8_t>& frame) = 0;
  virtual void Out(const std::vector<uint8_t>& frame) = 0;
  virtual MeterMemory memory() = 0;
};

class BpfSubject : public Subject {
 public:
  explicit BpfSubject(const AgentConfig& config) {
    auto program = BpfProgram::Load(config, kSeed);
    if (program) program_ = std::move(*program);
    EXPECT_TRUE(program_) << program.error().message;
  }
  void In(const std::vector<uint8_t>& frame) override { Run(program_->ingress_fd(), frame); }
  void Out(const std::vector<uint8_t>& frame) override { Run(program_->egress_fd(), frame); }
  MeterMemory memory() override { return program_->memory(); }
  BpfProgram& program() { return *program_; }

 private:
  void Run(int fd, std::vector<uint8_t> frame) {
    std::vector<uint8_t> out(frame.size() + 256);
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
                .data_size_in = static_cast<uint32_t>(frame.size()),
                .data_size_out = static_cast<uint32_t>(out.size()));
    ASSERT_EQ(bpf_prog_test_run_opts(fd, &options), 0) << strerror(errno);
    // Goes on to the next filter, untouched.
    EXPECT_EQ(static_cast<int>(options.retval), -1);
    out.resize(options.data_size_out);
    EXPECT_EQ(out, frame);
  }
  std::unique_ptr<BpfProgram> program_;
};

class UserSubject : public Subject {
 public:
  explicit UserSubject(const AgentConfig& config) : accounting_(config, kSeed) {}
  void In(const std::vector<uint8_t>& frame) override { Feed(frame, SPW_METER_INGRESS); }
  void Out(const std::vector<uint8_t>& frame) override { Feed(frame, SPW_METER_EGRESS); }
  MeterMemory memory() override { return accounting_.memory(); }

 private:
  void Feed(const std::vector<uint8_t>& frame, spw_meter_direction direction) {
    // Exactly as large as the frame, so that a sanitizer sees a read beyond it.
    const size_t head = std::min<size_t>(frame.size(), 136);
    std::unique_ptr<uint8_t[]> buffer(new uint8_t[head + 2]);
    std::memcpy(buffer.get() + 2, frame.data(), head);
    accounting_.OnFrame({buffer.get() + 2, head}, static_cast<uint32_t>(frame.size()), direction, Now());
  }
  PacketAccounting accounting_;
};

AgentConfig Dns() {
  AgentConfig config;
  config.services = {{false, 53}, {true, 80}};
  config.meter.dns = true;
  config.meter.pending = 64;
  config.trigger.threshold = 100e6;
  return config;
}

enum class Kind { kBpf, kUser };

class MeterTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kBpf && geteuid() != 0) GTEST_SKIP() << "needs root: loads a BPF program";
    Start(Dns());
  }
  void Start(const AgentConfig& config) {
    if (GetParam() == Kind::kBpf)
      subject_ = std::make_unique<BpfSubject>(config);
    else
      subject_ = std::make_unique<UserSubject>(config);
  }
  void In(Packet& packet) { subject_->In(packet.Build()); }
  void Out(Packet& packet) { subject_->Out(packet.Build()); }
  MeterTotals Totals(Duration later = 0s) { return Collect(subject_->memory(), Now() + later); }
  spw_meter_counts Counts() { return Totals().counts; }

  void Query(uint16_t port, uint16_t id) {
    In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(port, 53).Dns(id, false));
  }
  void Answer(uint16_t port, uint16_t id, uint8_t rcode = 0) {
    Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Udp(53, port).Dns(id, true, rcode));
  }
  // A request over TCP, and the first segment of its answer.
  void Exchange(const std::string& answer) {
    TcpIn("A", 100);
    Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, "A", 1).Text(answer));
  }
  void TcpIn(const std::string& flags, size_t bytes) {
    In(Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 80, flags).Payload(bytes));
  }
  void TcpOut(const std::string& flags, size_t bytes, uint32_t sequence = 1) {
    Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, flags, sequence).Payload(bytes));
  }

  std::unique_ptr<Subject> subject_;
};

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

TEST_P(MeterTest, PortUnreachableEndsItsRequestAndIsARefusal) {
  const Packet query4 = Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 53).Dns(7, false);
  const Packet query6 = Packet().Ip6("2001:db8::1", "2001:db8::2").Udp(40000, 53).Dns(7, false);
  for (bool v6 : {false, true}) {
    const Packet& query = v6 ? query6 : query4;
    const auto error = [&](uint8_t type, uint8_t code) {
      Packet packet = v6 ? Packet().Ip6("2001:db8::2", "2001:db8::1") : Packet().Ip4("10.0.0.1", "10.1.0.1");
      return packet.Icmp(type, code, query);
    };
    const uint64_t refused = Counts().refused, abandoned = Counts().abandoned;
    Packet in = query;
    In(in);
    ASSERT_EQ(Totals().pending, 1u);
    Packet too_big = v6 ? error(2, 0) : error(3, 4), coming_in = v6 ? error(1, 4) : error(3, 3);
    Out(too_big);
    In(coming_in);  // about something that the unit itself sent
    EXPECT_EQ(Totals().pending, 1u);
    EXPECT_EQ(Counts().refused, refused);
    Packet unreachable = v6 ? error(1, 4) : error(3, 3);
    Out(unreachable);
    EXPECT_EQ(Totals().pending, 0u);
    EXPECT_EQ(Counts().refused, refused + 1);
    EXPECT_EQ(Counts().abandoned, abandoned + 1);
    Out(unreachable);
    EXPECT_EQ(Counts().refused, refused + 2) << "its request was lost to another, or given up";
    EXPECT_EQ(Counts().abandoned, abandoned + 1);
  }
}

TEST_P(MeterTest, PortUnreachableOfOthersIsForeign) {
  for (const Packet& about : {Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 54).Dns(7, false),
                              Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 53, "S")}) {
    Packet out = Packet().Ip4("10.0.0.1", "10.1.0.1").Icmp(3, 3, about);
    Out(out);
  }
  const Packet query = Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(40000, 53).Dns(7, false);
  for (size_t quoted : {0, 10, 20, 27, 29}) {  // less than what tells which request
    Packet out = Packet().Ip4("10.0.0.1", "10.1.0.1").Icmp(3, 3, query, quoted);
    Out(out);
  }
  EXPECT_EQ(Counts().refused, 0u);
  EXPECT_EQ(Counts().malformed, 0u);
}

TEST_P(MeterTest, AResetInAnswerToASynIsARefusalAndSynAckIsNone) {
  TcpIn("S", 0);
  TcpOut("RA", 0, 0);
  EXPECT_EQ(Counts().connections, 1u);
  EXPECT_EQ(Counts().refused, 1u);
  EXPECT_EQ(Counts().accepted, 0u);
  TcpIn("S", 0);
  TcpOut("SA", 0, 77);
  EXPECT_EQ(Counts().accepted, 1u);
  TcpOut("RA", 0, 78);  // of a connection that was established, with nothing asked
  TcpIn("RA", 0);
  EXPECT_EQ(Counts().refused, 1u);
}

TEST_P(MeterTest, AConnectionEndedByTheUnitWithARequestUnansweredIsARefusal) {
  TcpIn("A", 10);
  TcpOut("R", 0);
  EXPECT_EQ(Counts().refused, 1u);
  TcpIn("A", 10);
  TcpOut("FA", 0);
  EXPECT_EQ(Counts().refused, 2u);
  TcpIn("A", 10);
  TcpIn("R", 0);  // the client's own wish
  TcpIn("A", 10);
  TcpOut("FA", 5);  // an answer, and the end
  TcpOut("FA", 0);
  EXPECT_EQ(Counts().refused, 2u);
  EXPECT_EQ(Totals().pending, 0u);
}

TEST_P(MeterTest, DnsAnswersThatSayTheServerFailedAreErrors) {
  for (uint8_t rcode = 0; rcode < 16; rcode++) {
    const uint64_t before = Counts().errors;
    Query(40000, rcode);
    Answer(40000, rcode, rcode);
    EXPECT_EQ(Counts().errors - before, rcode == 2 || rcode == 5) << int{rcode};
  }
  EXPECT_EQ(Counts().completed, 16u) << "they are answers";
  Answer(40000, 2, 2);
  EXPECT_EQ(Counts().errors, 2u) << "to a request that was answered before, or never came";
}

TEST_P(MeterTest, HttpAnswersThatSayTheServerFailedAreErrors) {
  uint64_t errors = 0;
  for (const char* error :
       {"HTTP/1.1 503 Service Unavailable\r\n\r\n", "HTTP/1.0 500 \r\n", "HTTP/1.1 599"}) {
    Exchange(error);
    EXPECT_EQ(Counts().errors, ++errors) << error;
  }
  for (const char* good :
       {"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "HTTP/1.1 ", "HTTP/1.1 50", "H",
        "HTTP/1.1 501 Not Implemented\r\n", "HTTP/1.1 505 x", "HTTP/2 503\r\n", "http/1.1 500 x",
        "HTTP/1.1  500", "\x16\x03\x03 5 5 5 5 5", "FTTP/1.1 503 x", "HTTP/1,1 503 x"}) {
    Exchange(good);
    EXPECT_EQ(Counts().errors, errors) << good;
  }
  EXPECT_EQ(Counts().completed, 16u);
  EXPECT_EQ(Totals().pending, 0u);
}

TEST_P(MeterTest, OnlyTheBeginningOfAnAnswerIsRead) {
  Exchange("HTTP/1.1 200 OK\r\n\r\n");
  Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, "A", 1).Text("HTTP/1.1 503 x"));
  In(Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 80, "A").Text("HTTP/1.1 503 from the client"));
  EXPECT_EQ(Counts().errors, 0u);
  Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, "FA", 1).Text("HTTP/1.1 503 x"));
  EXPECT_EQ(Counts().errors, 1u) << "the last of the connection is an answer, too";
}

TEST_P(MeterTest, ErrorsAreFoundBehindTagsAndIp6) {
  In(Packet().Vlan(5).Vlan(6).Ip6("2001:db8::1", "2001:db8::2").Tcp(40000, 80, "A").Payload(9));
  Out(Packet()
          .Vlan(5)
          .Vlan(6)
          .Ip6("2001:db8::2", "2001:db8::1")
          .Tcp(80, 40000, "A", 1)
          .Text("HTTP/1.1 502 x"));
  In(Packet().Ip6("2001:db8::1", "2001:db8::2").Udp(40000, 53).Dns(1, false));
  Out(Packet().Ip6("2001:db8::2", "2001:db8::1").Udp(53, 40000).Dns(1, true, 2));
  EXPECT_EQ(Counts().completed, 2u);
  EXPECT_EQ(Counts().errors, 2u);
}

TEST_P(MeterTest, ErrorsAreFoundBehindTheLongestHeaders) {
  In(Packet().Vlan(5).Vlan(6).Ip6("2001:db8::1", "2001:db8::2").Tcp(40000, 80, "A").Payload(9));
  Packet answer =
      Packet().Vlan(5).Vlan(6).Ip6("2001:db8::2", "2001:db8::1").Tcp(80, 40000, "A", 1).Payload(40);
  auto frame = answer.Text("HTTP/1.1 503 Service Unavailable").Build();
  frame[14 + 8 + 40 + 12] = 0xf0;  // the first 40 bytes behind the TCP header are options
  subject_->Out(frame);
  EXPECT_EQ(Counts().completed, 1u);
  EXPECT_EQ(Counts().errors, 1u);
}

// The status would be in what the IP header does not count: Ethernet's padding is no answer.
TEST_P(MeterTest, PaddingIsNoStatus) {
  TcpIn("A", 100);
  auto frame = Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, "A", 1).Text("HTTP/").Build();
  for (const char byte : std::string("1.1 503 x")) frame.push_back(static_cast<uint8_t>(byte));
  subject_->Out(frame);
  EXPECT_EQ(Counts().completed, 1u);
  EXPECT_EQ(Counts().errors, 0u);
}

TEST_P(MeterTest, WhichAnswersAreErrorsIsTheConfigurationsToSay) {
  const auto errors = [this](ErrorAnswers counted, bool dns) {
    AgentConfig config = Dns();
    config.failing.errors = counted;
    config.meter.dns = dns;
    Start(config);
    for (const uint8_t rcode : {2, 5}) {
      Query(40000, rcode);
      Answer(40000, rcode, rcode);
    }
    Exchange("HTTP/1.1 503 x");
    EXPECT_EQ(Counts().completed, 3u);
    return Counts().errors;
  };
  EXPECT_EQ(errors({true, true, true}, true), 3u);
  EXPECT_EQ(errors({true, false, false}, true), 1u);
  EXPECT_EQ(errors({false, true, false}, true), 1u);
  EXPECT_EQ(errors({false, false, true}, true), 1u);
  EXPECT_EQ(errors({false, false, false}, true), 0u);
  EXPECT_EQ(errors({true, true, true}, false), 1u) << "not known to be DNS";
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
