// SPDX-License-Identifier: Apache-2.0
#include "api/listen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace spillway::api {
namespace {

using ::testing::HasSubstr;

class Listen : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/spillway-listen-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/sub/api.sock";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

TEST_F(Listen, MakesItsFolderAndRemovesItsSocket) {
  {
    const auto listener = ListenUnix(path_);
    ASSERT_TRUE(listener.has_value()) << listener.error().message;
    EXPECT_TRUE(std::filesystem::is_socket(path_));
    close(listener->fd);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Listen, ReplacesTheSocketOfAKilledProcess) {
  auto killed = ListenUnix(path_);
  ASSERT_TRUE(killed.has_value());
  close(killed->fd);  // as the kernel does; the file stays
  const auto next = ListenUnix(path_);
  ASSERT_TRUE(next.has_value()) << next.error().message;
  close(next->fd);
}

TEST_F(Listen, RefusesASocketSomebodyAnswersOn) {
  const auto first = ListenUnix(path_);
  ASSERT_TRUE(first.has_value());
  const auto second = ListenUnix(path_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr(path_));
  EXPECT_TRUE(std::filesystem::is_socket(path_));
  close(first->fd);
}

TEST_F(Listen, NeverRemovesWhatIsNotASocket) {
  const std::string file = folder_ + "/precious";
  std::ofstream(file) << "data";
  const auto refused = ListenUnix(file);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kBadInput);
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
}

TEST_F(Listen, LeavesASuccessorsSocketAlone) {
  auto old = ListenUnix(path_);
  ASSERT_TRUE(old.has_value());
  std::filesystem::remove(path_);  // by an operator, say
  const auto successor = ListenUnix(path_);
  ASSERT_TRUE(successor.has_value());
  { const SocketFile end = std::move(old->file); }
  EXPECT_TRUE(std::filesystem::is_socket(path_));
  close(old->fd);
  close(successor->fd);
}

TEST_F(Listen, PathsThatCannotBeAreBadInput) {
  EXPECT_EQ(ListenUnix("").error().code, ErrorCode::kBadInput);
  EXPECT_EQ(ListenUnix("/tmp/" + std::string(200, 'x')).error().code, ErrorCode::kBadInput);
}

TEST_F(Listen, TcpEndpointsAreAddressAndPort) {
  for (const char* good : {"127.0.0.1:0"}) {
    const auto fd = ListenTcp(good);
    ASSERT_TRUE(fd.has_value()) << fd.error().message;
    close(*fd);
  }
  for (const char* bad : {"", "9100", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                          "::1:9100", "[::1]", "[]:1", "localhost:9100", "127.0.0.1:91x", "[127.0.0.1]:1"}) {
    const auto refused = ListenTcp(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::kBadInput) << bad;
    EXPECT_THAT(refused.error().message, HasSubstr("expected ADDRESS:PORT"));
  }
}

TEST_F(Listen, ApiOptionsAreSocketPathsOnly) {
  EXPECT_EQ(*ParseApiOption("/run/spillway/api.sock"), "/run/spillway/api.sock");
  EXPECT_EQ(*ParseApiOption("./api.sock"), "./api.sock");
  EXPECT_EQ(*ParseApiOption("unix:api.sock"), "api.sock");
  for (const char* tcp :
       {"127.0.0.1:8080", ":8080", "0.0.0.0:1", "http://host/", "tcp:127.0.0.1:1/", "api.sock"}) {
    const auto refused = ParseApiOption(tcp);
    ASSERT_FALSE(refused.has_value()) << tcp;
    EXPECT_EQ(refused.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(refused.error().message, HasSubstr("token and TLS"));
  }
}

}  // namespace
}  // namespace spillway::api
