// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/socket_address.h"

#include <gtest/gtest.h>

#include "lab/unit/duration.h"

namespace spillway::unit {
namespace {

TEST(SocketAddress, ReadsBothFamiliesAndWritesThemBack) {
  for (const char* text : {"192.0.2.1:53", "[2001:db8::1]:65535", "0.0.0.0:0", "[::]:80"}) {
    const auto address = SocketAddress::Parse(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(address->Text(), text);
  }
}

TEST(SocketAddress, RefusesWhatIsNotAnAddressWithAPort) {
  for (const char* text : {"", "192.0.2.1", "192.0.2.1:", "192.0.2.1:65536", "192.0.2.1:-1", "192.0.2.1:5x",
                           "localhost:53", "::1:53", "[192.0.2.1]:53", "[::1]53"}) {
    const auto address = SocketAddress::Parse(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().code, ErrorCode::kBadInput);
  }
}

TEST(SocketAddress, KnowsTheWildcards) {
  EXPECT_TRUE(SocketAddress::Parse("0.0.0.0:1")->IsWildcard());
  EXPECT_TRUE(SocketAddress::Parse("[::]:1")->IsWildcard());
  EXPECT_FALSE(SocketAddress::Parse("127.0.0.1:1")->IsWildcard());
}

TEST(Duration, ReadsUnits) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(ParseDuration("500us"), nanoseconds(500'000));
  EXPECT_EQ(ParseDuration("1.5ms"), nanoseconds(1'500'000));
  EXPECT_EQ(ParseDuration("2"), nanoseconds(2'000'000'000));
  EXPECT_EQ(ParseDuration("1m"), nanoseconds(60'000'000'000));
  EXPECT_EQ(ParseDuration("0"), nanoseconds(0));
}

TEST(Duration, RefusesNonsense) {
  for (const char* text : {"", "ms", "5 ms", "-1s", "1h", "nan", "inf", "1e300s", "5msx"})
    EXPECT_FALSE(ParseDuration(text).has_value()) << text;
}

}  // namespace
}  // namespace spillway::unit
