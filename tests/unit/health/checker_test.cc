// SPDX-License-Identifier: Apache-2.0
// The checker's thread against real sockets and processes of this machine.
#include "health/checker.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/http.h"
#include "health/dns_message.h"

namespace spillway::health {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAddress = "127.0.0.1";

// A socket of this machine with a port of its own.
class Socket {
 public:
  explicit Socket(int type) : fd_(socket(AF_INET, type | SOCK_CLOEXEC, 0)) { BindTo(0); }
  ~Socket() { Close(); }
  void BindTo(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, kAddress, &at.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0) << std::strerror(errno);
    socklen_t length = sizeof(at);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length);
    port_ = ntohs(at.sin_port);
  }
  void Listen() { EXPECT_EQ(listen(fd_, 64), 0); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int Release() { return std::exchange(fd_, -1); }
  int fd() const { return fd_; }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

// Answers each datagram with what `answer` makes of it; an empty one is not sent.
class UdpServer {
 public:
  explicit UdpServer(std::function<std::string(const std::string&)> answer)
      : answer_(std::move(answer)), thread_([this] { Serve(); }) {}
  ~UdpServer() {
    stop_ = true;
    thread_.join();
  }
  uint16_t port() const { return socket_.port(); }

 private:
  void Serve() {
    while (!stop_) {
      pollfd waiting{socket_.fd(), POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      char buffer[1500];
      sockaddr_storage from{};
      socklen_t length = sizeof(from);
      const ssize_t got =
          recvfrom(socket_.fd(), buffer, sizeof(buffer), 0, reinterpret_cast<sockaddr*>(&from), &length);
      if (got < 0) continue;
      const std::string answer = answer_(std::string(buffer, static_cast<size_t>(got)));
      if (!answer.empty())
        sendto(socket_.fd(), answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), length);
    }
  }

  Socket socket_{SOCK_DGRAM};
  const std::function<std::string(const std::string&)> answer_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

model::HealthCheck QuickCheck(model::CheckKind kind, uint16_t port) {
  model::HealthCheck check;
  check.kind = kind;
  check.port = port;
  check.interval_ms = 20;
  check.timeout_ms = 400;
  check.rise = check.fall = 2;
  check.dampening_ms = 0;
  return check;
}

class CheckerTest : public ::testing::Test {
 protected:
  // One service per check, each on a pool of its own with one unit.
  static model::Config ConfigOf(const std::vector<model::HealthCheck>& checks) {
    model::Config config;
    config.data_plane.interfaces = {"eth0"};
    for (size_t i = 0; i < checks.size(); i++) {
      const std::string name = "v" + std::to_string(i);
      model::Unit unit;
      unit.name = "cpu";
      unit.address = *model::Address::Parse(kAddress);
      config.pools.push_back({name, {{"s1", "", std::nullopt, std::nullopt, {unit}}}, 0});
      model::Service service;
      service.name = service.pool = name;
      service.health = checks[i];
      config.services.push_back(service);
    }
    return config;
  }
  void Check(const std::vector<model::HealthCheck>& checks) {
    auto started = Checker::Start(ConfigOf(checks), [this](const auto& changes, const auto& failing) {
      const std::lock_guard lock(mutex_);
      changes_.insert(changes_.end(), changes.begin(), changes.end());
      failing_ = failing;
      changed_.notify_all();
    });
    ASSERT_TRUE(started) << started.error().message;
    checker_ = std::move(*started);
  }
  CheckView View(size_t index = 0) const {
    const auto views = checker_->Views();
    return views.size() > index ? views[index] : CheckView{};
  }
  template <class Condition>
  bool Eventually(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::unique_lock lock(mutex_);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    return true;
  }
  bool Becomes(CheckState state, size_t index = 0) {
    return Eventually([&] { return View(index).state == state; });
  }
  // The outcome of a check as one that failed says it.
  std::string ReasonOf(const model::HealthCheck& check) {
    Check({check});
    EXPECT_TRUE(Becomes(CheckState::kFailing));
    return View().reason;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CheckChange> changes_;
  std::vector<FailingUnit> failing_;
  std::unique_ptr<Checker> checker_;
};

TEST_F(CheckerTest, TcpPassesWhereSomebodyListensAndFailsWhereNobodyDoes) {
  Socket listening(SOCK_STREAM), bound(SOCK_STREAM);
  listening.Listen();
  Check({QuickCheck(model::CheckKind::kTcp, listening.port()),
         QuickCheck(model::CheckKind::kTcp, bound.port())});
  EXPECT_TRUE(Becomes(CheckState::kUp, 0));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 1));
  EXPECT_EQ(View(1).reason, "connect: Connection refused");
  EXPECT_EQ(View(1).what, "tcp 127.0.0.1:" + std::to_string(bound.port()));
}

TEST_F(CheckerTest, AUnitThatComesBackIsUpAgainAndSaysHowLongItFailed) {
  Socket socket(SOCK_STREAM);
  Check({QuickCheck(model::CheckKind::kTcp, socket.port())});
  ASSERT_TRUE(Becomes(CheckState::kFailing));
  ASSERT_TRUE(Eventually([&] { return failing_.size() == 1; }));
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(failing_[0].unit, "cpu");
  }
  socket.Listen();
  ASSERT_TRUE(Becomes(CheckState::kUp));
  ASSERT_TRUE(Eventually([&] { return failing_.empty() && changes_.size() == 2; }));
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(changes_[0].state, CheckState::kFailing);
  EXPECT_THAT(changes_[0].reason, HasSubstr("Connection refused"));
  EXPECT_EQ(changes_[1].state, CheckState::kUp);
  EXPECT_GT(changes_[1].before_s, 0);
}

