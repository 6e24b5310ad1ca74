// SPDX-License-Identifier: Apache-2.0
// spillway-load's generator against an emulated unit over loopback, both in this process.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <thread>

#include "lab/load/generator.h"
#include "lab/load/outcome.h"
#include "lab/unit/options.h"
#include "lab/unit/wire.h"

namespace spillway::load {
namespace {

using std::chrono::milliseconds;

Result<std::unique_ptr<unit::Server>> Open(const unit::Settings& settings) {
  return unit::Server::Open(settings, std::make_unique<unit::EmulatedWorkers>(settings));
}

// An emulated unit on a thread of its own, from construction to Stop.
class Unit {
 public:
  explicit Unit(unit::Settings settings) {
    auto opened = Open(settings);
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return;
    }
    server_ = std::move(*opened);
    thread_ = std::thread([this] { EXPECT_TRUE(server_->Run(wake_, [] { return false; }).has_value()); });
  }
  ~Unit() {
    Stop();
    ::close(wake_);
  }
  base::SocketAddress address() const { return server_->addresses()[0]; }
  // Its statistics.
  nlohmann::ordered_json Stop() {
    if (thread_.joinable()) {
      ::eventfd_write(wake_, 1);
      thread_.join();
    }
    return server_->Summary();
  }

 private:
  int wake_ = ::eventfd(0, EFD_CLOEXEC);
  std::unique_ptr<unit::Server> server_;
  std::thread thread_;
};

unit::Settings At(const char* address) {
  unit::Settings settings;
  settings.listen = {*base::SocketAddress::Parse(address)};
  settings.service = std::chrono::microseconds(20);
  settings.name = "u1";
  return settings;
}

Settings To(const base::SocketAddress& target, Protocol protocol) {
  Settings settings;
  settings.target = target;
  settings.protocol = protocol;
  settings.rate = 2000;
  settings.duration = milliseconds(250);
  settings.timeout = std::chrono::seconds(20);  // a loaded machine is slow, not lossy
  return settings;
}

Trial MustRun(const Settings& settings) {
  Result<Trial> run = Generate(settings, -1, {});
  if (!run) {
    ADD_FAILURE() << run.error().message;
    return {Ledger(0, 1, true)};
  }
  return std::move(*run);
}

bool HasIpv6() { return unit::UdpListener::Open(*base::SocketAddress::Parse("[::1]:0")).has_value(); }

class EveryWay : public testing::TestWithParam<std::tuple<const char*, Protocol, bool>> {};

TEST_P(EveryWay, EveryRequestIsAnsweredOnceAndBothEndsAgree) {
  const auto [address, protocol, flow_per_request] = GetParam();
  if (address[1] == ':' && !HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  Unit unit(At(address));
  base::SocketAddress target = unit.address();
  if (target.IsWildcard()) {
    const std::uint16_t port = target.port();
    target = *base::SocketAddress::ParseHost(
        "127.0.0.9");  // the answer must come from it, too: flows are connected
    target.set_port(port);
  }
  Settings settings = To(target, protocol);
  settings.flow_per_request = flow_per_request;
  settings.payload_bytes = 700;
  const Trial run = MustRun(settings);
  const auto json = ToJson(settings, run);
  EXPECT_GT(json["offered"], 300);
  EXPECT_EQ(json["answered"], json["offered"]);
  for (const char* zero : {"late", "duplicates", "foreign", "send_failed", "refused", "connect_failed",
                           "connections_broken", "pcc_violations"})
    EXPECT_EQ(json[zero], 0) << zero;
  EXPECT_EQ(json["units"]["u1"], json["offered"]);
  const auto summary = unit.Stop();
  EXPECT_EQ(summary["received"], json["offered"]);
  EXPECT_EQ(summary["answered"], json["offered"]);
  if (protocol == Protocol::kTcp) {
    EXPECT_EQ(summary["connections"], flow_per_request ? json["offered"].get<int>() : 64);
  }
}

INSTANTIATE_TEST_SUITE_P(Loopback, EveryWay,
                         testing::Combine(testing::Values("127.0.0.1:0", "[::1]:0", "0.0.0.0:0"),
                                          testing::Values(Protocol::kUdp, Protocol::kTcp), testing::Bool()));

TEST(Load, CarriesAMegabyteBothWays) {
  Unit unit(At("127.0.0.1:0"));
  Settings settings = To(unit.address(), Protocol::kTcp);
  settings.rate = 40;
  settings.duration = milliseconds(500);
  settings.flows = 3;
  settings.payload_bytes = unit::kMaxPayloadBytes;
  const auto json = ToJson(settings, MustRun(settings));
  EXPECT_GT(json["offered"], 5);
  EXPECT_EQ(json["answered"], json["offered"]);
  EXPECT_EQ(json["foreign"], 0);
}

TEST(Load, LosesWhatTheQueueCannotHold) {
  unit::Settings slow = At("127.0.0.1:0");
  slow.service = std::chrono::hours(1);
  slow.queue_limit = 5;
  slow.workers = 2;
  Unit unit(slow);
  Settings settings = To(unit.address(), Protocol::kUdp);
  settings.timeout = milliseconds(50);
  const auto json = ToJson(settings, MustRun(settings));
  EXPECT_EQ(json["answered"], 0);
  const auto summary = unit.Stop();
  EXPECT_EQ(summary["waiting"], 5);
  EXPECT_EQ(summary["dropped"], summary["received"].get<int>() - 7);
  EXPECT_GT(summary["dropped"], 0);
}

// A TCP server that answers each request at once, giving the n-th answer of a connection the n-th of
// `names`, and hangs up when they are spent.
void ServeOneConnection(int listener, const std::vector<std::string>& names) {
  const int fd = ::accept(listener, nullptr, nullptr);
  for (const std::string& name : names) {
    std::array<char, unit::kAnswerBytes> bytes{};
    if (::recv(fd, bytes.data(), unit::kRequestBytes, MSG_WAITALL) != unit::kRequestBytes) break;
    const auto request = unit::DecodeRequest(bytes.data());
    unit::Encode(unit::Answer{*request, 0, 0, name, 0}, bytes.data());
    (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Closed with requests unread it would be reset, and answers that the client has not read yet lost.
  ::shutdown(fd, SHUT_WR);
  for (char unread[4096]; ::recv(fd, unread, sizeof(unread), 0) > 0;) continue;
  ::close(fd);
}

TEST(Load, NoticesAConnectionThatChangesItsUnitAndOneThatBreaks) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  base::SocketAddress any = *base::SocketAddress::Parse("127.0.0.1:0");
  ASSERT_EQ(::bind(listener, any.get(), any.length), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  std::thread server([listener] {
    ServeOneConnection(listener, {"a", "a", "b", "b", "b"});
    ServeOneConnection(listener, std::vector<std::string>(100'000, "c"));
  });
  Settings settings = To(base::SocketAddress::OfSocket(listener), Protocol::kTcp);
  settings.flows = 1;
  settings.duration = std::chrono::seconds(2);
  settings.timeout = milliseconds(1500);
  const Trial run = MustRun(settings);
  ::shutdown(listener, SHUT_RDWR);  // whoever still waits in accept() goes home
  server.join();
  ::close(listener);
  EXPECT_EQ(run.ledger.counters.pcc_violations, 1u);  // a to b; the new connection may meet c
  EXPECT_EQ(run.ledger.counters.broken, 1u);
  EXPECT_EQ(run.ledger.counters.connections, 2u);
}

TEST(Load, SaysThatNobodyListens) {
  base::SocketAddress target;
  {
    Unit unit(At("127.0.0.1:0"));
    target = unit.address();
  }
  const Result<Trial> run = Generate(To(target, Protocol::kTcp), -1, {});
  ASSERT_FALSE(run.has_value());
  EXPECT_NE(run.error().message.find("refused"), std::string::npos);
  EXPECT_NE(run.error().message.find(target.Text()), std::string::npos);
}

TEST(Load, ReportsWhatWasSentWhenStoppedEarly) {
  Unit unit(At("127.0.0.1:0"));
  Settings settings = To(unit.address(), Protocol::kUdp);
  settings.duration = std::chrono::hours(1);
  settings.rate = 1000;
  const int stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bool asked = false;
  const Result<Trial> run = Generate(settings, stop, [&](double, const Ledger& ledger) {
    if (ledger.records().size() >= 20 && !asked) ::eventfd_write(stop, 1);
    asked = asked || ledger.records().size() >= 20;
  });
  ::close(stop);
  ASSERT_TRUE(run.has_value());
  const auto json = ToJson(settings, *run);
  EXPECT_TRUE(json["interrupted"].get<bool>());
  EXPECT_GE(json["offered"], 20);
  EXPECT_EQ(json["answered"], json["offered"]);
}

TEST(Unit, IsRefusedAnAddressInUse) {
  Unit unit(At("127.0.0.1:0"));
  const auto second = Open(At(unit.address().Text().c_str()));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
}

}  // namespace
}  // namespace spillway::load
