// SPDX-License-Identifier: Apache-2.0
// Programs of the host's own that serve models: which there are, what they are told, and what is left of
// them.
#include "node/host_program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "node/child.h"

namespace spillway::node {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kFile =
    "name: h\ncontroller: /run/c.sock\ngateway: /run/e.sock\nstate: state\n"
    "gpus:\n  - {name: g, gflop_per_s: 70}\n"
    "programs:\n  - {name: cats, run: [/bin/sh, -c, exit, 7]}\n";

std::string ProblemOf(const std::string& programs) {
  const std::string text = kFile;
  const auto read = ParseNodeConfig(text.substr(0, text.find("programs")) + programs, "/etc/n.yaml");
  return read ? "" : read.error().message;
}

scheduler::WantedInstance Wanted() {
  scheduler::WantedInstance wanted;
  wanted.instance = 7;
  wanted.model.name = "felines";
  wanted.model.host_program = "cats";
  return wanted;
}

TEST(HostProgram, IsWhatTheHostsFileSays) {
  const auto config = ParseNodeConfig(kFile, "/etc/n.yaml");
  ASSERT_TRUE(config) << config.error().message;
  const auto words = WordsOf(*config, Wanted().model);
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(*words, (std::vector<std::string>{"/bin/sh", "-c", "exit", "7"}));
  scheduler::ServedModel other = Wanted().model;
  other.host_program = "/bin/sh";
  const auto none = WordsOf(*config, other);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "`programs` in node.yaml has no entry /bin/sh");
}

TEST(HostProgram, ProblemsNameLineAndKey) {
  EXPECT_THAT(ProblemOf("programs:\n  - {name: a, run: [sh]}\n"),
              HasSubstr("n.yaml:8: programs[a].run: expected a list"));
  EXPECT_THAT(ProblemOf("programs:\n  - {name: a, run: []}\n"),
              HasSubstr("programs[a].run: expected a list"));
  EXPECT_THAT(ProblemOf("programs:\n  - {name: a}\n"), HasSubstr("programs[a].run"));
  EXPECT_THAT(ProblemOf("programs:\n  - {name: a, run: [/x]}\n  - {name: a, run: [/y]}\n"),
              HasSubstr("n.yaml:9: programs[a]: duplicate name"));
  EXPECT_THAT(ProblemOf("programs:\n  - {name: a b, run: [/x]}\n"), HasSubstr("programs[#1].name"));
  EXPECT_THAT(ProblemOf("programs:\n  - {name: a, run: [/x, {}]}\n"), HasSubstr("programs[a].run"));
  std::string many = "programs:\n";
  for (int i = 0; i < 65; ++i) many += fmt::format("  - {{name: p{}, run: [/x]}}\n", i);
  EXPECT_THAT(ProblemOf(many), HasSubstr("programs: expected at most 64 programs"));
}

TEST(HostProgram, ThatIsNotThereIsFoundBeforeItIsAskedForAndLeavesTheOthers) {
  for (const char* none : {"/nowhere/sh", "/etc", "/etc/passwd"}) {
    auto config = ParseNodeConfig(kFile + std::string("  - {name: dogs, run: [/bin/sh]}\n"), "/etc/n.yaml");
    ASSERT_TRUE(TakeOutMissingPrograms(*config).empty());
    config->programs["cats"].front() = none;
    const auto missing = TakeOutMissingPrograms(*config);
    ASSERT_EQ(missing.size(), 1u) << none;
    EXPECT_THAT(missing[0].message,
                HasSubstr("n.yaml:8: programs[cats].run: expected a program that can be executed"));
    EXPECT_EQ(config->programs.count("cats"), 0u);
    EXPECT_EQ(config->programs.count("dogs"), 1u);
  }
}