TEST_F(CheckerTest, UdpWantsTheAnswerThatIsExpected) {
  UdpServer echo([](const std::string& question) { return "pong " + question; });
  UdpServer silent([](const std::string&) { return std::string(); });
  Socket nobody(SOCK_DGRAM);
  const uint16_t closed = nobody.port();
  nobody.Close();
  auto good = QuickCheck(model::CheckKind::kUdp, echo.port());
  good.payload = std::string("\0ping", 5);
  good.expect = std::string("pong \0ping", 10);
  auto bad = good, unheard = good, refused = good;
  bad.expect = "other";
  unheard.port = silent.port();
  unheard.timeout_ms = 50;
  refused.port = closed;
  Check({good, bad, unheard, refused});
  EXPECT_TRUE(Becomes(CheckState::kUp, 0));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 1));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 2));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 3));
  EXPECT_EQ(View(1).reason, "an answer of 10 bytes without what was expected");
  EXPECT_EQ(View(2).reason, "no answer within 50 ms");
  EXPECT_EQ(View(3).reason, "nobody listens (ICMP port unreachable)");
}

// An answer that is always late: by the time it comes, the next question is out.
TEST_F(CheckerTest, AnAnswerThatComesTooLateIsNotTheNextChecks) {
  UdpServer late([held = std::string()](const std::string& question) mutable {
    // DNS: the answer to the question before.
    std::string answer = std::exchange(held, question);
    if (answer.size() > 2) answer[2] = static_cast<char>(answer[2] | 0x80);
    return answer;
  });
  auto dns = QuickCheck(model::CheckKind::kDns, late.port());
  dns.query = "example.org";
  dns.timeout_ms = 50;
  Check({dns});
  EXPECT_TRUE(Becomes(CheckState::kFailing));
  EXPECT_TRUE(Eventually([&] { return View().failed > 5; }));
  EXPECT_EQ(View().passed, 0u);
}

TEST_F(CheckerTest, DnsWantsTheRcodeThatIsExpected) {
  UdpServer refuses([](std::string message) {
    message[2] = static_cast<char>(0x80);
    message[3] = 5;
    return message;
  });
  auto check = QuickCheck(model::CheckKind::kDns, refuses.port());
  check.query = "example.org";
  auto wants_it = check;
  wants_it.rcode = "refused";
  Check({check, wants_it});
  EXPECT_TRUE(Becomes(CheckState::kFailing, 0));
  EXPECT_EQ(View(0).reason, "rcode refused, expected noerror");
  EXPECT_TRUE(Becomes(CheckState::kUp, 1));
  EXPECT_THAT(View(1).what, HasSubstr("example.org A"));
}

