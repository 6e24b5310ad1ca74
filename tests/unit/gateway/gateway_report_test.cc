// SPDX-License-Identifier: Apache-2.0
// The gateway as a unit that reports its load; a socket stands in for the switch.
#include "gateway/report/gateway_report.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/fd.h"
#include "core/report.h"
#include "gateway_bed.h"

namespace spillway::gateway {
namespace {

// As after the clock was set back: switches take no report that is older than the last.
TEST(GatewayReport, IsNewerThanThoseOfTheGatewayBeforeWhateverTheClockSays) {
  constexpr uint64_t kFarAhead = 1'000'000'000'000'000'000;  // microseconds since 1970: the year 33,658
  gateway::GatewayBed bed;
  const base::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  const timeval patience{20, 0};  // then the test fails
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
  ASSERT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &size), 0);

  agent::AgentConfig config;
  config.switches = {*agent::Endpoint::Parse(fmt::format("127.0.0.1:{}", ntohs(here.sin_port)))};
  config.state_file = (bed.folder / "7-2.boot").string();
  config.meter.kind = agent::MeterKind::kCpu;
  config.trigger.threshold = 0.5;
  std::ofstream(config.state_file) << kFarAhead << "\n";
  spw_report_wire wire{};
  spw_report report{};
  {
    const GatewayReport reports(*bed.server, config);
    const ssize_t bytes = recv(socket.get(), &wire, sizeof(wire), 0);
    ASSERT_EQ(spw_report_decode(&wire, static_cast<uint32_t>(bytes), &report), SPW_REPORT_OK);
  }
  EXPECT_EQ(report.boot_id, kFarAhead + 1);
  std::string kept;
  std::getline(std::ifstream(config.state_file), kept);
  EXPECT_EQ(kept, std::to_string(kFarAhead + 1));
}

}  // namespace
}  // namespace spillway::gateway
