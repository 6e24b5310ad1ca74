// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/cgroup_quota.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/fd.h"

namespace spillway::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHead =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

class ServiceCgroupTest : public ::testing::Test {
 protected:
  ServiceCgroupTest() : proc_(fs::temp_directory_path() / ("spillway_proc_" + std::to_string(getpid()))) {
    Sockets("tcp", "");
    Sockets("udp", "");
  }
  ~ServiceCgroupTest() override { fs::remove_all(proc_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((proc_ / path).parent_path());
    std::ofstream(proc_ / path) << text;
  }
  void Sockets(const std::string& table, const std::string& lines) { Write("net/" + table, kHead + lines); }
  static std::string Line(const std::string& local, const std::string& state, int inode) {
    return "  12: " + local + " 00000000:0000 " + state +
           " 00000000:00000000 00:00000000 00000000     0        0 " + std::to_string(inode) +
           " 2 0000000000000000 0\n";
  }
  void Process(int pid, int inode, const std::string& groups) {
    const std::string folder = std::to_string(pid);
    Write(folder + "/cgroup", groups);
    fs::create_directories(proc_ / folder / "fd");
    fs::create_symlink("socket:[" + std::to_string(inode) + "]", proc_ / folder / "fd" / "3");
  }
  std::optional<std::string> Find(std::vector<ServicePort> services) {
    return ServiceCgroup(std::move(services), proc_).Find();
  }
  fs::path proc_;
};

TEST_F(ServiceCgroupTest, IsThatOfWhoServesThePort) {
  Sockets("udp", Line("00000000:0035", "07", 700) + Line("00000000:0036", "07", 701));
  Process(40, 701, "0::/other\n");
  Process(41, 700, "0::/system.slice/dns.service\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), "/system.slice/dns.service");
  EXPECT_EQ(Find({{.tcp = true, .port = 53}}), std::nullopt);
}

TEST_F(ServiceCgroupTest, OfTcpOnlyWhoListensServes) {
  Sockets("tcp", Line("0100007F:01BB", "01", 700));
  Sockets("tcp6", Line("00000000000000000000000000000000:01BB", "0A", 800));
  Process(40, 700, "0::/client\n");
  Process(41, 800, "0::/web\n");
  EXPECT_EQ(Find({{.tcp = true, .port = 443}}), "/web");
}

TEST_F(ServiceCgroupTest, InVersionOneByWhereCpuTimeIsAccountedFor) {
  Sockets("udp", Line("00000000:0035", "07", 700));
  Process(41, 700, "9:memory:/m\n4:cpu,cpuset:/by-controller\n3:cpuacct:/by-accounts\n0::/v2\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), "/by-accounts");
  Write("41/cgroup", "9:memory:/m\n4:cpu:/by-controller\n0::/v2\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), "/by-controller");
}

TEST_F(ServiceCgroupTest, ProcessOneKeepsSocketsForOthersUnlessItIsAContainersServer) {
  Sockets("udp", Line("00000000:0035", "07", 700));
  Process(1, 700, "0::/init.scope\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), std::nullopt);
  Write("1/cgroup", "0::/docker/12ab\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), "/docker/12ab");
  Process(77, 700, "0::/dns\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), "/dns");
}

TEST_F(ServiceCgroupTest, WhoeverIsConnectedOrOnLoopbackServesNobodyElse) {
  Sockets("udp", Line("0100000A:1F90", "01", 700) + Line("0100007F:1F90", "07", 701));
  Sockets("udp6", Line("00000000000000000000000001000000:1F90", "07", 702));
  for (int i = 0; i < 3; i++) Process(40 + i, 700 + i, "0::/user\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 8080}}), std::nullopt);
}

TEST_F(ServiceCgroupTest, AGroupOutsideOfTheNamespaceIsNone) {
  Sockets("udp", Line("00000000:0035", "07", 700));
  Process(41, 700, "0::/../other-container\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), std::nullopt);
}

// Another user may have bound the port at an address that the server left.
TEST_F(ServiceCgroupTest, GroupsThatDifferAreNone) {
  Sockets("udp", Line("0100000A:1F90", "07", 700) + Line("0200000A:1F90", "07", 701));
  Process(40, 700, "0::/server\n");
  Process(41, 701, "0::/user\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 8080}}), std::nullopt);
  Write("41/cgroup", "0::/server\n");
  EXPECT_EQ(Find({{.tcp = false, .port = 8080}}), "/server");
}

TEST(ServiceCgroup, OnThisMachineOurOwnSocketLeadsToUs) {
  const base::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const auto group = ServiceCgroup({{.tcp = false, .port = ntohs(address.sin_port)}}).Find();
  ASSERT_TRUE(group);
  std::ifstream ours("/proc/self/cgroup");
  const std::string text(std::istreambuf_iterator<char>(ours), {});
  EXPECT_NE(text.find(":" + *group + "\n"), std::string::npos) << *group << " is not of\n" << text;
}

TEST_F(ServiceCgroupTest, RubbishIsNobody) {
  Write("net/udp", "nonsense\n\n 1: 00000000 2 3\n" + Line("00000000:zz", "07", 5));
  EXPECT_EQ(Find({{.tcp = false, .port = 53}}), std::nullopt);
}

}  // namespace
}  // namespace spillway::agent
