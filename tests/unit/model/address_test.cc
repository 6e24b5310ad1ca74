// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "model/pool.h"

namespace spillway::model {
namespace {

TEST(Address, KeepsBytesInNetworkOrder) {
  auto v4 = Address::Parse("192.0.2.1");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->family, 4);
  EXPECT_EQ(v4->bytes, (std::array<uint8_t, 16>{192, 0, 2, 1}));
  auto words = v4->Words();
  const uint8_t* first_word = reinterpret_cast<const uint8_t*>(words.data());
  EXPECT_EQ(first_word[0], 192);
  EXPECT_EQ(first_word[3], 1);
  EXPECT_EQ(words[1] | words[2] | words[3], 0u);

  auto v6 = Address::Parse("2001:db8::1");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->family, 6);
  EXPECT_EQ(v6->bytes[0], 0x20);
  EXPECT_EQ(v6->bytes[15], 1);
}

TEST(Address, IsSpelledCanonically) {
  EXPECT_EQ(Address::Parse("2001:0DB8:0:0:0::1")->ToString(), "2001:db8::1");
  EXPECT_EQ(Address::Parse("10.0.0.1")->ToString(), "10.0.0.1");
  EXPECT_EQ(*Address::Parse("2001:db8:0::5"), *Address::Parse("2001:db8::5"));
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "10.0.0", "10.0.0.256", "10.0.0.1/24", " 10.0.0.1", "010.0.0.1", "host", "::g",
                           "fe80::1%eth0", "1:2:3:4:5:6:7:8:9"})
    EXPECT_FALSE(Address::Parse(text)) << text;
  EXPECT_FALSE(Address::Parse(std::string("10.0.0.1\0x", 10)));
}

TEST(Address, RefusesIpv4MappedIpv6) {
  EXPECT_FALSE(Address::Parse("::ffff:10.0.0.1"));
  EXPECT_FALSE(Address::Parse("::ffff:0:1"));
  EXPECT_TRUE(Address::Parse("::fffe:0:1"));
}

// Every word of an enum is read back as the value it stands for.
template <class Enum>
void ExpectWords(std::optional<Enum> (*parse)(const std::string&), int count) {
  for (int value = 0; value < count; value++) {
    std::string word = ToString(static_cast<Enum>(value));
    EXPECT_NE(word, "unknown");
    EXPECT_EQ(parse(word), static_cast<Enum>(value)) << word;
  }
  EXPECT_FALSE(parse(""));
  EXPECT_FALSE(parse("unknown"));
  EXPECT_FALSE(parse(std::string(ToString(static_cast<Enum>(0))) + " "));
}

TEST(Words, AreReadBack) {
  ExpectWords(ParseUnitKind, SPW_KIND_OTHER + 1);
  ExpectWords(ParseMode, SPW_MODE_DSR_L2 + 1);
  ExpectWords(ParseAffinity, SPW_AFFINITY_NONE + 1);
  ExpectWords(ParseServerPolicy, SPW_SERVER_POLICIES);
  ExpectWords(ParseUnitPolicy, SPW_UNIT_POLICIES);
  ExpectWords(ParseAttachMode, 3);
}

}  // namespace
}  // namespace spillway::model
