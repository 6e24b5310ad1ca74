// SPDX-License-Identifier: Apache-2.0
// A whole agent, metering this machine's CPUs, and a socket in the place of the switch.
#include "agent/agent.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/fd.h"
#include "core/report.h"

namespace spillway::agent {
namespace {

class AgentTest : public testing::Test {
 protected:
  AgentTest() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    std::string name = testing::TempDir() + "/spillway-agent-XXXXXX";
    folder_ = mkdtemp(name.data());
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(here);
    const timeval patience{20, 0};  // then the test fails
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&here), &size), 0);
    config_.switches = {*Endpoint::Parse(fmt::format("127.0.0.1:{}", ntohs(here.sin_port)))};
    config_.state_file = folder_ + "/3-1.boot";
    config_.meter.kind = MeterKind::kCpu;
    config_.trigger.threshold = 0.5;
  }
  ~AgentTest() override { std::filesystem::remove_all(folder_); }

  // The first report of an agent that then gets SIGTERM.
  spw_report FirstReport() {
    sigset_t ending, before;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ending, &before);
    spw_report report{};
    {
      auto agent = Agent::Start(config_);
      EXPECT_TRUE(agent) << agent.error().message;
      if (!agent) return report;
      std::thread running([&] { EXPECT_TRUE((*agent)->Run(nullptr)); });
      spw_report_wire wire{};
      const ssize_t bytes = recv(socket_.get(), &wire, sizeof(wire), 0);
      EXPECT_EQ(spw_report_decode(&wire, static_cast<uint32_t>(bytes), &report), SPW_REPORT_OK);
      pthread_kill(running.native_handle(), SIGTERM);  // pending for this thread, and gone with it
      running.join();
      while (recv(socket_.get(), &wire, sizeof(wire), MSG_DONTWAIT) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return report;
  }
  std::string StateFile() const {
    std::string line;
    std::getline(std::ifstream(config_.state_file), line);
    return line;
  }

  std::string folder_;
  base::Fd socket_;
  AgentConfig config_;
};

TEST_F(AgentTest, AnInterfaceThatIsNotThereIsNamedWithItsLine) {
  config_.meter.kind = MeterKind::kLatency;
  config_.interface = "nosuch0";
  yaml::NotePlace(config_.places, "a.yaml", {"interface", 4, {}});
  const auto agent = Agent::Start(config_);
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().message, "a.yaml:4: interface: no such interface: nosuch0");
}

// As after the clock was set back: switches take no report that is older than the last.
TEST_F(AgentTest, ItsReportsAreNewerThanThoseOfTheAgentBeforeWhateverTheClockSays) {
  constexpr uint64_t kFarAhead = 1'000'000'000'000'000'000;  // microseconds since 1970: the year 33,658
  std::ofstream(config_.state_file) << kFarAhead << "\n";
  EXPECT_EQ(FirstReport().boot_id, kFarAhead + 1);
  EXPECT_EQ(StateFile(), std::to_string(kFarAhead + 1));
  EXPECT_EQ(FirstReport().boot_id, kFarAhead + 2);
}

TEST_F(AgentTest, TheFirstOfAllKeepsItsBootIdForTheNext) {
  const uint64_t first = FirstReport().boot_id;
  EXPECT_GT(first, 1'600'000'000'000'000u) << "this century";
  EXPECT_EQ(StateFile(), std::to_string(first));
}

// The program, as a user starts it.
TEST_F(AgentTest, WarnsOfAKeyThatAnyUserMayRead) {
  const std::string file = folder_ + "/agent.yaml", key = folder_ + "/s3.key";
  std::ofstream(key) << "000102030405060708090a0b0c0d0e0f\n";
  std::ofstream(file) << fmt::format(
      "switches: ['{}']\nserver: {{code: 3, key_file: s3.key}}\nunit: 1\nmeter: {{kind: cpu}}\n"
      "trigger: {{threshold: 50%}}\n",
      config_.switches[0].text);
  for (const auto& [mode, warns] : {std::pair{0644u, true}, std::pair{0600u, false}}) {
    ASSERT_EQ(chmod(key.c_str(), mode), 0);
    const std::string log = folder_ + "/log";
    ASSERT_EQ(
        std::system(fmt::format("{} -c {} --once > /dev/null 2> {}", SPILLWAY_AGENT, file, log).c_str()), 0);
    std::stringstream said;
    said << std::ifstream(log).rdbuf();
    EXPECT_EQ(
        said.str().find(key + " holds a secret and any user may read it: chmod 600") != std::string::npos,
        warns)
        << said.str();
  }
}

}  // namespace
}  // namespace spillway::agent
