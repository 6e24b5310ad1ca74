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
std::atomic<int> epoll_adds = 0, epoll_waits = 0;

}  // namespace

// In the place of libc's, for libcurl as well.
extern "C" int connect(int fd, const sockaddr* address, socklen_t length) {
  if (connect_error == 0) return static_cast<int>(syscall(SYS_connect, fd, address, length));
  errno = connect_error;
  return -1;
}
extern "C" int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
  epoll_waits++;
  return static_cast<int>(syscall(SYS_epoll_wait, epoll, events, most, timeout_ms));
}
extern "C" int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  epoll_adds += operation == EPOLL_CTL_ADD;
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
  // The checker's thread stands still once this returns: in the report that the unit at `failing` is up, or
  // in one that was on its way.
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

// Each way of the thread from its sleep and back costs more than a check.
TEST_F(OverloadTest, ChecksThatAreDueAtAboutTheSameTimeShareOneAwakening) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  auto tcp = QuickCheck(model::CheckKind::kTcp, listening.port());
  tcp.interval_ms = 500;
  tcp.timeout_ms = 2000;
  Check(std::vector<model::HealthCheck>(1000, tcp));
  const auto passed = [&] {
    uint64_t sum = 0;
    for (const CheckView& view : checker_->Views()) sum += view.passed;
    return sum;
  };
  // Seldom, as a look at so many views is work.
  const auto reaches = [&](uint64_t sum) {
    for (int i = 0; i < 300 && passed() < sum; i++) std::this_thread::sleep_for(milliseconds(100));
    return passed() >= sum;
  };
  ASSERT_TRUE(reaches(1000));
  const uint64_t passed_before = passed();
  const int waits_before = epoll_waits;
  ASSERT_TRUE(reaches(passed_before + 1000));
  EXPECT_LT(epoll_waits - waits_before, 500);
}

TEST_F(OverloadTest, AnAnswerThatIsThereAtTheFirstLookIsNotWaitedFor) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  UdpServer answers([](const std::string&) { return "pong"; });
  Check({});
  epoll_adds = 0;
  auto udp = QuickCheck(model::CheckKind::kUdp, answers.port());
  Check({QuickCheck(model::CheckKind::kTcp, listening.port()), udp});
  ASSERT_TRUE(Eventually([&] { return View(0).passed > 20 && View(1).passed > 20; }));
  EXPECT_LT(epoll_adds, 10) << "where each check is watched there are more than twenty";
}

TEST_F(OverloadTest, AnAnswerAfterTheFirstLookPasses) {
  Socket server(SOCK_DGRAM);
  auto udp = QuickCheck(model::CheckKind::kUdp, server.port());
  udp.timeout_ms = 20'000;
  Check({});
  epoll_adds = 0;
  checker_->SetConfig(ConfigOf({udp}));
  for (int i = 0; i < 3; i++) {
    const auto question = Receive(server);
    ASSERT_TRUE(question);
    ASSERT_TRUE(Eventually([&] { return epoll_adds == 1; })) << "the look is over, and found nothing";
    Send(server, *question, "pong");
    EXPECT_TRUE(Eventually([&] { return View().passed == static_cast<uint64_t>(i) + 1; }));
  }
}

TEST_F(OverloadTest, AnAnswerThatComesOftenPassesOneCheck) {
  Socket server(SOCK_DGRAM);
  auto udp = QuickCheck(model::CheckKind::kUdp, server.port());
  udp.interval_ms = 500;  // all ten are there by the next one
  udp.fall = 1;
  Check({udp});
  for (int i = 0; i < 2; i++) {
    const auto question = Receive(server);
    ASSERT_TRUE(question);
    Send(server, *question, "pong", 10);
  }
  ASSERT_TRUE(Becomes(CheckState::kFailing));
  EXPECT_EQ(View().passed, 2u);
}

// However long it takes until somebody looks.
TEST_F(OverloadTest, ACheckTakesUntilItsAnswerIsHere) {
  Socket server(SOCK_DGRAM), trigger(SOCK_STREAM);
  auto udp = QuickCheck(model::CheckKind::kUdp, server.port());
  udp.timeout_ms = 20'000;
  auto tcp = QuickCheck(model::CheckKind::kTcp, trigger.port());
  tcp.rise = 1;
  const auto began = steady_clock::now();
  Check({udp, tcp});
  const auto question = Receive(server);
  ASSERT_TRUE(question);
  Stall(trigger);
  Send(server, *question, "pong");
  const auto answered = steady_clock::now();
  std::this_thread::sleep_for(milliseconds(100));  // the stall
  HoldReports(false);
  ASSERT_TRUE(Eventually([&] { return View().passed == 1; }));
  const std::chrono::duration<double, std::milli> most = answered - began;
  EXPECT_LE(View().last_ms.value_or(1e9), most.count());
}

