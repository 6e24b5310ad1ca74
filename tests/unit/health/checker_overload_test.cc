// SPDX-License-Identifier: Apache-2.0
// The checker where a unit sends far too much, and where this machine is slow or has too little of something.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>

#include "checker_fixture.h"

namespace {

// What the next such system calls fail with; 0: they do their work.
std::atomic<int> connect_error = 0, epoll_add_error = 0;

}  // namespace

// In the place of libc's, for libcurl as well.
extern "C" int connect(int fd, const sockaddr* address, socklen_t length) {
  if (connect_error == 0) return static_cast<int>(syscall(SYS_connect, fd, address, length));
  errno = connect_error;
  return -1;
}
extern "C" int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  if (operation != EPOLL_CTL_ADD || epoll_add_error == 0)
    return static_cast<int>(syscall(SYS_epoll_ctl, epoll, operation, fd, event));
  errno = epoll_add_error;
  return -1;
}

namespace spillway::health {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

struct Question {
  std::string text;
  sockaddr_in from{};
};

class OverloadTest : public CheckerTest {
 protected:
  void TearDown() override {
    connect_error = epoll_add_error = 0;
    CheckerTest::TearDown();
  }
  std::optional<Question> Receive(const Socket& socket) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    if (poll(&waiting, 1, 20'000) != 1) return std::nullopt;
    Question question;
    char buffer[1500];
    socklen_t length = sizeof(question.from);
    const ssize_t got = recvfrom(socket.fd(), buffer, sizeof(buffer), 0,
                                 reinterpret_cast<sockaddr*>(&question.from), &length);
    question.text.assign(buffer, got < 0 ? 0 : static_cast<size_t>(got));
    return question;
  }
  void Send(const Socket& socket, const Question& to, const std::string& text, int times = 1) {
    for (int i = 0; i < times; i++)
      sendto(socket.fd(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&to.from),
             sizeof(to.from));
  }
  // The checker's thread stands still once this returns, in the report that the unit at `failing` is up.
  void Stall(Socket& failing) {
    HoldReports(true);
    failing.Listen();
    ASSERT_TRUE(Eventually([&] { return held_; }));
  }
};

TEST_F(OverloadTest, AUnitThatFloodsInsteadOfAnsweringFails) {
  Socket floods(SOCK_DGRAM);
  auto dns = QuickCheck(model::CheckKind::kDns, floods.port());
  dns.query = "example.org";
  Check({dns});
  const auto question = Receive(floods);
  ASSERT_TRUE(question);
  Send(floods, *question, "stray", 100);
  ASSERT_TRUE(Becomes(CheckState::kFailing));
  EXPECT_THAT(View().reason, HasSubstr("flooded"));
}

// Else it costs the checker's thread whatever the unit likes, and all other checks their time.
TEST_F(OverloadTest, AFloodAfterAGoodAnswerIsReadNoFurther) {
  Socket floods(SOCK_DGRAM);
  Check({QuickCheck(model::CheckKind::kUdp, floods.port())});
  const auto first = Receive(floods);
  ASSERT_TRUE(first);
  bool fresh = false;
  auto question = first;
  for (int i = 0; i < 20 && !fresh; i++) {
    Send(floods, *question, "pong", 100);
    question = Receive(floods);
    ASSERT_TRUE(question);
    fresh = question->from.sin_port != first->from.sin_port;
  }
  EXPECT_TRUE(fresh) << "the flooded socket is still read";
  EXPECT_EQ(View().state, CheckState::kUp);
}

// As on storage that hangs: here a lease on the program's file, which exec waits for.
TEST_F(OverloadTest, ViewsAreThereWhileACommandCannotBeStarted) {
  signal(SIGIO, SIG_IGN);  // says that somebody waits for the lease
  const std::string file = ::testing::TempDir() + "/spillway-leased-" + std::to_string(getpid());
  std::ofstream(file) << "#!/bin/sh\n";
  chmod(file.c_str(), 0755);
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no file leases here: " << std::strerror(errno);
  auto check = QuickCheck(model::CheckKind::kExec, 1);
  check.command = {file};
  check.timeout_ms = 20'000;
  Check({check});
  EXPECT_TRUE(Eventually([&] { return fcntl(fd, F_GETLEASE) != F_WRLCK; })) << "exec does not wait";
  auto views = std::async(std::launch::async, [&] { return checker_->Views(); });
  const bool came = views.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  close(fd);
  EXPECT_TRUE(came);
  EXPECT_TRUE(Becomes(CheckState::kUp));
  std::filesystem::remove(file);
}

TEST_F(OverloadTest, AnswersThatCameDuringAStallCount) {
  Socket server(SOCK_DGRAM), trigger(SOCK_STREAM);
  auto udp = QuickCheck(model::CheckKind::kUdp, server.port());
  udp.interval_ms = 100;  // all begin within that time
  udp.timeout_ms = 2000;
  udp.fall = 100;  // the first result decides for long
  auto tcp = QuickCheck(model::CheckKind::kTcp, trigger.port());
  tcp.rise = 1;
  std::vector<model::HealthCheck> checks(700, udp);  // more than events are fetched at once
  checks.push_back(tcp);
  Check(checks);
  std::vector<Question> questions;
  while (questions.size() + 1 < checks.size()) {
    const auto question = Receive(server);
    ASSERT_TRUE(question);
    questions.push_back(*question);
  }
  const auto deadline = steady_clock::now() + milliseconds(udp.timeout_ms);
  Stall(trigger);
  for (const Question& question : questions) Send(server, question, "pong");
  std::this_thread::sleep_until(deadline);  // the stall outlasts every check
  HoldReports(false);
  size_t up = 0;
  ASSERT_TRUE(Eventually([&] {
    const auto views = checker_->Views();
    const auto count = [&](CheckState state) {
      return std::count_if(views.begin(), views.end(), [=](const CheckView& v) { return v.state == state; });
    };
    up = static_cast<size_t>(count(CheckState::kUp));
    return count(CheckState::kUnknown) == 0;
  }));
  EXPECT_EQ(up, checks.size());
}

TEST_F(OverloadTest, AStallIsNotHeldAgainstTheUnitsThatWereAsked) {
  Socket silent(SOCK_DGRAM), trigger(SOCK_STREAM);
  auto udp = QuickCheck(model::CheckKind::kUdp, silent.port());
  udp.timeout_ms = 500;
  auto tcp = QuickCheck(model::CheckKind::kTcp, trigger.port());
  tcp.rise = 1;
  Check({udp, tcp});
  ASSERT_TRUE(Receive(silent));
  Stall(trigger);
  std::this_thread::sleep_for(milliseconds(udp.timeout_ms + 100));  // the stall
  HoldReports(false);
  CheckView first;
  ASSERT_TRUE(Eventually([&] {
    first = View();
    return first.skipped + first.failed > 0;
  }));
  EXPECT_EQ(first.skipped, 1u);
  EXPECT_EQ(first.failed, 0u);
  EXPECT_TRUE(Becomes(CheckState::kFailing)) << "without a stall it fails";
}

// More checks than descriptors: this machine's shortage is held against nobody.
TEST_F(OverloadTest, WithoutDescriptorsChecksAreSkippedNotFailed) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  Check({});
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  checker_->SetConfig(ConfigOf({QuickCheck(model::CheckKind::kTcp, listening.port()),
                                QuickCheck(model::CheckKind::kHttp, listening.port()),
                                QuickCheck(model::CheckKind::kUdp, listening.port())}));
  for (const size_t index : {0u, 1u, 2u}) {
    EXPECT_TRUE(Eventually([&] { return View(index).skipped + View(index).failed > 3; }));
    EXPECT_EQ(View(index).failed, 0u) << View(index).reason;
  }
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(OverloadTest, WithoutLocalPortsChecksAreSkippedNotFailed) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  connect_error = EADDRNOTAVAIL;
  Check({QuickCheck(model::CheckKind::kTcp, listening.port()),
         QuickCheck(model::CheckKind::kHttp, listening.port()),
         QuickCheck(model::CheckKind::kTls, listening.port())});
  for (const size_t index : {0u, 1u, 2u}) {
    EXPECT_TRUE(Eventually([&] { return View(index).skipped + View(index).failed > 3; }));
    EXPECT_EQ(View(index).failed, 0u) << View(index).reason;
  }
}

TEST_F(OverloadTest, ASocketThatCannotBeWatchedEndsOneCheckNotAll) {
  Socket hangs(SOCK_STREAM), listening(SOCK_STREAM);
  hangs.Listen();
  listening.Listen();
  auto hung = QuickCheck(model::CheckKind::kHttp, hangs.port());
  hung.timeout_ms = 1500;
  Check({hung});
  pollfd accepts{hangs.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&accepts, 1, 20'000), 1);  // its check waits for an answer
  epoll_add_error = ENOSPC;
  checker_->SetConfig(ConfigOf({hung, QuickCheck(model::CheckKind::kHttp, listening.port())}));
  EXPECT_TRUE(Eventually([&] { return View(1).skipped + View(1).failed > 3; }));
  EXPECT_EQ(View(1).failed, 0u) << View(1).reason;
  epoll_add_error = 0;
  EXPECT_TRUE(Becomes(CheckState::kFailing, 0));
  EXPECT_EQ(View(0).reason, "connected, but no whole answer within 1500 ms");
}

}  // namespace
}  // namespace spillway::health
