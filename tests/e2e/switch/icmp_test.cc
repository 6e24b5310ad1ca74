// SPDX-License-Identifier: Apache-2.0
// Packets that are no plain packets of a flow: path-MTU messages must find the flow's unit, fragments must
// not be guessed at.
//
//   far ──veth, MTU 1300 one way── client (a router here) ── switch ── units
//
// far offers an MSS that the narrow link cannot carry; only the client's "too big" messages, sent to the
// VIP, tell a unit so, and its large body arrives only if they reach it.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "bed.h"
#include "cases.h"
#include "flow_set.h"
#include "lab/testbed/netns.h"

namespace spillway::e2e {
namespace {

class NarrowPath : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("nginx", "curl", "sha256sum", "unshare", "nsenter");
    lab::TestbedSpec spec = TwoModes("mtu", GetParam(), {{model::Protocol::kTcp, 80}});
    spec.servers.push_back(
        ServerOf("s1", {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}, lab::Workload::kNginx));
    auto up = Bed::Up(spec);
    ASSERT_TRUE(up) << up.error().message;
    bed_ = std::move(*up);
    ASSERT_NO_FATAL_FAILURE(AddFar());
  }
  void TearDown() override { lab::Stop({far_}, std::chrono::milliseconds(0)); }

  // A namespace without a name: it goes with the process that holds it.
  void AddFar() {
    const std::string client = bed_->plan().client_netns, sw = bed_->plan().switch_netns;
    const auto far = bed_->StartIn(client, {"unshare", "--net", "sleep", "infinity"}, "far");
    ASSERT_TRUE(far) << far.error().message;
    far_ = *far;
    const std::string pid = std::to_string(far_.pid);
    ASSERT_TRUE(Eventually([&] { return ReadFile("/proc/" + pid + "/comm") == "sleep\n"; }));
    const bool v4 = GetParam() == 4;
    const std::string net = v4 ? "10.78.0." : "fd78::", bits = v4 ? "/24" : "/64";
    const std::string all = v4 ? "10.78.0.0/24" : "fd78::/64", family = v4 ? "-4" : "-6";
    const lab::Link& link = bed_->plan().links[0];
    const auto ip = [&](const std::string& netns, const std::string& words) {
      std::vector<std::string> argv{"ip"};
      std::istringstream in(words);
      for (std::string word; in >> word;) argv.push_back(word);
      const Ran ran = bed_->Run(argv, netns);
      ASSERT_EQ(ran.exit, 0) << words << ": " << ran.err;
    };
    const std::string nodad = v4 ? "" : " nodad";
    ip(client, "link add far mtu 1500 type veth peer name eth0 netns " + pid);
    ip(client, "addr add " + net + "1" + bits + " dev far" + nodad);
    ip(client, "link set far mtu " + std::to_string(kNarrow) + " up");
    ip(sw, family + " route add " + all + " via " + (v4 ? link.peer_v4 : link.peer_v6));
    EnterFar({"ip", "addr", "add", net + "2" + bits, "dev", "eth0", v4 ? "noprefixroute" : "nodad"});
    EnterFar({"ip", "link", "set", "eth0", "up"});
    EnterFar({"ip", family, "route", "replace", all, "dev", "eth0"});
    EnterFar({"ip", family, "route", "add", "default", "via", net + "1"});
    const Ran forward =
        bed_->Run({"sysctl", "-qw", v4 ? "net.ipv4.ip_forward=1" : "net.ipv6.conf.all.forwarding=1"}, client);
    ASSERT_EQ(forward.exit, 0) << forward.err;
  }
  Ran InFar(std::vector<std::string> argv) {
    argv.insert(argv.begin(), {"nsenter", "--net", "-t", std::to_string(far_.pid)});
    return bed_->Run(argv);
  }
  void EnterFar(const std::vector<std::string>& argv) {
    const Ran ran = InFar(argv);
    ASSERT_EQ(ran.exit, 0) << argv[1] << " " << argv[2] << ": " << ran.err;
  }

