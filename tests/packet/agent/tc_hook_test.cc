// SPDX-License-Identifier: Apache-2.0
// The meter attached: to the loopback interface of a network namespace of the test's own.
#include "agent/meters/tc_hook.h"

#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "agent/agent.h"
#include "agent/meters/bpf_meter.h"
#include "agent/meters/latency_meter.h"
#include "base/fd.h"
#include "packet.h"

namespace spillway::agent {
namespace {

using ::testing::HasSubstr;

constexpr spw_seed kSeed = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 11};

Time Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

class LoopbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs root: makes a network namespace";
    ifreq request{};
    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_LOOPBACK;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ASSERT_EQ(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    close(fd);
    config_.interface = "lo";
    config_.services = {{false, 5300}, {true, 5300}};
    config_.trigger.threshold = 1e9;
    ifindex_ = static_cast<int>(if_nametoindex("lo"));
  }
  // Whether clsact is there: it takes no second one.
  bool HasClsact() const {
    bpf_tc_hook hook{};
    hook.sz = sizeof(hook);
    hook.ifindex = ifindex_;
    hook.attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS);
    libbpf_set_print(nullptr);
    const int error = bpf_tc_hook_create(&hook);
    if (error == 0) bpf_tc_hook_destroy(&hook);
    return error == -EEXIST;
  }
  // An agent that is killed: attaches, and ends without a destructor.
  void KilledAgent() {
    const pid_t child = fork();
    if (child == 0) {
      auto meter = OpenBpfMeter(config_, ifindex_);
      _exit(meter ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  AgentConfig config_;
  int ifindex_ = 0;
};

// To the unit's service, on the wire that the interface is an end of.
void SendRequestBy(const char* interface) {
  const auto frame =
      test::Packet().To({2, 0, 0, 0, 0, 1}).Ip4("10.0.0.2", "10.0.0.1").Udp(9999, 5300).Payload(20).Build();
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(if_nametoindex(interface));
  const base::Fd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  EXPECT_EQ(
      sendto(fd.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
      static_cast<ssize_t>(frame.size()));
}

TEST_F(LoopbackTest, LeavesNothingBehind) {
  {
    auto meter = OpenBpfMeter(config_, ifindex_);
    ASSERT_TRUE(meter) << meter.error().message;
    EXPECT_TRUE(*HasTcFilters(ifindex_));
  }
  EXPECT_FALSE(HasClsact());
}

TEST_F(LoopbackTest, AnInterfaceThatIsMadeAnewIsMeteredAgainAndReportedByNobodyMeanwhile) {
  ASSERT_EQ(system("ip link add v0 type veth peer name v1 && ip link set v0 up"), 0);
  config_.interface = "v0";
  auto agent = Agent::Start(config_);
  ASSERT_TRUE(agent) << agent.error().message;
  ASSERT_EQ(system("ip link del v0"), 0);
  ASSERT_TRUE((*agent)->Once());
  EXPECT_TRUE((*agent)->meter_failed());
  ASSERT_EQ(system("ip link add v0 type veth peer name v1 && ip link set v0 up"), 0);
  {
    const auto other = OpenBpfMeter(config_, static_cast<int>(if_nametoindex("v0")));
    ASSERT_TRUE(other) << other.error().message;
    ASSERT_TRUE((*agent)->Once());
    EXPECT_TRUE((*agent)->meter_failed()) << "another agent holds it";
  }
  ASSERT_TRUE((*agent)->Once());
  EXPECT_FALSE((*agent)->meter_failed());
  EXPECT_TRUE(*HasTcFilters(static_cast<int>(if_nametoindex("v0"))));
}

// It keeps its index where it goes to another namespace and back, and comes without what was attached to it.
TEST_F(LoopbackTest, AnInterfaceThatComesBackUnderItsIndexIsMeteredAgain) {
  config_.interface = "v0";
  const char* const make =
      "ip link add v0 index 4077 address 02:00:00:00:00:01 type veth peer name v1 && ip link set v0 up && "
      "ip link set v1 up";
  for (const MeterSource source : {MeterSource::kBpf, MeterSource::kAfPacket}) {
    ASSERT_EQ(system(make), 0);
    config_.meter.source = source;
    auto agent = Agent::Start(config_);
    ASSERT_TRUE(agent) << agent.error().message;
    ASSERT_EQ(system("ip link del v0"), 0);
    ASSERT_EQ(system(make), 0);
    const auto arrivals = [&] {
      const auto stats = (*agent)->Once();
      EXPECT_TRUE(stats) << stats.error().message;
      return nlohmann::json::parse(*stats)["arrivals"].get<uint64_t>();
    };
    EXPECT_EQ(arrivals(), 0u);
    SendRequestBy("v1");
    EXPECT_EQ(arrivals(), 1u) << (source == MeterSource::kBpf ? "bpf" : "af_packet");
    agent->reset();
    ASSERT_EQ(system("ip link del v0"), 0);
  }
}

TEST_F(LoopbackTest, FiltersThatSomebodyDeletedAreAttachedAgain) {
  auto meter = OpenBpfMeter(config_, ifindex_);
  ASSERT_TRUE(meter) << meter.error().message;
  EXPECT_FALSE(*(*meter)->KeepAttached());
  ASSERT_EQ(system("tc qdisc del dev lo clsact"), 0);
  EXPECT_TRUE(*(*meter)->KeepAttached());
  EXPECT_TRUE(*HasTcFilters(ifindex_));
  EXPECT_FALSE(*(*meter)->KeepAttached());
}

TEST_F(LoopbackTest, ReplacesAndRemovesWhatAKilledAgentLeft) {
  KilledAgent();
  ASSERT_TRUE(*HasTcFilters(ifindex_));
  {
    auto meter = OpenBpfMeter(config_, ifindex_);
    ASSERT_TRUE(meter) << meter.error().message;
  }
  EXPECT_FALSE(HasClsact());
}

// Containers of a pod: one network, a file system each, which may be read-only.
TEST_F(LoopbackTest, HoldsTheInterfaceAgainstAgentsOfOtherFileSystems) {
  const auto in_container = [&] {
    const pid_t child = fork();
    if (child == 0) {
      if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          mount("none", "/run", "tmpfs", MS_RDONLY, nullptr) != 0)
        _exit(3);
      const auto meter = OpenBpfMeter(config_, ifindex_);
      _exit(meter ? 0 : meter.error().code == ErrorCode::kConflict ? 1 : 2);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  {
    const auto meter = OpenBpfMeter(config_, ifindex_);
    ASSERT_TRUE(meter) << meter.error().message;
    EXPECT_EQ(in_container(), 1) << "refused";
  }
  EXPECT_EQ(in_container(), 0) << "the last one let go of it";
}

// Until the kernel has closed what a killed agent held, and not a moment longer.
TEST_F(LoopbackTest, AKilledAgentHoldsNothing) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto meter = OpenBpfMeter(config_, ifindex_);
    (void)!write(ready[1], meter ? "y" : "n", 1);
    pause();
  }
  char is_held = 0;
  ASSERT_EQ(read(ready[0], &is_held, 1), 1);
  ASSERT_EQ(is_held, 'y');
  EXPECT_FALSE(OpenBpfMeter(config_, ifindex_));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(OpenBpfMeter(config_, ifindex_));
  for (int fd : ready) close(fd);
}

// Whoever may open a socket in the namespace could once keep the agent out of it by a name.
TEST_F(LoopbackTest, NoOtherUserCanHoldTheInterface) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(65534, 65534, 65534) != 0 ||
        setresuid(65534, 65534, 65534) != 0)
      _exit(2);
    _exit(InterfaceLock::Take("lo", ifindex_) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const int squatter = socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  constexpr char kName[] = "spillway-agent/lo";
  memcpy(address.sun_path + 1, kName, sizeof(kName) - 1);
  ASSERT_EQ(bind(squatter, reinterpret_cast<sockaddr*>(&address),
                 offsetof(sockaddr_un, sun_path) + 1 + sizeof(kName) - 1),
            0);
  const auto meter = OpenBpfMeter(config_, ifindex_);
  EXPECT_TRUE(meter) << meter.error().message;
  close(squatter);
}

TEST_F(LoopbackTest, EachInterfaceIsHeldByItselfAlsoWhileItIsDown) {
  const auto held = InterfaceLock::Take("lo", ifindex_), other = InterfaceLock::Take("eth0", ifindex_ + 1);
  EXPECT_TRUE(held) << held.error().message;
  EXPECT_TRUE(other) << other.error().message;
  EXPECT_EQ(InterfaceLock::Take("lo", ifindex_).error().code, ErrorCode::kConflict);
}

TEST_F(LoopbackTest, LeavesOthersFiltersAlone) {
  auto program = BpfProgram::Load(config_, kSeed);
  ASSERT_TRUE(program);
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = ifindex_;
  hook.attach_point = BPF_TC_EGRESS;
  bpf_tc_opts options{};
  options.sz = sizeof(options);
  options.prog_fd = (*program)->egress_fd();
  options.priority = 7;
  options.handle = 1;
  {
    auto meter = OpenBpfMeter(config_, ifindex_);  // brings clsact, and then no longer owns it alone
    ASSERT_TRUE(meter);
    ASSERT_EQ(bpf_tc_attach(&hook, &options), 0);
  }
  EXPECT_TRUE(*HasTcFilters(ifindex_));
  options.prog_fd = options.prog_id = options.flags = 0;
  EXPECT_EQ(bpf_tc_detach(&hook, &options), 0);
  EXPECT_FALSE(*HasTcFilters(ifindex_));
}

TEST_F(LoopbackTest, SecondAgentOnTheInterfaceIsRefused) {
  auto first = OpenBpfMeter(config_, ifindex_);
  ASSERT_TRUE(first);
  auto second = OpenLatencyMeter(config_);  // `auto` does not slip past to AF_PACKET
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr("interface lo: another agent"));
}

