// SPDX-License-Identifier: Apache-2.0
// The checker's thread against real sockets and processes of this machine.
#include <gmock/gmock.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "api/http.h"
#include "checker_fixture.h"

namespace spillway::health {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_EQ(View(1).reason, "an answer of 10 bytes that does not contain the expected text");
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
  EXPECT_EQ(View().reason, "status 200, but the body does not contain the expected text");
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
  check.timeout_ms = 20'000;
  auto wants_more = check;
  wants_more.body = "y";
  Check({check, wants_more});
  EXPECT_TRUE(Becomes(CheckState::kUp, 0));
  EXPECT_TRUE(Becomes(CheckState::kFailing, 1));
  EXPECT_THAT(View(1).reason, HasSubstr("first 64 KiB"));
}

// libcurl reports both as if this host were out of memory.
TEST_F(CheckerTest, AHeaderWithoutEndIsTheUnitsFault) {
  const std::string endless(300'000, 'x');
  for (const std::string& answer : {"HTTP/1.1 200 OK\r\nX: " + endless, "HTTP/1.1 200 " + endless}) {
    Socket listening(SOCK_STREAM);
    listening.Listen();
    std::atomic<bool> stop = false;
    std::thread server([&] {
      while (!stop) {
        pollfd waiting{listening.fd(), POLLIN, 0};
        if (poll(&waiting, 1, 20) <= 0) continue;
        const int fd = accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC);
        char request[1000];
        (void)!recv(fd, request, sizeof(request), 0);
        (void)!send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
        close(fd);
      }
    });
    Check({QuickCheck(model::CheckKind::kHttp, listening.port())});
    EXPECT_TRUE(Becomes(CheckState::kFailing)) << View().skip_reason;
    EXPECT_EQ(View().skipped, 0u) << View().skip_reason;
    checker_.reset();
    stop = true;
    server.join();
  }
}

