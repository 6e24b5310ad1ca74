// SPDX-License-Identifier: Apache-2.0
#include "health/dns_message.h"

#include <gtest/gtest.h>

namespace spillway::health {
namespace {

std::string Bytes(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

// RFC 1035, sections 4.1.1 and 4.1.2, by hand.
const std::string kQuery = Bytes({0x12, 0x34, 0,   0,   0,   1,   0,   0,   0,   0, 0, 0,  2, 'h',
                                  '1',  7,    'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 28, 0, 1});

std::string Answer(uint8_t rcode) {
  std::string answer = kQuery;
  answer[2] = static_cast<char>(0x84);  // a response, authoritative
  answer[3] = static_cast<char>(rcode);
  return answer;
}

TEST(DnsMessage, AQueryIsWrittenAsTheRfcSays) {
  EXPECT_EQ(DnsQuery(0x1234, "h1.example", 28), kQuery);
  EXPECT_EQ(DnsQuery(0x1234, "h1.example.", 28), kQuery);
}

TEST(DnsMessage, TheRootHasNoLabels) {
  EXPECT_EQ(DnsQuery(1, ".", 2), Bytes({0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}));
}

TEST(DnsMessage, TheAnswersRcodeIsRead) {
  EXPECT_EQ(DnsRcode(kQuery, Answer(0)), 0);
  EXPECT_EQ(DnsRcode(kQuery, Answer(3)), 3);
  EXPECT_EQ(DnsRcode(kQuery, Answer(0) + "records"), 0);
}

TEST(DnsMessage, TheCaseOfLettersInTheQuestionDoesNotMatter) {
  std::string answer = Answer(0);
  answer[13] = 'H';
  EXPECT_EQ(DnsRcode(kQuery, answer), 0);
}

TEST(DnsMessage, WhatDoesNotAnswerTheQueryIsNoAnswer) {
  std::string other_id = Answer(0), other_name = Answer(0), cut = Answer(0);
  other_id[1] = 0x35;
  other_name[14] = '2';
  cut.resize(20);
  for (const std::string& message : {std::string(), kQuery, other_id, other_name, cut})
    EXPECT_EQ(DnsRcode(kQuery, message), std::nullopt);
}

TEST(DnsMessage, AServerThatCannotReadTheQuestionNeedNotRepeatIt) {
  std::string answer = Answer(1).substr(0, 12);
  answer[5] = 0;
  EXPECT_EQ(DnsRcode(kQuery, answer), 1);
  answer[3] = '\0';
  EXPECT_EQ(DnsRcode(kQuery, answer), std::nullopt) << "of whatever question, it is not ours that went well";
}

}  // namespace
}  // namespace spillway::health