TEST_F(LoopbackTest, MissingInterfaceIsNamed) {
  config_.interface = "nope0";
  const auto meter = OpenLatencyMeter(config_);
  ASSERT_FALSE(meter);
  EXPECT_THAT(meter.error().message, HasSubstr("nope0"));
}

class LiveTest : public LoopbackTest, public ::testing::WithParamInterface<MeterSource> {
 protected:
  static int Socket(int type, bool service) {
    const int fd = socket(AF_INET, type, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const sockaddr_in address = Service();
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(service ? bind(fd, to, sizeof(address)) : connect(fd, to, sizeof(address)), 0)
        << strerror(errno);
    return fd;
  }
  static sockaddr_in Service() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(5300);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
};

INSTANTIATE_TEST_SUITE_P(Sources, LiveTest, ::testing::Values(MeterSource::kBpf, MeterSource::kAfPacket),
                         [](const auto& source) {
                           return source.param == MeterSource::kBpf ? "bpf" : "af_packet";
                         });

TEST_P(LiveTest, SeesRealRequestsOverUdpAndTcp) {
  config_.meter.source = GetParam();
  auto meter = OpenLatencyMeter(config_);
  ASSERT_TRUE(meter) << meter.error().message;
  ASSERT_TRUE((*meter)->Read(Now()));

  const int server = Socket(SOCK_DGRAM, true), client = Socket(SOCK_DGRAM, false);
  char data[100] = "x";
  sockaddr_in from{};
  socklen_t length = sizeof(from);
  for (int i = 0; i < 10; i++) {
    ASSERT_EQ(send(client, data, 50, 0), 50);
    ASSERT_EQ(recvfrom(server, data, sizeof(data), 0, reinterpret_cast<sockaddr*>(&from), &length), 50);
    ASSERT_EQ(sendto(server, data, 60, 0, reinterpret_cast<sockaddr*>(&from), length), 60);
    ASSERT_EQ(recv(client, data, sizeof(data), 0), 60);
  }
  ASSERT_EQ(send(client, data, 50, 0), 50);  // and one that is never answered

  const int listener = Socket(SOCK_STREAM, true);
  ASSERT_EQ(listen(listener, 1), 0);
  const int caller = Socket(SOCK_STREAM, false), called = accept(listener, nullptr, nullptr);
  std::vector<char> body(500'000);
  ASSERT_EQ(send(caller, data, 100, 0), 100);
  ASSERT_EQ(recv(called, data, 100, MSG_WAITALL), 100);
  ASSERT_EQ(send(called, body.data(), 100'000, 0), 100'000);
  ASSERT_EQ(recv(caller, body.data(), 100'000, MSG_WAITALL), 100'000);

  const auto reading = (*meter)->Read(Now());
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->arrivals, 12u);
  EXPECT_EQ(reading->completed, 11u);
  EXPECT_EQ(reading->timed, 11u);
  EXPECT_EQ(reading->queue, 1u);
  EXPECT_TRUE(reading->measure);
  EXPECT_EQ((*meter)->totals().counts.connections, 1u);
  EXPECT_EQ((*meter)->totals().counts.malformed, 0u);
  EXPECT_EQ((*meter)->packets_lost(), 0u);
  for (int fd : {server, client, listener, caller, called}) close(fd);
}

// As servers send them: the payload is not in one piece with the headers.
TEST_P(LiveTest, CountsRealErrorsOverTcp) {
  config_.meter.source = GetParam();
  auto meter = OpenLatencyMeter(config_);
  ASSERT_TRUE(meter) << meter.error().message;
  ASSERT_TRUE((*meter)->Read(Now()));
  const int listener = Socket(SOCK_STREAM, true);
  ASSERT_EQ(listen(listener, 1), 0);
  const int caller = Socket(SOCK_STREAM, false), called = accept(listener, nullptr, nullptr);
  char data[1000];
  uint64_t errors = 0;
  for (const std::string status : {"200 OK", "503 Service Unavailable", "404 Not Found", "500 Oops"}) {
    ASSERT_EQ(send(caller, "GET", 3, 0), 3);
    ASSERT_EQ(recv(called, data, 3, MSG_WAITALL), 3);
    std::string answer = "HTTP/1.1 " + status + "\r\n\r\n";
    answer.resize(sizeof(data), 'x');
    ASSERT_EQ(send(called, answer.data(), answer.size(), 0), 1000);
    ASSERT_EQ(recv(caller, data, sizeof(data), MSG_WAITALL), 1000);
    errors += status[0] == '5';
    EXPECT_EQ((*meter)->Read(Now())->errors, errors) << status;
  }
  EXPECT_EQ((*meter)->Read(Now())->completed, 4u);
  for (int fd : {listener, caller, called}) close(fd);
}

TEST_P(LiveTest, NoticeWakesTheAgentAtTheFirstSlowAnswer) {
  config_.meter.source = GetParam();
  config_.trigger.threshold = 2000;  // ns: any answer is slow
  auto meter = OpenLatencyMeter(config_);
  ASSERT_TRUE(meter) << meter.error().message;
  ASSERT_TRUE((*meter)->Read(Now()));
  (*meter)->Watch(false, false);
  const int server = Socket(SOCK_DGRAM, true), client = Socket(SOCK_DGRAM, false);
  char data[16] = "x";
  sockaddr_in from{};
  socklen_t length = sizeof(from);
  // The kernel begins to stamp packets a moment after a socket asks for it; until then AF_PACKET sees
  // requests and answers of one batch at one time.
  Notice notice = Notice::kNone;
  for (int i = 0; i < 10'000 && notice == Notice::kNone; i++) {
    ASSERT_EQ(send(client, data, 10, 0), 10);
    ASSERT_EQ(recvfrom(server, data, sizeof(data), 0, reinterpret_cast<sockaddr*>(&from), &length), 10);
    const Time begun = Now();
    while (Now() - begun < std::chrono::microseconds(10)) {
    }
    ASSERT_EQ(sendto(server, data, 10, 0, reinterpret_cast<sockaddr*>(&from), length), 10);
    notice = (*meter)->Drain();
  }
  EXPECT_EQ(notice, Notice::kLook);
  EXPECT_TRUE((*meter)->Read(Now())->exceeded);
  close(server);
  close(client);
}

}  // namespace
}  // namespace spillway::agent
