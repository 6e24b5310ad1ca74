// SPDX-License-Identifier: Apache-2.0
#include "base/netlink.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"

namespace spillway::base {
namespace {

std::string NameOf(const nlmsghdr& link) {
  std::string name;
  ForEachAttribute(link, sizeof(ifinfomsg), [&](const nlattr& attribute) {
    if (mnl_attr_get_type(&attribute) == IFLA_IFNAME) name = TextOf(attribute);
  });
  return name;
}

TEST(Netlink, TheOneMessageOfAnAnswerIsHandedOver) {
  NetlinkSocket kernel(NETLINK_ROUTE);
  ASSERT_TRUE(kernel);
  NetlinkRequest<ifinfomsg> request(RTM_GETLINK, 0);
  request.body().ifi_index = static_cast<int>(if_nametoindex("lo"));
  std::multiset<std::string> names;
  EXPECT_EQ(kernel.Ask(request, [&](const nlmsghdr& link) { names.insert(NameOf(link)); }), 0);
  EXPECT_EQ(names, std::multiset<std::string>{"lo"});
}

TEST(Netlink, EveryMessageOfADumpIsHandedOver) {
  NetlinkSocket kernel(NETLINK_ROUTE);
  ASSERT_TRUE(kernel);
  NetlinkRequest<ifinfomsg> request(RTM_GETLINK, NLM_F_DUMP);
  std::set<std::string> names, expected;
  EXPECT_EQ(kernel.Ask(request, [&](const nlmsghdr& link) { names.insert(NameOf(link)); }), 0);
  struct if_nameindex* all = if_nameindex();
  for (auto* one = all; one->if_index != 0; one++) expected.insert(one->if_name);
  if_freenameindex(all);
  EXPECT_EQ(names, expected);
}

TEST(Netlink, ARefusalIsItsErrnoAndTheNextRequestIsAnswered) {
  NetlinkSocket kernel(NETLINK_ROUTE);
  ASSERT_TRUE(kernel);
  NetlinkRequest<ifinfomsg> missing(RTM_GETLINK, 0), lo(RTM_GETLINK, 0);
  missing.body().ifi_index = 0x7ffffffe;
  lo.body().ifi_index = static_cast<int>(if_nametoindex("lo"));
  int heard = 0;
  EXPECT_EQ(kernel.Ask(missing, [&](const nlmsghdr&) { heard++; }), ENODEV);
  EXPECT_EQ(kernel.Ask(lo, [&](const nlmsghdr&) { heard++; }), 0);
  EXPECT_EQ(heard, 1);
}

TEST(Netlink, AValueOfAnotherSizeIsNone) {
  NetlinkRequest<ifinfomsg> message(RTM_NEWLINK, 0);
  mnl_attr_put_u32(message.header(), IFLA_LINK, 7);
  int seen = 0;
  ForEachAttribute(*message.header(), sizeof(ifinfomsg), [&](const nlattr& attribute) {
    seen++;
    EXPECT_EQ(ValueOf<uint32_t>(attribute), 7u);
    EXPECT_EQ(ValueOf<uint16_t>(attribute), std::nullopt);
    EXPECT_EQ(ValueOf<uint64_t>(attribute), std::nullopt);
  });
  EXPECT_EQ(seen, 1);
}

// Sends what a kernel could, on the bus that is for programs.
class NetlinkNews : public testing::Test {
 protected:
  // One datagram of `count` messages with a body of `bytes` each, to news_, or to `group`.
  int Send(int count, size_t bytes, uint32_t group = 0) {
    sockaddr_nl to{};
    socklen_t size = sizeof(to);
    if (getsockname(news_.fd(), reinterpret_cast<sockaddr*>(&to), &size) != 0) return errno;
    if (group != 0) {
      to.nl_pid = 0;
      to.nl_groups = group;
    }
    std::vector<char> datagram(count * NLMSG_SPACE(bytes));
    for (int i = 0; i < count; i++) {
      const nlmsghdr header = {static_cast<uint32_t>(NLMSG_LENGTH(bytes)), NLMSG_MIN_TYPE, 0, 0, 0};
      std::memcpy(datagram.data() + i * NLMSG_SPACE(bytes), &header, sizeof(header));
    }
    const ssize_t sent = sendto(sender_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT,
                                reinterpret_cast<const sockaddr*>(&to), sizeof(to));
    return sent < 0 ? errno : 0;
  }
  bool Drain() {
    return news_.Drain([this](const nlmsghdr&) { heard_++; });
  }

  static constexpr uint32_t kGroup = 1;
  NetlinkSocket news_{NETLINK_USERSOCK};
  Fd sender_{socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK)};
  int heard_ = 0;
};

TEST_F(NetlinkNews, EachMessageOfEachDatagramIsHandedOver) {
  ASSERT_EQ(Send(3, 100), 0);
  ASSERT_EQ(Send(2, 0), 0);
  EXPECT_TRUE(Drain());
  EXPECT_EQ(heard_, 5);
  EXPECT_TRUE(Drain());
  EXPECT_EQ(heard_, 5);
}

TEST_F(NetlinkNews, ADatagramThatIsCutCountsAsLost) {
  ASSERT_EQ(Send(1, 40000), 0);
  ASSERT_EQ(Send(1, 10), 0);
  EXPECT_FALSE(Drain());
  EXPECT_EQ(heard_, 1);  // of the long one not even what came
  EXPECT_TRUE(Drain());
}

TEST_F(NetlinkNews, WhoeverKeepsSendingHoldsNobodyUp) {
  for (int i = 0; i < 100; i++) ASSERT_EQ(Send(1, 10), 0) << i;
  EXPECT_TRUE(Drain());
  EXPECT_LT(heard_, 100);
  EXPECT_GT(heard_, 0);
  EXPECT_TRUE(Drain());
  EXPECT_EQ(heard_, 100);
}

TEST_F(NetlinkNews, MoreThanTheSocketHoldsCountsAsLost) {
  news_ = NetlinkSocket(NETLINK_USERSOCK, kGroup);
  if (!news_) GTEST_SKIP() << "may not join a group";
  for (int i = 0; i < 100; i++) (void)Send(1, 30000, kGroup);  // 3 MB, and the socket holds 208 KiB
  EXPECT_FALSE(Drain());
  EXPECT_GT(heard_, 0);
  EXPECT_LT(heard_, 100);
}

}  // namespace
}  // namespace spillway::base
