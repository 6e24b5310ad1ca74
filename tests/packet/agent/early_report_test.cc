// SPDX-License-Identifier: Apache-2.0
// A whole agent on the loopback interface of a network namespace of the test's own: server, clients and
// switch are the test's sockets.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/agent.h"
#include "base/fd.h"
#include "core/report.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

sockaddr_in Here(uint16_t port) {
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  here.sin_port = htons(port);
  return here;
}

// "A ?" of the root.
constexpr std::array<uint8_t, 17> kQuestion = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1};

class UdpSocket {
 public:
  explicit UdpSocket(uint16_t port = 0, uint16_t peer = 0)
      : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{5, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const sockaddr_in own = Here(port), other = Here(peer);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    if (peer != 0) {
      EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&other), sizeof(other)), 0);
    }
  }
  void Send() const { EXPECT_EQ(send(fd_.get(), kQuestion.data(), kQuestion.size(), 0), kQuestion.size()); }
  bool Receive() const {
    std::array<uint8_t, 64> bytes;
    return recv(fd_.get(), bytes.data(), bytes.size(), 0) > 0;
  }
  void Answer(uint8_t dns_code) const {
    std::array<uint8_t, 64> bytes;
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    const ssize_t got =
        recvfrom(fd_.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    ASSERT_EQ(got, kQuestion.size());
    bytes[2] |= 0x80;  // an answer
    bytes[3] = dns_code;
    EXPECT_EQ(
        sendto(fd_.get(), bytes.data(), kQuestion.size(), 0, reinterpret_cast<const sockaddr*>(&from), size),
        kQuestion.size());
  }
  std::optional<spw_report> Report() const {
    spw_report_wire wire{};
    spw_report report{};
    const ssize_t bytes = recv(fd_.get(), &wire, sizeof(wire), 0);
    if (bytes < 0) return std::nullopt;
    EXPECT_EQ(spw_report_decode(&wire, static_cast<uint32_t>(bytes), &report), SPW_REPORT_OK);
    return report;
  }

 private:
  base::Fd fd_;
};

class RunningAgent {
 public:
  explicit RunningAgent(const AgentConfig& config) {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
    auto agent = Agent::Start(config);
    EXPECT_TRUE(agent) << agent.error().message;
    if (!agent) return;
    agent_ = std::move(*agent);
    thread_ = std::thread([this] { EXPECT_TRUE(agent_->Run(nullptr)); });
  }
  ~RunningAgent() {
    if (thread_.joinable()) {
      pthread_kill(thread_.native_handle(), SIGTERM);
      thread_.join();
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_{};
  std::unique_ptr<Agent> agent_;
  std::thread thread_;
};

class EarlyReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs root: makes a network namespace";
    ifreq request{};
    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_LOOPBACK;
    const base::Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
    std::string name = testing::TempDir() + "/spillway-agent-XXXXXX";
    folder_ = mkdtemp(name.data());
    config_.switches = {*Endpoint::Parse("127.0.0.1:9000")};
    config_.state_file = folder_ + "/3-1.boot";
    config_.interface = "lo";
    config_.services = {{false, 5300}};
    config_.trigger.threshold = 1e9;
    config_.meter.dns = true;
    config_.report.period = 10s;
    config_.report.heartbeat = 10s;
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  AgentConfig config_;
  std::string folder_;
};

TEST_F(EarlyReportTest, AUnitThatStandsStillIsReportedBeforeThePeriodIsOver) {
  constexpr uint32_t kUnanswered = 50;
  config_.failing.detect = false;
  const UdpSocket at_switch(9000), server(5300);
  std::vector<UdpSocket> clients;
  for (uint32_t i = 0; i < kUnanswered; i++) clients.emplace_back(0, 5300);
  const RunningAgent agent(config_);
  ASSERT_TRUE(at_switch.Report()) << "the first";
  for (int i = 0; i < 200; i++) {
    clients[0].Send();
    server.Answer(0);
    ASSERT_TRUE(clients[0].Receive());
  }
  for (const UdpSocket& client : clients) client.Send();
  // The switch has counted them, but it drains them by the clock.
  uint32_t queue = 0;
  while (queue < kUnanswered) {
    const auto report = at_switch.Report();
    ASSERT_TRUE(report) << "no report for 5 of the period's 10 s, and the last one has a queue of " << queue;
    queue = report->queue;
    if (queue == kUnanswered) {
      EXPECT_GE(report->backlog_us, kUnanswered * (report->slot_ns / 1000));
    }
  }
  EXPECT_EQ(queue, kUnanswered);
}

TEST_F(EarlyReportTest, AUnitThatAnswersWithErrorsIsReportedBeforeThePeriodIsOver) {
  constexpr uint8_t kServfail = 2;
  const UdpSocket at_switch(9000), server(5300), client(0, 5300);
  const RunningAgent agent(config_);
  ASSERT_TRUE(at_switch.Report()) << "the first";
  for (int i = 0; i < 100; i++) {
    client.Send();
    server.Answer(kServfail);
    ASSERT_TRUE(client.Receive());
  }
  for (bool fails = false; !fails;) {
    const auto report = at_switch.Report();
    ASSERT_TRUE(report) << "no report for 5 of the period's 10 s";
    fails = report->flags & SPW_REPORT_FAILING;
  }
}

}  // namespace
}  // namespace spillway::agent
