// SPDX-License-Identifier: Apache-2.0
#include "base/netlink.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <cerrno>
#include <set>
#include <string>

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

}  // namespace
}  // namespace spillway::base
