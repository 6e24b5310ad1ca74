// SPDX-License-Identifier: Apache-2.0
// Every front end answers every request of a slow stream, rightly.
#include "lab/kvs/kv_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace spillway::lab {
namespace {

class FrontEnds : public testing::TestWithParam<KvFrontEnd> {
 protected:
  void SetUp() override {
    KvServerSetup setup;
    setup.front_end = GetParam();
    auto started = KvServer::Start(setup, store_);
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
    socket_ = socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(server_->port());
    ASSERT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  void TearDown() override { close(socket_); }

  KvReply Ask(KvOp op, uint64_t key, uint64_t value = 0) {
    KvRequest request;
    request.op = op;
    request.key = key;
    request.value = value;
    request.id = ++id_;
    EXPECT_EQ(send(socket_, &request, sizeof(request), 0), static_cast<ssize_t>(sizeof(request)));
    KvReply reply;
    EXPECT_EQ(recv(socket_, &reply, sizeof(reply), 0), static_cast<ssize_t>(sizeof(reply)));
    EXPECT_EQ(reply.id, id_);
    return reply;
  }

  OrderedStore store_{100};
  std::unique_ptr<KvServer> server_;
  int socket_ = -1;
  uint64_t id_ = 0;
};

TEST_P(FrontEnds, AnswerGetPutAndScan) {
  EXPECT_EQ(Ask(KvOp::kGet, 5).value, 5u);
  EXPECT_EQ(Ask(KvOp::kPut, 5, 50).found, 1u);
  EXPECT_EQ(Ask(KvOp::kGet, 5).value, 50u);
  EXPECT_EQ(Ask(KvOp::kGet, 500).found, 0u);
  EXPECT_EQ(Ask(KvOp::kScan, 4, 3).value, 4u + 50 + 6);
}

TEST_P(FrontEnds, DropWhatIsNoRequestAndGoOn) {
  ASSERT_EQ(send(socket_, "rubbish", 7, 0), 7);
  const std::string long_one(64, 'x');
  ASSERT_EQ(send(socket_, long_one.data(), long_one.size(), 0), 64);
  EXPECT_EQ(Ask(KvOp::kGet, 7).value, 7u);
  server_->Stop();
  EXPECT_EQ(server_->served(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, FrontEnds,
                         testing::Values(KvFrontEnd::kRss, KvFrontEnd::kSteal, KvFrontEnd::kDispatch,
                                         KvFrontEnd::kRemote),
                         [](const auto& param) { return std::string(ToString(param.param)); });

}  // namespace
}  // namespace spillway::lab
