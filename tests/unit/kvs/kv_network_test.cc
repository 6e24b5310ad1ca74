// SPDX-License-Identifier: Apache-2.0
// Client, host and NIC in a network namespace each: requests get from one to the other and nowhere else.
#include "lab/testbed/host_network.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include "lab/kvs/kv_client.h"
#include "lab/kvs/kv_server.h"

namespace spillway::lab {
namespace {

class SeparateFrontEnds : public testing::TestWithParam<KvFrontEnd> {};

TEST_P(SeparateFrontEnds, AnswerTheClientAcrossNamespaces) {
  auto network = HostNetwork::Namespaces();
  ASSERT_TRUE(network) << network.error().message;
  OrderedStore store(100);
  KvServerSetup setup;
  setup.front_end = GetParam();
  setup.network = &*network;
  auto server = KvServer::Start(setup, store);
  ASSERT_TRUE(server) << server.error().message;

  KvLoad load;
  load.address = (*server)->address();
  load.port = (*server)->port();
  load.duration = std::chrono::milliseconds(100);
  load.keys = 100;
  const auto outcome = RunKvLoad(load, *network);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_GT(outcome->answered, 0u);
  EXPECT_EQ(outcome->wrong, 0u);
  EXPECT_EQ(if_nametoindex("net1"), 0u) << "a link of the experiment is in this process's own namespace";

  // The same address and port from here: nobody.
  const auto elsewhere = RunKvLoad(load, HostNetwork::Loopback());
  EXPECT_TRUE(!elsewhere || elsewhere->answered == 0);
}

INSTANTIATE_TEST_SUITE_P(All, SeparateFrontEnds,
                         testing::Values(KvFrontEnd::kRss, KvFrontEnd::kSteal, KvFrontEnd::kDispatch,
                                         KvFrontEnd::kRemote),
                         [](const auto& param) { return std::string(ToString(param.param)); });

}  // namespace
}  // namespace spillway::lab
