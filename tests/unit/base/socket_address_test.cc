// SPDX-License-Identifier: Apache-2.0
#include "base/socket_address.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace spillway::base {
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

TEST(SocketAddress, OfASocketIsKnownOnBothSides) {
  const Fd listener(socket(AF_INET, SOCK_STREAM, 0)), caller(socket(AF_INET, SOCK_STREAM, 0));
  const auto any = SocketAddress::Parse("127.0.0.1:0");
  ASSERT_EQ(bind(listener.get(), any->get(), any->length), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const SocketAddress here = SocketAddress::OfSocket(listener.get());
  ASSERT_EQ(connect(caller.get(), here.get(), here.length), 0);
  EXPECT_EQ(SocketAddress::OfPeer(caller.get()).Text(), here.Text());
  EXPECT_EQ(SocketAddress::OfPeer(caller.get()).Host(), "127.0.0.1");
  EXPECT_EQ(SocketAddress::OfPeer(listener.get()).length, 0u);
}

}  // namespace
}  // namespace spillway::base