  // What the units learned of the path: without it, each transfer needs its message anew.
  void ForgetPaths() {
    for (const lab::UnitPlan& unit : bed_->plan().units)
      for (const char* family : {"-4", "-6"})
        ASSERT_EQ(bed_->Run({"ip", family, "route", "flush", "cache"}, unit.netns).exit, 0);
  }

  static constexpr int kNarrow = 1300;  // above IPv6's least

  std::unique_ptr<Bed> bed_;
  lab::ProcessId far_;
};

TEST_P(NarrowPath, LargeBodiesArriveBecauseTooBigMessagesReachTheUnit) {
  const std::string folder = bed_->plan().folder;
  const auto sum = [&](const std::string& path) { return bed_->Run({"sha256sum", path}).out.substr(0, 64); };
  for (const char* mode : {"nat", "dsr"})
    for (int i = 0; i < 6; i++) {
      ForgetPaths();
      const uint64_t before = bed_->Counter("icmp_forwarded");
      const Ran ran = InFar(
          {"curl", "-sS", "--fail", "--max-time", "15", "-o", folder + "/got", bed_->Url(mode, 80) + "/1m"});
      ASSERT_EQ(ran.exit, 0) << mode << ": " << ran.err << bed_->Cli({"stats"}).out;
      EXPECT_EQ(sum(folder + "/got"), sum(folder + "/www/1m"));
      EXPECT_GT(bed_->Counter("icmp_forwarded"), before);
    }
}

INSTANTIATE_TEST_SUITE_P(Ip, NarrowPath, testing::Values(4, 6), FamilyName);

class Fragments : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT();
    lab::TestbedSpec spec = TwoModes("frg", GetParam(), {{model::Protocol::kUdp, kEchoPort}});
    spec.servers.push_back(ServerOf("s1", {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}));
    auto up = Bed::Up(spec);
    ASSERT_TRUE(up) << up.error().message;
    bed_ = std::move(*up);
  }

  bool SendDatagram(const model::Address& to, size_t bytes) {
    return lab::Inside(bed_->plan().client_netns,
                       [&]() -> Result<void> {
                         sockaddr_in v4{};
                         sockaddr_in6 v6{};
                         v4.sin_family = AF_INET;
                         v6.sin6_family = AF_INET6;
                         v4.sin_port = v6.sin6_port = htons(kEchoPort);
                         memcpy(&v4.sin_addr, to.bytes.data(), 4);
                         memcpy(&v6.sin6_addr, to.bytes.data(), 16);
                         const bool is_v4 = to.family == 4;
                         const int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                         const std::string payload(bytes, 'x');
                         const auto* address =
                             is_v4 ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
                         const ssize_t sent =
                             sendto(fd, payload.data(), bytes, 0, address, is_v4 ? sizeof(v4) : sizeof(v6));
                         close(fd);
                         if (sent == static_cast<ssize_t>(bytes)) return {};
                         return Fail(ErrorCode::kSystem, strerror(errno));
                       })
        .has_value();
  }

  std::unique_ptr<Bed> bed_;
};

TEST_P(Fragments, OfADatagramToTheVipAreDroppedAndCounted) {
  for (const model::Service& service : bed_->config().services) {
    const uint64_t dropped = bed_->Counter("dropped_fragment");
    const uint64_t forwarded = bed_->Counter("packets_forwarded");
    ASSERT_TRUE(SendDatagram(service.vip, 4000));  // three packets of at most 1500 bytes
    EXPECT_TRUE(Eventually([&] { return bed_->Counter("dropped_fragment") == dropped + 3; }))
        << bed_->Cli({"stats", "--all"}).out;
    ASSERT_TRUE(SendDatagram(service.vip, 1000));
    EXPECT_TRUE(Eventually([&] { return bed_->Counter("packets_forwarded") > forwarded; }));
    EXPECT_EQ(bed_->Counter("packets_forwarded"), forwarded + 1) << "the whole one, and no fragment";
  }
}

INSTANTIATE_TEST_SUITE_P(Ip, Fragments, testing::Values(4, 6), FamilyName);

}  // namespace
}  // namespace spillway::e2e