class HttpCheck : public CheckerTest {
 protected:
  void SetUp() override {
    Socket socket(SOCK_STREAM);
    socket.Listen();
    port_ = socket.port();
    auto server = api::HttpServer::Start(socket.Release(), [this](const api::Request& request) {
      const std::lock_guard lock(mutex_);
      path_ = request.path;
      return response_;
    });
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  void Answer(int status, const std::string& body) {
    const std::lock_guard lock(mutex_);
    response_ = {.status = status, .body = body};
  }

  api::Response response_{.body = "all is well"};
  std::string path_;
  uint16_t port_ = 0;
  std::unique_ptr<api::HttpServer> server_;
};

TEST_F(HttpCheck, StatusAndBodyDecide) {
  auto check = QuickCheck(model::CheckKind::kHttp, port_);
  check.path = "/healthz?deep=1";
  check.body = "well";
  Check({check});
  ASSERT_TRUE(Becomes(CheckState::kUp));
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(path_, "/healthz");
  }
  Answer(503, "all is well");
  ASSERT_TRUE(Becomes(CheckState::kFailing));
  EXPECT_EQ(View().reason, "status 503");
  Answer(200, "all is well");
  ASSERT_TRUE(Becomes(CheckState::kUp));
  Answer(200, "all is lost");
  ASSERT_TRUE(Becomes(CheckState::kFailing));
  EXPECT_EQ(View().reason, "status 200, but the body is without what was expected");
}

TEST_F(HttpCheck, OtherStatusesMayBeWanted) {
  Answer(404, "");
  auto check = QuickCheck(model::CheckKind::kHttp, port_);
  check.statuses = {{200, 200}, {400, 404}};
  Check({check});
  EXPECT_TRUE(Becomes(CheckState::kUp));
}

TEST_F(HttpCheck, ABodyWithoutEndIsReadNoFurtherThanNeeded) {
  Answer(200, std::string(8 << 20, 'x'));
  auto check = QuickCheck(model::CheckKind::kHttp, port_);
  auto wants_more = check;
  wants_more.body = "y";
  Check({check, wants_more});
  EXPECT_TRUE(Becomes(CheckState::kUp, 0));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 1));
  EXPECT_THAT(View(1).reason, HasSubstr("first 64 KiB"));
}

TEST_F(CheckerTest, AServerThatAcceptsAndHangsIsToldFromOneThatIsGone) {
  Socket hangs(SOCK_STREAM), gone(SOCK_STREAM);
  hangs.Listen();
  auto hung = QuickCheck(model::CheckKind::kHttp, hangs.port()), refused = hung, no_tls = hung;
  hung.timeout_ms = no_tls.timeout_ms = 100;
  refused.port = gone.port();
  no_tls.kind = model::CheckKind::kTls;
  Check({hung, refused, no_tls});
  EXPECT_TRUE(Becomes(CheckState::kFailing, 0));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 1));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 2));
  EXPECT_EQ(View(0).reason, "connected, but no whole answer within 100 ms");
  EXPECT_THAT(View(1).reason, HasSubstr("connect"));
  EXPECT_EQ(View(2).reason, "no TLS handshake within 100 ms");
}

class ExecCheck : public CheckerTest {
 protected:
  static model::HealthCheck Shell(const std::string& script) {
    auto check = QuickCheck(model::CheckKind::kExec, 53);
    check.command = {"/bin/sh", "-c", script};
    check.timeout_ms = 5000;
    return check;
  }
};

TEST_F(ExecCheck, TheExitStatusDecides) {
  auto wants_three = Shell("exit 3");
  wants_three.exit_status = 3;
  auto missing = Shell("");
  missing.command = {"/nonexistent/check"};
  Check({Shell("exit 0"), Shell("exit 3"), wants_three, Shell("kill -9 $$"), missing});
  EXPECT_TRUE(Becomes(CheckState::kUp, 0));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 1));
  EXPECT_TRUE(Becomes(CheckState::kUp, 2));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 3));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 4));
  EXPECT_EQ(View(1).reason, "exit status 3");
  EXPECT_EQ(View(3).reason, "the command ended by signal 9");
  EXPECT_EQ(View(4).reason, "/nonexistent/check: No such file or directory");
}

TEST_F(ExecCheck, TheCommandIsToldWhatItChecks) {
  Check(
      {Shell("test \"$SPILLWAY_SERVICE/$SPILLWAY_POOL/$SPILLWAY_SERVER/$SPILLWAY_UNIT\" = v0/v0/s1/cpu && "
             "test \"$SPILLWAY_ADDRESS:$SPILLWAY_PORT\" = 127.0.0.1:53")});
  EXPECT_TRUE(Becomes(CheckState::kUp));
}

