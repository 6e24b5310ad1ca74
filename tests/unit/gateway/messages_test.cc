// SPDX-License-Identifier: Apache-2.0
// Texts over TCP between executor and gateway of two machines, over a pair of sockets.
#include "gateway/transport/rdma/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "gateway/transport/executor_offer.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

class Messages : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    near_ = base::Fd(ends[0]);
    far_ = base::Fd(ends[1]);
  }
  void Send(std::string_view bytes) {
    ASSERT_EQ(send(far_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  base::Fd near_, far_;
  MessageReader reader_;
};

TEST_F(Messages, ComeWholeHoweverTheyAreCut) {
  using namespace std::string_view_literals;
  for (const char byte : "\x05\0\0\0hello\0\0\0\0\x02\0\0\0ab"sv.substr(0, 18)) {
    EXPECT_TRUE(reader_.ReadFrom(near_.get()).value());
    Send({&byte, 1});
  }
  EXPECT_TRUE(reader_.ReadFrom(near_.get()).value());
  EXPECT_EQ(reader_.Next(), "hello");
  EXPECT_EQ(reader_.Next(), "");
  EXPECT_EQ(reader_.Next(), std::nullopt) << "a byte is missing";
  Send("b");
  EXPECT_TRUE(reader_.ReadFrom(near_.get()).value());
  EXPECT_EQ(reader_.Next(), "ab");
}

TEST_F(Messages, AreHeardThoughTheOtherSideHasGone) {
  ASSERT_TRUE(SendMessage(far_.get(), "farewell"));
  far_ = base::Fd();
  EXPECT_EQ(AwaitMessage(near_.get(), reader_, std::chrono::steady_clock::now() + 60s).value(), "farewell");
}

TEST_F(Messages, TooLongOnesAreRefusedByTheirLength) {
  using namespace std::string_view_literals;
  Send("\x01\0\x04\0"sv);  // 256 KiB and a byte
  const auto read = reader_.ReadFrom(near_.get());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(read.error().message, testing::HasSubstr("at most 262144 bytes"));
}

TEST_F(Messages, NobodyWaitsForOneForEver) {
  const auto message = AwaitMessage(near_.get(), reader_, std::chrono::steady_clock::now());
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace spillway::gateway
