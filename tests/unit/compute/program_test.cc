// SPDX-License-Identifier: Apache-2.0
// spillway-compute as it is run: what it says and how it ends; over loopback, with spillway-unit's protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/socket_address.h"
#include "lab/compute/synthetic.h"
#include "lab/unit/wire.h"

namespace spillway::compute {
namespace {

using testing::HasSubstr;

// The program, with what it prints.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    int out[2], err[2];
    EXPECT_EQ(::pipe(out) | ::pipe(err), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], 1);
      ::dup2(err[1], 2);
      std::vector<char*> argv{const_cast<char*>(SPILLWAY_COMPUTE)};
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      for (int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    out_ = ::fdopen(out[0], "r");
    err_ = ::fdopen(err[0], "r");
  }
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      (void)Wait();
    }
    ::fclose(out_);
    ::fclose(err_);
  }
  // Reads on when asked; "" at the end.
  std::string Line() { return LineOf(out_); }
  std::string Complaint() { return LineOf(err_); }
  void Signal(int signal) const { ::kill(pid_, signal); }
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static std::string LineOf(FILE* file) {
    char* line = nullptr;
    std::size_t room = 0;
    const ssize_t length = ::getline(&line, &room, file);
    std::string text(line, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    ::free(line);
    return text;
  }

  pid_t pid_ = 0;
  FILE *out_ = nullptr, *err_ = nullptr;
};

TEST(Program, SaysWhereItAnswersAndAnswersWithWhatItComputed) {
  Program program(
      {"--listen", "127.0.0.1:0", "--name", "s1-nic", "--seed", "4", "synthetic", "--gflop", "0.001"});
  const std::string ready = program.Complaint();
  ASSERT_THAT(ready, HasSubstr("spillway-compute: s1-nic answers at 127.0.0.1:"));
  const auto target =
      *base::SocketAddress::Parse(ready.substr(ready.rfind(' ') + 1, ready.size() - ready.rfind(' ') - 2));

  for (const int type : {SOCK_DGRAM, SOCK_STREAM}) {
    const int fd = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(fd, target.get(), target.length), 0);
    char request[unit::kRequestBytes], answer[unit::kAnswerBytes];
    unit::Encode(unit::Request{17, 0, 1000}, request);
    ASSERT_EQ(::send(fd, request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
    ASSERT_EQ(::recv(fd, answer, sizeof answer, MSG_WAITALL), static_cast<ssize_t>(sizeof answer));
    ::close(fd);
    const auto decoded = unit::DecodeAnswer(answer);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->unit, "s1-nic");
    EXPECT_EQ(decoded->request.id, 17u);
    EXPECT_EQ(decoded->result, Synthetic({0.001}, 4).Answer(0, 17, 1000, {}));
  }

  program.Signal(SIGTERM);
  const auto statistics = nlohmann::json::parse(program.Line());
  EXPECT_EQ(statistics["received"], 2);
  EXPECT_EQ(statistics["answered"], 2);
  EXPECT_GT(statistics["service_mean_us"], 0);
  EXPECT_EQ(program.Wait(), 0);
}

TEST(Program, EndsAtOnceThoughItWorks) {
  Program program({"--listen", "127.0.0.1:0", "--protocol", "tcp", "synthetic", "--gflop", "1000000"});
  const std::string ready = program.Complaint();
  const auto target =
      *base::SocketAddress::Parse(ready.substr(ready.rfind(' ') + 1, ready.size() - ready.rfind(' ') - 2));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(fd, target.get(), target.length), 0);
  char request[unit::kRequestBytes];
  unit::Encode(unit::Request{17, 0, 1000}, request);
  ASSERT_EQ(::send(fd, request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
  std::string statistics;
  do {  // until the request is there
    program.Signal(SIGUSR1);
    statistics = program.Line();
  } while (nlohmann::json::parse(statistics)["received"] == 0);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  ::close(fd);
}

TEST(Program, RefusesBadOptionsWithExitCode2) {
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"--listen", "127.0.0.1:0"},
                                              {"--listen", "127.0.0.1:0", "vgg16", "--size", "50"},
                                              {"--listen", "127.0.0.1:0", "knn", "--neighbours", "0"},
                                              {"--listen", "127.0.0.1:0", "synthetic", "--gflop", "-1"}}) {
    Program program(bad);
    const std::string complaint = program.Complaint();
    EXPECT_NE(complaint, "");
    if (complaint.find("answers at") != std::string::npos) program.Signal(SIGTERM);  // or it would go on
    EXPECT_EQ(program.Wait(), 2) << bad.back();
  }
}

}  // namespace
}  // namespace spillway::compute