TEST(HostProgram, IsToldOfItsGatewayItsInstanceAndItsPartOfAGpu) {
  auto config = ParseNodeConfig(kFile, "/etc/n.yaml");
  config->token_file = "/etc/secret";
  const auto emulated = EnvironmentOf(*config, Wanted(), std::nullopt);
  for (const char* entry :
       {"SPILLWAY_GATEWAY=/run/e.sock", "SPILLWAY_TOKEN_FILE=/etc/secret", "SPILLWAY_INSTANCE=instance-7",
        "SPILLWAY_MODEL=felines", "SPILLWAY_GPU=none", "CUDA_VISIBLE_DEVICES="})
    EXPECT_THAT(emulated, Contains(entry));
  const auto shared = EnvironmentOf(*config, Wanted(), SliceDevice{"GPU-1234", 40});
  for (const char* entry :
       {"SPILLWAY_GPU=GPU-1234", "CUDA_VISIBLE_DEVICES=GPU-1234", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40"})
    EXPECT_THAT(shared, Contains(entry));
}

class Children : public testing::Test {
 protected:
  Children() {
    std::string name = testing::TempDir() + "childXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Children() override { std::filesystem::remove_all(folder_); }
  // What a shell writes that is begun so.
  std::string Says(const std::string& script, const std::vector<std::string>& environment) {
    auto child = Child::Start({{"/bin/sh", "-c", script}, environment, folder_ + "/log"},
                              [](const ProcessId&) { return Result<void>(); });
    EXPECT_TRUE(child);
    pollfd end{child->fd(), POLLIN, 0};
    poll(&end, 1, 20'000);
    EXPECT_EQ(child->Ended(), "exit code 0");
    std::ifstream log(folder_ + "/log");
    return {std::istreambuf_iterator<char>(log), {}};
  }
  std::string folder_;
};

TEST_F(Children, HaveTheirOwnVariablesBesideThoseOfTheNodeAgent) {
  setenv("SPILLWAY_TEST_KEPT", "kept", 1);
  setenv("SPILLWAY_TEST", "inherited", 1);
  EXPECT_EQ(Says("echo $SPILLWAY_TEST_KEPT; env | grep ^SPILLWAY_TEST=", {"SPILLWAY_TEST=own"}),
            "kept\nSPILLWAY_TEST=own\n");
}

TEST_F(Children, WhatTheyLeaveBehindIsFoundByTheirMarkAndKilledAndNothingElse) {
  const std::string mark = fmt::format("SPILLWAY_TEST_MARK={}", folder_), other = mark + "0";
  const auto left = [&](const std::string& of) {
    const std::string said = Says("sleep 1000 > /dev/null 2>&1 & echo $!", {of});
    std::filesystem::remove(folder_ + "/log");
    return std::stoi(said);
  };
  std::set<int> ours, found;
  for (int i = 0; i < 20; ++i) ours.insert(left(mark));
  const int others = left(other);
  for (const Child& one : Child::Marked(mark)) found.insert(one.id().pid);
  EXPECT_EQ(found, ours);
  EXPECT_EQ(Child::KillMarked(mark), 0u);
  EXPECT_TRUE(Child::Marked(mark).empty());
  ASSERT_EQ(Child::Marked(other).size(), 1u);
  EXPECT_EQ(Child::Marked(other).front().id().pid, others);
  EXPECT_EQ(Child::KillMarked(other), 0u);
}

// As programs that write their title over their environment do.
TEST_F(Children, WhatHidesItsMarkIsKnownByItsSessionOnceThatWasLeft) {
  const std::string none = "SPILLWAY_TEST_MARK=none";
  int session = 0;
  const auto start = [&](const char* script) {
    auto child = Child::Start({{"/bin/sh", "-c", script}, {}, folder_ + "/log"}, [&](const ProcessId& made) {
      session = made.pid;
      return Result<void>();
    });
    EXPECT_TRUE(child);
    return std::move(*child);
  };
  Child running = start("exec sleep 1000");
  EXPECT_TRUE(Child::Marked(none, session).empty()) << "whose session that is nobody knows";
  running.Signal(SIGKILL);
  Child gone = start("env -i sleep 1000 > /dev/null 2>&1 &");
  pollfd end{gone.fd(), POLLIN, 0};
  poll(&end, 1, 20'000);
  ASSERT_EQ(gone.Ended(), "exit code 0");
  EXPECT_EQ(Child::Marked(none, session).size(), 1u);
  EXPECT_EQ(Child::KillMarked(none, session), 0u);
  EXPECT_TRUE(Child::Marked(none, session).empty());
}

}  // namespace
}  // namespace spillway::node
