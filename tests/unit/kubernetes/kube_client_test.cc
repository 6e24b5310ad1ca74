// SPDX-License-Identifier: Apache-2.0
// The extender's client of an API server: its token, and lists that come in pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api_server.h"
#include "kubernetes/kube_client.h"

namespace spillway::kubernetes {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(KubeClient, CallsWithItsTokenOrNotAtAll) {
  FakeApiServer server;
  ExtenderConfig config = server.Config();
  config.token_file = ::testing::TempDir() + "extender_token" + std::to_string(getpid());
  KubeClient client(config);
  std::remove(config.token_file.c_str());
  EXPECT_THAT(client.Get("/api/v1/nodes").error().message, HasSubstr(config.token_file));
  for (const char* token : {"", "\n", "a b", "a\r\nX-More: b", "a\nb"}) {
    std::ofstream(config.token_file) << token;
    EXPECT_THAT(client.Get("/api/v1/nodes").error().message,
                HasSubstr("expected a token without blanks and control characters"));
  }
  std::ofstream(config.token_file) << "abc.def\n";
  EXPECT_EQ(client.Get("/api/v1/nodes")->status, 200);
  EXPECT_EQ(server.authorization(), "Bearer abc.def");
  std::remove(config.token_file.c_str());
}

TEST(KubeClient, AListEndsThoughTheServerGoesOn) {
  FakeApiServer server;
  server.endless = true;
  const ExtenderConfig config = server.Config();
  EXPECT_THAT(KubeClient(config).List("/api/v1/nodes", [](const json&) {}).error().message,
              HasSubstr("in 1000 pages"));
}

TEST(KubeClient, OnceEndedAsksForNoFurtherPage) {
  FakeApiServer server;
  server.endless = true;
  KubeClient client(server.Config());
  std::thread ending([&] {
    while (server.node_pages < 3) std::this_thread::yield();
    client.End();
  });
  const auto listed = client.List("/api/v1/nodes", [](const json&) {});
  ending.join();
  EXPECT_THAT(listed.error().message, HasSubstr("shutting down"));
  EXPECT_LT(server.node_pages, 1000);
}

TEST(KubeClient, APageOfAListIsTakenBeforeTheNextIsAskedFor) {
  FakeApiServer server;
  const ExtenderConfig config = server.Config();
  std::vector<std::pair<std::string, int>> taken;
  ASSERT_TRUE(KubeClient(config).List("/api/v1/nodes", [&](const json& node) {
    taken.emplace_back(node["metadata"]["name"], server.node_pages);
  }));
  EXPECT_EQ(taken, (std::vector<std::pair<std::string, int>>{{"a", 1}, {"b", 2}}));
}

}  // namespace
}  // namespace spillway::kubernetes
