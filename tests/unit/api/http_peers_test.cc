// SPDX-License-Identifier: Apache-2.0
// One address does not take all connections of a server.
#include "api/http_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include "api/http.h"
#include "api/listen.h"
#include "base/fd.h"
#include "base/socket_address.h"

namespace spillway::api {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpPeersTest : public ::testing::Test {
 protected:
  HttpPeersTest() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("log", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  ~HttpPeersTest() override { spdlog::set_default_logger(before_); }

  static base::SocketAddress At(const std::string& host) { return *base::SocketAddress::ParseHost(host); }

  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(HttpPeersTest, AConnectionBeyondTheLimitIsRefusedAndToldAFewTimesASecond) {
  HttpPeers peers(2, "x.limit");
  const HttpPeers::Time now{std::chrono::hours(1)};
  const auto one = At("192.0.2.1"), other = At("192.0.2.2");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(peers.Admit(one.get(), now));
    peers.Began(one.get());
  }
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(peers.Admit(one.get(), now));
  EXPECT_TRUE(peers.Admit(other.get(), now));
  EXPECT_THAT(log_.str(), HasSubstr("192.0.2.1 has 2 connections (x.limit): another is refused\n"));
  const std::string told = log_.str();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 10);
  EXPECT_FALSE(peers.Admit(one.get(), now + std::chrono::seconds(1)));
  EXPECT_THAT(log_.str(), HasSubstr("another is refused; 40 more such lines were kept back"));
  peers.Ended(one.get());
  EXPECT_TRUE(peers.Admit(one.get(), now));
}

TEST_F(HttpPeersTest, AHostHasAllOfItsPrefixAndAMappedAddressIsIPv4) {
  HttpPeers peers(1, "x.limit");
  const HttpPeers::Time now{};
  peers.Began(At("2001:db8::1").get());
  EXPECT_FALSE(peers.Admit(At("2001:db8::2").get(), now));
  EXPECT_TRUE(peers.Admit(At("2001:db8:0:1::1").get(), now));
  peers.Began(At("::ffff:192.0.2.1").get());
  EXPECT_FALSE(peers.Admit(At("192.0.2.1").get(), now));
  EXPECT_TRUE(peers.Admit(At("::ffff:192.0.2.2").get(), now));
  const sockaddr here{AF_UNIX, {}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(peers.Admit(&here, now)) << "UNIX sockets";
    peers.Began(&here);
  }
}

class Peer {
 public:
  Peer(const std::string& from, int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const auto own = *base::SocketAddress::ParseHost(from);
    auto to = *base::SocketAddress::ParseHost("127.0.0.1");
    to.set_port(static_cast<uint16_t>(port));
    EXPECT_EQ(bind(socket_.get(), own.get(), own.length), 0);
    EXPECT_EQ(connect(socket_.get(), to.get(), to.length), 0);
  }
  // Empty: the server closes it.
  [[nodiscard]] std::string Ask() const {
    constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    (void)send(socket_.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL);
    char answer[256];
    const ssize_t count = recv(socket_.get(), answer, sizeof(answer), 0);
    return count <= 0 ? "" : std::string(answer, static_cast<size_t>(count));
  }

 private:
  base::Fd socket_;
};

TEST_F(HttpPeersTest, OfAServerOthersConnectBesideOneWhoHasAllThatHeMay) {
  const auto listener = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(listener) << listener.error().message;
  const int port = PortOf(*listener);
  HttpLimits limits;
  limits.connections_per_address = 2;
  limits.per_address_key = "x.limit";
  auto server = HttpServer::StartAsync(
      *listener,
      [](const Request&, const Responder& respond) { respond([] { return Response{.body = "ok"}; }); },
      limits);
  ASSERT_TRUE(server) << server.error().message;
  {
    const Peer first("127.0.0.1", port), second("127.0.0.1", port);
    EXPECT_THAT(first.Ask(), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(second.Ask(), StartsWith("HTTP/1.1 200"));
    EXPECT_EQ(Peer("127.0.0.1", port).Ask(), "");
    EXPECT_THAT(Peer("127.0.0.2", port).Ask(), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(first.Ask(), StartsWith("HTTP/1.1 200"));
  }
  // Once the server has seen that they are gone.
  while (Peer("127.0.0.1", port).Ask().empty()) {
  }
  server->reset();
  EXPECT_THAT(log_.str(), HasSubstr("127.0.0.1 has 2 connections (x.limit): another is refused"));
}

}  // namespace
}  // namespace spillway::api