// A program on storage that hangs: here a lease on its file, which exec waits for.
class HungProgram {
 public:
  HungProgram() {
    signal(SIGIO, SIG_IGN);  // says that somebody waits for the lease
    std::ofstream(file_) << "#!/bin/sh\n";
    chmod(file_.c_str(), 0755);
  }
  ~HungProgram() {
    Release();
    std::filesystem::remove(file_);
  }
  // False: somebody reads it, or there are no file leases here.
  bool Hang() {
    if (fd_ < 0) fd_ = open(file_.c_str(), O_RDONLY | O_CLOEXEC);
    return fcntl(fd_, F_SETLEASE, F_WRLCK) == 0;
  }
  bool IsWaitedFor() const { return fcntl(fd_, F_GETLEASE) != F_WRLCK; }
  void Release() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  model::HealthCheck Check(uint32_t timeout_ms) const {
    auto check = QuickCheck(model::CheckKind::kExec, 1);
    check.command = {file_};
    check.timeout_ms = timeout_ms;
    return check;
  }

 private:
  const std::string file_ = ::testing::TempDir() + "/spillway-leased-" + std::to_string(getpid());
  int fd_ = -1;
};

TEST_F(OverloadTest, ViewsAreThereWhileACommandCannotBeStarted) {
  HungProgram program;
  if (!program.Hang()) GTEST_SKIP() << "no file leases here: " << std::strerror(errno);
  Check({program.Check(20'000)});
  EXPECT_TRUE(Eventually([&] { return program.IsWaitedFor(); })) << "exec does not wait";
  auto views = std::async(std::launch::async, [&] { return checker_->Views(); });
  const bool came = views.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  program.Release();
  EXPECT_TRUE(came);
  EXPECT_TRUE(Becomes(CheckState::kUp));
}

TEST_F(OverloadTest, ACommandThatCannotBeStartedHoldsUpNoOtherCheckAndFailsNoUnit) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  HungProgram program;
  Check({program.Check(1000), QuickCheck(model::CheckKind::kTcp, listening.port())});
  ASSERT_TRUE(Becomes(CheckState::kUp, 0));
  if (!Eventually([&] { return program.Hang(); })) GTEST_SKIP() << "no file leases here";
  ASSERT_TRUE(Eventually([&] { return View(0).skipped > 0; })) << "its time is never over";
  const uint64_t failed = View(0).failed;  // of those that ran, on a busy machine
  ASSERT_TRUE(Eventually([&] { return View(0).skipped > 3; }));
  const uint64_t passed = View(1).passed;
  EXPECT_TRUE(Eventually([&] { return View(1).passed > passed + 10; })) << "the others wait for it";
  EXPECT_TRUE(program.IsWaitedFor());
  EXPECT_EQ(View(0).state, CheckState::kUp);
  EXPECT_EQ(View(0).failed, failed) << View(0).reason;
  EXPECT_THAT(View(0).skip_reason, HasSubstr("could not be read"));
  const uint64_t before = View(0).passed;
  program.Release();
  EXPECT_TRUE(Eventually([&] { return View(0).passed > before + 3; })) << "it is there again";
}

TEST_F(OverloadTest, TheCheckerEndsWhileACommandCannotBeStarted) {
  HungProgram program;
  if (!program.Hang()) GTEST_SKIP() << "no file leases here: " << std::strerror(errno);
  Check({program.Check(20'000)});
  EXPECT_TRUE(Eventually([&] { return program.IsWaitedFor(); })) << "exec does not wait";
  auto ended = std::async(std::launch::async, [&] { checker_.reset(); });
  const bool came = ended.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  program.Release();
  EXPECT_TRUE(came);
}

TEST_F(OverloadTest, AnswersThatCameDuringAStallCount) {
  // In all more checks than events are fetched at once; on one socket no more than its buffer holds.
  constexpr size_t kServers = 7, kChecksEach = 100;
  std::vector<std::unique_ptr<Socket>> servers;
  for (size_t i = 0; i < kServers; i++) servers.push_back(std::make_unique<Socket>(SOCK_DGRAM));
  Socket trigger(SOCK_STREAM);
  auto udp = QuickCheck(model::CheckKind::kUdp, 0);
  udp.interval_ms = 100;  // all begin within that time
  udp.timeout_ms = 2000;
  udp.fall = 100;  // the first result decides for long
  auto tcp = QuickCheck(model::CheckKind::kTcp, trigger.port());
  tcp.rise = 1;
  tcp.fall = 100;  // nobody accepts its connections, so that in time it fails
  std::vector<model::HealthCheck> checks;
  for (const auto& server : servers) {
    udp.port = server->port();
    checks.insert(checks.end(), kChecksEach, udp);
  }
  checks.push_back(tcp);
  Check(checks);
  std::vector<std::pair<const Socket*, Question>> questions;
  for (const auto& server : servers)
    for (size_t i = 0; i < kChecksEach; i++) {
      const auto question = Receive(*server);
      ASSERT_TRUE(question);
      questions.emplace_back(server.get(), *question);
    }
  const auto deadline = steady_clock::now() + milliseconds(udp.timeout_ms);
  Stall(trigger);
  for (const auto& [server, question] : questions) Send(*server, question, "pong");
  std::this_thread::sleep_until(deadline);  // the stall outlasts every check
  HoldReports(false);
  // Without the trigger, whose failure before it listened may be what the stall began with.
  int64_t up = 0;
  ASSERT_TRUE(Eventually([&] {
    auto views = checker_->Views();
    views.resize(questions.size());
    const auto count = [&](CheckState state) {
      return std::count_if(views.begin(), views.end(), [=](const CheckView& v) { return v.state == state; });
    };
    up = count(CheckState::kUp);
    return count(CheckState::kUnknown) == 0;
  }));
  EXPECT_EQ(static_cast<size_t>(up), questions.size());
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

// So many more descriptors can be opened, and no more; until it ends.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    const int next = dup(0);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = static_cast<rlim_t>(next + more), .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// More checks than descriptors: this machine's shortage is held against nobody.
TEST_F(OverloadTest, WithoutDescriptorsChecksAreSkippedNotFailed) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  auto exec = QuickCheck(model::CheckKind::kExec, 1);
  exec.command = {"/bin/true"};
  Check({});
  const FewDescriptors none(0);
  checker_->SetConfig(ConfigOf({QuickCheck(model::CheckKind::kTcp, listening.port()),
                                QuickCheck(model::CheckKind::kHttp, listening.port()),
                                QuickCheck(model::CheckKind::kUdp, listening.port()), exec}));
  for (const size_t index : {0u, 1u, 2u, 3u}) {
    EXPECT_TRUE(Eventually([&] { return View(index).skipped + View(index).failed > 3; }));
    EXPECT_EQ(View(index).failed, 0u) << View(index).reason;
  }
}

TEST_F(OverloadTest, ACertificateFileThatCannotBeReadHereFailsNoUnit) {
  Socket listening(SOCK_STREAM);
  listening.Listen();
  const std::string readable = ::testing::TempDir() + "/spillway-ca-" + std::to_string(getpid());
  std::ofstream(readable) << "-----BEGIN CERTIFICATE-----\n";
  for (const auto& [file, descriptors] : {std::pair(readable, 1), std::pair(readable + ".gone", 100)}) {
    Check({});  // anew: its view is not the last one's
    auto tls = QuickCheck(model::CheckKind::kTls, listening.port());
    tls.ca_file = file;
    const FewDescriptors one(descriptors);  // for the connection
    checker_->SetConfig(ConfigOf({tls}));
    EXPECT_TRUE(Eventually([&] { return View().skipped + View().failed > 3; })) << file;
    EXPECT_EQ(View().failed, 0u) << View().reason;
    EXPECT_EQ(View().state, CheckState::kUnknown);
    EXPECT_THAT(View().skip_reason, HasSubstr("certificate"));
  }
  std::filesystem::remove(readable);
}

TEST_F(OverloadTest, SkippedChecksAreReportedOnceInAWhile) {
  auto exec = QuickCheck(model::CheckKind::kExec, 1);
  exec.command = {"/nonexistent/check"};
  Check({exec});
  ASSERT_TRUE(Eventually([&] { return View().skipped > 5; }));
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(changes_.size(), 1u);
  EXPECT_EQ(changes_[0].skipped, 1u);
  EXPECT_THAT(changes_[0].reason, HasSubstr("/nonexistent/check: No such file or directory"));
  EXPECT_TRUE(failing_.empty());
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
