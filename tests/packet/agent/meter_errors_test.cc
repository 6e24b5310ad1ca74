// SPDX-License-Identifier: Apache-2.0
// What the request meter takes for refusals and for errors, on packets built by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "meter_subject.h"

namespace spillway::agent {
namespace {

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
  TcpOut("RA", 0);
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

// What the client says last, such as QUIT, need not be answered.
TEST_P(MeterTest, AConnectionThatTheClientEndedFirstIsNoRefusal) {
  for (const char* end : {"FA", "RA", "R"}) {
    TcpIn("A", 6);
    TcpIn("FA", 0);
    TcpOut(end, 0);
    TcpIn("FA", 6);
    TcpOut(end, 0);
  }
  EXPECT_EQ(Counts().refused, 0u);
  EXPECT_EQ(Counts().dismissed, 4u) << "by R the kernel says that it knows no such connection";
  EXPECT_EQ(Counts().abandoned, 6u);
  TcpIn("FA", 6);  // asks, and says that it asks no more
  TcpOut("A", 40);
  EXPECT_EQ(Counts().completed, 1u);
  TcpIn("A", 6);  // of the next connection with these ports
  TcpOut("FA", 0);
  EXPECT_EQ(Counts().refused, 1u);
}

TEST_P(MeterTest, WhatComesAfterTheUnitHasClosedIsNotRefused) {
  TcpIn("A", 100);
  TcpOut("FA", 40);
  TcpIn("A", 10);  // the client has not heard of it yet
  TcpOut("R", 0);  // by the kernel, which knows no such connection any more
  EXPECT_EQ(Counts().refused, 0u);
  EXPECT_EQ(Totals().pending, 0u);
}

// A TLS client says that it closes, and nobody answers that.
TEST_P(MeterTest, TlsAlertsAreNoRequests) {
  const auto in = [&](const std::string& record, size_t bytes, const char* flags = "A") {
    In(Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 80, flags).Text(record).Payload(bytes));
  };
  const std::string closes12("\x15\x03\x03\x00\x1a", 5), closes13("\x17\x03\x03\x00\x13", 5);
  in(closes12, 26);
  in(closes13, 19);
  in(std::string("\x15\x03\x01\x00\x02\x01\x00", 7), 0);  // in the clear
  in(closes13, 19, "FA");
  EXPECT_EQ(Counts().arrivals, 0u);
  EXPECT_EQ(Totals().pending, 0u);

  uint64_t arrivals = 0;
  for (const auto& [record, bytes] : std::vector<std::pair<std::string, size_t>>{
           {closes13, 20},  // not what the record says
           {std::string("\x17\x03\x03\x00\x14", 5), 20},
           {std::string("\x16\x03\x01\x00\x20", 5), 32},  // a handshake
           {std::string("\x15\x03\x03\x00", 4), 0},
           {std::string("\x15\x04\x03\x00\x1a", 5), 26}}) {
    in(record, bytes);
    TcpOut("A", 1);
    EXPECT_EQ(Counts().arrivals, ++arrivals) << arrivals;
  }
  TcpIn("A", 100);  // given up by an alert: the unit's end is no refusal then
  in(closes13, 19, "FA");
  TcpOut("FA", 0);
  EXPECT_EQ(Counts().refused, 0u);
  EXPECT_EQ(Counts().abandoned, 1u);
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

TEST_P(MeterTest, ARowOfErrorsIsToldOnceAndEndsWithAGoodAnswer) {
  const auto answer = [this](uint8_t rcode) {
    Query(40000, 7);
    Answer(40000, 7, rcode);
  };
  spw_meter_shared& shared = *subject_->memory().shared;
  shared.watch = SPW_METER_WATCH_BUSY | SPW_METER_WATCH_ERRORS;
  for (uint32_t i = 1; i < SPW_METER_ERROR_ROW; i++) answer(2);
  EXPECT_EQ(Totals().error_row, SPW_METER_ERROR_ROW - 1u);
  answer(0);
  EXPECT_EQ(Totals().error_row, 0u);
  for (uint32_t i = 1; i < SPW_METER_ERROR_ROW; i++) answer(2);
  EXPECT_EQ(shared.watch, SPW_METER_WATCH_BUSY | SPW_METER_WATCH_ERRORS);
  answer(5);
  EXPECT_EQ(shared.watch, SPW_METER_WATCH_BUSY) << "told, and not again";
  answer(5);
  EXPECT_EQ(Totals().error_row, SPW_METER_ERROR_ROW + 1u);
  EXPECT_EQ(Counts().errors, 2u * SPW_METER_ERROR_ROW);
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

}  // namespace
}  // namespace spillway::agent
