// SPDX-License-Identifier: Apache-2.0
// The file of spillway-kubernetes.
#include "kubernetes/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway::kubernetes {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ExtenderConfig, IsReadWithPathsSeenFromItsFolder) {
  const auto config = ParseExtenderConfig(
      "extender:\n  listen: 127.0.0.1:8888\n  api_server: https://10.0.0.1:6443/\n  token_file: t\n"
      "  cluster: rules.yaml\n  resync: 500ms\n",
      "/etc/spillway/extender.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listen, "127.0.0.1:8888");
  EXPECT_EQ(config->api_server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->token_file, "/etc/spillway/t");
  EXPECT_EQ(config->cluster, "/etc/spillway/rules.yaml");
  EXPECT_EQ(config->ca_file, "");
  EXPECT_EQ(config->resync_ms, 500u);
  EXPECT_EQ(config->timeout_ms, 2000u);
}

TEST(ExtenderConfig, SendsItsTokenToNobodyElse) {
  const auto error = [](const std::string& url) {
    const auto config = ParseExtenderConfig(
        "extender:\n  listen: 127.0.0.1:8888\n  api_server: " + url + "\n  token_file: t\n", "/e.yaml");
    return config ? "accepted" : config.error().message;
  };
  for (const char* url : {"http://127.0.0.1:8001", "http://127.9.9.9", "http://localhost:8001/x",
                          "'http://[::1]:80'", "https://api.example.org"})
    EXPECT_EQ(error(url), "accepted") << url;
  for (const char* url :
       {"http://10.0.0.1:6443", "http://localhost.example.org", "http://127.0.0.1.example.org",
        "http://127.0.0.1@example.org", "http://127.0.0.1:80@example.org", "'http://[::1].org'",
        "http://localhost?@example.org", "'http://localhost#@example.org'",
        "'http://localhost\\@example.org'"})
    EXPECT_THAT(error(url), HasSubstr("/e.yaml:4: extender.token_file: expected an https:// api_server"))
        << url;
}

TEST(ExtenderConfig, ItsFilesMustBeReadable) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("extender-config-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = folder / "e.yaml";
  const auto error = [&](const std::string& keys) {
    std::ofstream(file) << "extender: {listen: '127.0.0.1:0', " << keys << "}\n";
    const auto config = LoadExtenderConfig(file);
    return config ? "accepted" : config.error().message;
  };
  const std::string here = folder.string() + "/", expected = ": expected a readable file, got " + here;
  EXPECT_THAT(error("api_server: 'https://127.0.0.1:1', token_file: no.token"),
              StartsWith(file + ": extender.token_file" + expected + "no.token: No such file or directory"));
  EXPECT_THAT(error("api_server: 'https://127.0.0.1:1', ca_file: ."),
              StartsWith(file + ": extender.ca_file" + expected));
  EXPECT_THAT(error("cluster: no.yaml"), StartsWith(file + ": extender.cluster" + expected + "no.yaml"));
  std::ofstream(here + "bad.yaml") << "cluster: {nodes: 3}\n";
  EXPECT_THAT(error("cluster: bad.yaml"), StartsWith(here + "bad.yaml:1: "));
  std::ofstream(here + "rules.yaml") << "cluster: {nodes: [{name: n, model: T4, gpus: 3}]}\n";
  EXPECT_EQ(error("cluster: rules.yaml"), "accepted");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace spillway::kubernetes
