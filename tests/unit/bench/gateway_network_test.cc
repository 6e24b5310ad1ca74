// SPDX-License-Identifier: Apache-2.0
// bench gateway where it may make network namespaces: every design answers across them.
#include <gtest/gtest.h>
#include <net/if.h>

#include "bench/gateway/gateway_bench.h"

namespace spillway::bench {
namespace {

TEST(GatewayBench, ClientNicAndHostHaveANetworkNamespaceEach) {
  GatewayBenchOptions options;
  options.namespaces = true;
  options.variants = true;
  options.quick = true;
  options.duration = std::chrono::milliseconds(30);
  options.loads = {0};
  std::string said;
  const auto document = RunGatewayBench(options, [&](double, const std::string& message) {
    if (message.starts_with("on loopback")) said = message;
  });
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(said, "");
  ASSERT_GE(document->rows().size(), 6u);
  for (const auto& row : document->rows()) {
    EXPECT_EQ(row["network"], "namespaces");
    EXPECT_GT(row["requests"], 0) << row;
  }
  EXPECT_EQ(if_nametoindex("net1"), 0u) << "a link of the benchmark is in this process's own namespace";
}

}  // namespace
}  // namespace spillway::bench