// The units may be many, and their bodies are read every interval.
TEST_F(HttpCheck, NothingIsKeptOfABodyOnceItWasJudged) {
  Answer(200, std::string(60'000, 'x'));
  auto check = QuickCheck(model::CheckKind::kHttp, port_);
  check.interval_ms = 3'600'000;
  check.timeout_ms = 20'000;
  check.body = "y";
  const std::vector<model::HealthCheck> checks(200, check);
  Check({});
  const size_t before = mallinfo2().uordblks;
  checker_->SetConfig(ConfigOf(checks));
  ASSERT_TRUE(Eventually([&] {
    const auto views = checker_->Views();
    return views.size() == checks.size() &&
           std::all_of(views.begin(), views.end(), [](const CheckView& view) { return view.failed == 1; });
  }));
  EXPECT_LT(mallinfo2().uordblks, before + checks.size() * 20'000);
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
  EXPECT_TRUE(Eventually([&] { return View(4).skipped > 1; }));
  EXPECT_EQ(View(1).reason, "exit status 3");
  EXPECT_EQ(View(3).reason, "the command was killed by signal 9");
  EXPECT_EQ(View(4).state, CheckState::kUnknown) << "what is missing here says nothing of the unit";
  EXPECT_EQ(View(4).skip_reason, "/nonexistent/check: No such file or directory");
}

// As where the parent ignores it.
TEST_F(ExecCheck, WhereEndsAreLostToAnIgnoredSignalItIsSkipped) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  Check({Shell("sleep 0.1")});  // long enough to be watched
  EXPECT_TRUE(Eventually([&] { return View(0).skipped > 1; }));
  EXPECT_EQ(View(0).state, CheckState::kUnknown) << View(0).reason;
  EXPECT_EQ(View(0).skip_reason, "waitid: the command's exit status was lost");
  signal(SIGCHLD, before);
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
  EXPECT_EQ(ReasonOf(check), "command did not finish within 300 ms");
  pid_t group = 0;
  EXPECT_TRUE(Eventually([&] { return bool(std::ifstream(file) >> group); }));
  EXPECT_TRUE(Eventually([&] { return kill(-group, 0) != 0 && errno == ESRCH; })) << "group " << group;
  std::filesystem::remove_all(folder);
}

TEST_F(ExecCheck, OneThatEndsHasEndedWhateverItLeavesBehindAndThatIsKilled) {
  const auto file =
      std::filesystem::path(::testing::TempDir()) / ("spillway-left-" + std::to_string(getpid()));
  auto check = Shell("sleep 1000 & echo $! > " + file.string() + ".new; mv " + file.string() + ".new " +
                     file.string());
  check.interval_ms = 60'000;
  Check({check});
  EXPECT_TRUE(Becomes(CheckState::kUp));
  pid_t left = 0;
  ASSERT_TRUE(bool(std::ifstream(file) >> left));
  EXPECT_TRUE(Eventually([&] { return kill(left, 0) != 0 && errno == ESRCH; })) << left;
  std::filesystem::remove(file);
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

TEST_F(CheckerTest, AChangeOfAFailingUnitsCheckDoesNotPutItBackBeforeAResult) {
  UdpServer silent([](const std::string&) { return std::string(); });
  auto check = QuickCheck(model::CheckKind::kUdp, silent.port());
  Check({check});
  ASSERT_TRUE(Becomes(CheckState::kFailing));
  const CheckView before = View();
  check.timeout_ms = 60'000;  // no result comes any more
  check.interval_ms = 3'600'000;
  check.rise++;
  checker_->SetConfig(ConfigOf({check, check}));
  ASSERT_TRUE(Eventually([&] { return checker_->Views().size() == 2; }));
  EXPECT_EQ(View().state, CheckState::kFailing);
  EXPECT_EQ(View().reason, before.reason);
  EXPECT_GE(View().failed, before.failed);

  check.payload = "something else";
  checker_->SetConfig(ConfigOf({check, check}));
  ASSERT_TRUE(Eventually([&] { return View().failed == 0; }));
  EXPECT_EQ(View().state, CheckState::kFailing);
}

TEST_F(CheckerTest, ReloadsFasterThanTheTimeOutDoNotKeepAHungUnitIn) {
  UdpServer silent([](const std::string&) { return std::string(); });
  auto check = QuickCheck(model::CheckKind::kUdp, silent.port());
  check.timeout_ms = 200;
  Check({check});
  EXPECT_TRUE(Eventually([&] {
    checker_->SetConfig(ConfigOf({check}));
    return View().state == CheckState::kFailing;
  }));
}

TEST_F(CheckerTest, ChecksGoOnWhenOthersBesideThemAreRemovedAndMoved) {
  Socket listening(SOCK_STREAM), bound(SOCK_STREAM);
  listening.Listen();
  UdpServer silent([](const std::string&) { return std::string(); });
  auto hung = QuickCheck(model::CheckKind::kUdp, silent.port());
  hung.timeout_ms = 20'000;
  const auto tcp = [](const Socket& to) { return QuickCheck(model::CheckKind::kTcp, to.port()); };
  model::Config config = ConfigOf({hung, tcp(listening), tcp(bound)});
  Check({});
  checker_->SetConfig(config);
  ASSERT_TRUE(Becomes(CheckState::kUp, 1));
  ASSERT_TRUE(Becomes(CheckState::kFailing, 2));
  config.services.erase(config.services.begin());
  std::swap(config.services[0], config.services[1]);
  checker_->SetConfig(config);
  ASSERT_TRUE(Eventually([&] { return checker_->Views().size() == 2; }));
  const CheckView failing = View(0), up = View(1);
  EXPECT_EQ(failing.service, "v2");
  EXPECT_EQ(up.service, "v1");
  EXPECT_TRUE(Eventually([&] { return View(0).failed > failing.failed && View(1).passed > up.passed; }));
  EXPECT_EQ(View(0).passed, 0u);
  EXPECT_EQ(View(1).failed, 0u);
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

}  // namespace
}  // namespace spillway::health
