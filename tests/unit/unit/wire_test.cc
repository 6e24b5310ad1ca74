// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/wire.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway::unit {
namespace {

TEST(Wire, RequestsAreBigEndianInSixteenBytes) {
  char bytes[kRequestBytes];
  Encode(Request{0x01020304, 5, 1500}, bytes);
  EXPECT_EQ(std::string(bytes, 16), std::string("SPRq\x01\x02\x03\x04\0\0\0\x05\0\0\x05\xdc", 16));
}

TEST(Wire, AnswersReadBackAsWritten) {
  char bytes[kAnswerBytes];
  Encode(Answer{{7, 9, 1000}, 500, 20, "s1/nic", 0x0102030405060708}, bytes);
  const auto answer = DecodeAnswer(bytes);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->request.id, 7u);
  EXPECT_EQ(answer->request.payload_bytes, 9u);
  EXPECT_EQ(answer->service_us, 500u);
  EXPECT_EQ(answer->wait_us, 20u);
  EXPECT_EQ(answer->unit, "s1/nic");
  EXPECT_EQ(answer->result, 0x0102030405060708u);
}

TEST(Wire, ANameOfFullLengthHasNoTerminator) {
  const std::string name(kNameBytes, 'x');
  char bytes[kAnswerBytes];
  Encode(Answer{{}, 0, 0, name, ~std::uint64_t{0}}, bytes);
  EXPECT_EQ(DecodeAnswer(bytes)->unit, name);
}

TEST(Wire, WhatWouldKeepAUnitForEverIsNoRequest) {
  char bytes[kRequestBytes];
  Encode(Request{1, 0, kMaxCostMilli}, bytes);
  EXPECT_TRUE(DecodeRequest(bytes).has_value());
  Encode(Request{1, 0, kMaxCostMilli + 1}, bytes);
  EXPECT_FALSE(DecodeRequest(bytes).has_value());
}

TEST(Wire, ForeignBytesAndOversizedPayloadsAreNotRequests) {
  char bytes[kRequestBytes];
  Encode(Request{1, kMaxPayloadBytes, 1000}, bytes);
  EXPECT_TRUE(DecodeRequest(bytes).has_value());
  EXPECT_FALSE(DecodeAnswer(bytes).has_value());
  Encode(Request{1, kMaxPayloadBytes + 1, 1000}, bytes);
  EXPECT_FALSE(DecodeRequest(bytes).has_value());
  bytes[0] = 'X';
  EXPECT_FALSE(DecodeRequest(bytes).has_value());
}

}  // namespace
}  // namespace spillway::unit