TEST_F(ExecCheck, TheCommandInheritsNoDescriptorAndNoBlockedSignal) {
  Check(
      {Shell("test $(ls /proc/$$/fd | wc -l) -le 4 && grep -q 'SigBlk:.0000000000000000' /proc/$$/status")});
  EXPECT_TRUE(Becomes(CheckState::kUp));
}

TEST_F(ExecCheck, OneThatNeverEndsIsKilledWithAllThatItStarted) {
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / ("spillway-exec-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = folder / "group";
  auto check = Shell("echo $$ > " + file + ".new; mv " + file + ".new " + file + "; sleep 1000 & sleep 1000");
  check.timeout_ms = 300;
  check.interval_ms = 60'000;
  EXPECT_EQ(ReasonOf(check), "no end of the command within 300 ms");
  pid_t group = 0;
  EXPECT_TRUE(Eventually([&] { return bool(std::ifstream(file) >> group); }));
  EXPECT_TRUE(Eventually([&] { return kill(-group, 0) != 0 && errno == ESRCH; })) << "group " << group;
  std::filesystem::remove_all(folder);
}

TEST_F(CheckerTest, AReloadKeepsWhatIsKnownOfChecksThatDidNotChange) {
  Socket listening(SOCK_STREAM), bound(SOCK_STREAM);
  listening.Listen();
  auto up = QuickCheck(model::CheckKind::kTcp, listening.port());
  auto failing = QuickCheck(model::CheckKind::kTcp, bound.port());
  auto edited = failing;
  Check({up, failing, edited});
  for (const size_t index : {1u, 2u}) ASSERT_TRUE(Becomes(CheckState::kFailing, index));
  ASSERT_TRUE(Becomes(CheckState::kUp, 0));
  const uint64_t passed = View(0).passed, failed = View(1).failed;
  const double since = View(1).state_s;
  edited.interval_ms = 3'600'000;  // its first check comes within a second
  edited.port = listening.port();
  checker_->SetConfig(ConfigOf({up, failing, edited}));
  ASSERT_TRUE(Eventually([&] { return View(2).what != View(1).what; }));
  EXPECT_EQ(View(1).state, CheckState::kFailing);
  EXPECT_GE(View(1).state_s, since);
  EXPECT_GE(View(0).passed, passed);
  EXPECT_GE(View(1).failed, failed);
  EXPECT_EQ(View(2).failed, 0u) << "a changed check starts anew";
  EXPECT_TRUE(Becomes(CheckState::kUp, 2));
}

TEST_F(CheckerTest, ACheckThatIsRemovedSaysNothingMoreOfItsUnit) {
  Socket bound(SOCK_STREAM);
  Check({QuickCheck(model::CheckKind::kTcp, bound.port())});
  ASSERT_TRUE(Eventually([&] { return failing_.size() == 1; }));
  checker_->SetConfig(ConfigOf({}));
  EXPECT_TRUE(Eventually([&] { return failing_.empty() && checker_->Views().empty(); }));
}

TEST_F(CheckerTest, NothingIsLeftOpenWhenItEnds) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  Socket hangs(SOCK_STREAM);
  hangs.Listen();
  UdpServer silent([](const std::string&) { return std::string(); });
  const auto before = descriptors();
  auto dns = QuickCheck(model::CheckKind::kDns, silent.port());
  dns.query = ".";
  auto exec = QuickCheck(model::CheckKind::kExec, 1);
  exec.command = {"/bin/sleep", "1000"};
  Check({QuickCheck(model::CheckKind::kHttp, hangs.port()), dns, exec});
  EXPECT_TRUE(Becomes(CheckState::kFailing, 2));
  checker_.reset();
  EXPECT_EQ(descriptors(), before);
}

// More checks than descriptors: this machine's shortage is held against nobody.
TEST_F(CheckerTest, WithoutDescriptorsChecksAreSkippedNotFailed) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  Check({QuickCheck(model::CheckKind::kTcp, listening.port())});
  ASSERT_TRUE(Becomes(CheckState::kUp));
  std::vector<int> hoard;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) hoard.push_back(fd);
  const bool skipped = Eventually([&] { return View().skipped > 3; });
  for (const int fd : hoard) close(fd);
  EXPECT_TRUE(skipped);
  EXPECT_EQ(View().failed, 0u);
  EXPECT_EQ(View().state, CheckState::kUp);
}

}  // namespace
}  // namespace spillway::health
