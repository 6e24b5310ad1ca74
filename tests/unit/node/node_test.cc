// SPDX-License-Identifier: Apache-2.0
// The node agent's parts: its file, slices, the book, child processes.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gateway/executor/executor_config.h"
#include "node/instance_book.h"
#include "node/node_agent.h"
#include "node/node_config.h"
#include "node/slices.h"

namespace spillway::node {
namespace {

using scheduler::HostPhase;
using scheduler::Profile;
using scheduler::WantedInstance;
using testing::HasSubstr;

constexpr const char* kFile =
    "name: h\ncontroller: /run/c.sock\ngateway: /run/e.sock\nstate: state\n"
    "gpus:\n  - {name: g, gflop_per_s: 70, memory: 40GiB, mig: true}\n";

std::string ProblemOf(const std::string& yaml) {
  const auto read = ParseNodeConfig(yaml, "/etc/n.yaml");
  return read ? "" : read.error().message;
}

WantedInstance Wanted(uint64_t id, int milli, std::optional<Profile> profile = {}, int start = -1) {
  WantedInstance wanted;
  wanted.instance = id;
  wanted.model.name = "m";
  wanted.model.program = R"({"cells": 2, "models": [{"name": "m", "kind": "echo", "row_bytes": 8}]})";
  wanted.place = {"h", "g", milli, profile, start};
  return wanted;
}

class Folder : public testing::Test {
 protected:
  Folder() {
    std::string name = testing::TempDir() + "nodeXXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() override { std::filesystem::remove_all(path_); }
  std::string path_;
};

TEST(NodeConfig, IsReadAndItsProblemsNameLineAndKey) {
  const auto config = ParseNodeConfig(kFile, "/etc/n.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->state, "/etc/state");
  EXPECT_EQ(config->gpus.at(0).memory_mib, 40960);
  EXPECT_TRUE(config->gpus.at(0).can_divide);
  const std::string text = kFile;
  EXPECT_THAT(ProblemOf(text + "  - {name: g, gflop_per_s: 1}\n"), HasSubstr("n.yaml:7: "));
  EXPECT_THAT(ProblemOf(text + "  - {name: g2}\n"), HasSubstr("gflop_per_s"));
  std::string many = text;
  for (int g = 1; g < 65; ++g) many += "  - {name: g" + std::to_string(g) + ", gflop_per_s: 1}\n";
  EXPECT_THAT(ProblemOf(many), HasSubstr("n.yaml:5: gpus: expected 1 to 64 GPUs"));
  EXPECT_THAT(ProblemOf("name: h\n"), HasSubstr("state"));
  std::string tcp = text;
  tcp.replace(tcp.find("/run/c.sock"), 11, "\"tcp:10.0.0.1:99\"");
  EXPECT_THAT(ProblemOf(tcp), HasSubstr("controller_token_file: expected a file"));
}

TEST(ExecutorFile, IsOneThatExecutorsTakeWithTheSpeedOfItsShare) {
  const auto config = ParseNodeConfig(kFile, "/etc/n.yaml");
  const auto share = ExecutorFile(*config, Wanted(5, 500));
  ASSERT_TRUE(share);
  auto read = gateway::ParseExecutorConfig(*share, "e.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->options.name, "instance-5");
  ASSERT_EQ(read->options.slices.size(), 1u);
  EXPECT_EQ(read->options.slices[0].gpu, "h.g");
  EXPECT_DOUBLE_EQ(read->options.slices[0].gflop_per_s, 35);
  EXPECT_EQ(read->options.slices[0].cells, 2u);
  read = gateway::ParseExecutorConfig(*ExecutorFile(*config, Wanted(6, 250, Profile::k2g, 0)), "e.yaml");
  EXPECT_DOUBLE_EQ(read->options.slices[0].gflop_per_s, 20);
  WantedInstance bad = Wanted(7, 500);
  bad.model.program = "x";
  EXPECT_FALSE(ExecutorFile(*config, bad));
}

TEST(EmulatedSlices, RefuseWhatAGpuWould) {
  const auto slices = MakeEmulatedSlices({{"g", "A100-40", 0, true}});
  EXPECT_TRUE(slices->Make(Wanted(1, 600)));
  EXPECT_TRUE(slices->Make(Wanted(1, 600))) << "the same again";
  const auto more = slices->Make(Wanted(2, 500));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message, "GPU g: no more than all of it can be had");
  slices->Drop(Wanted(1, 600));
  EXPECT_TRUE(slices->Make(Wanted(2, 250, Profile::k3g, 0)));
  EXPECT_FALSE(slices->Make(Wanted(3, 250, Profile::k2g, 2))) << "over another's slices";
  EXPECT_TRUE(slices->Make(Wanted(4, 250, Profile::k3g, 4)));
  WantedInstance elsewhere = Wanted(5, 1);
  elsewhere.place.gpu = "x";
  EXPECT_FALSE(slices->Make(elsewhere));
}

TEST_F(Folder, ABookIsReadAsItWasWrittenAndHasOneReader) {
  auto book = InstanceBook::Open(path_);
  ASSERT_TRUE(book) << book.error().message;
  EXPECT_EQ(InstanceBook::Open(path_).error().code, ErrorCode::kConflict);
  const Record record{
      {Wanted(9, 250, Profile::k2g, 4), HostPhase::kRunning}, {12, 345, "boot"}, false, "why"};
  ASSERT_TRUE(book->Write(record));
  auto read = book->Read();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at(9).has.wanted, record.has.wanted);
  EXPECT_EQ(read->at(9).has.phase, HostPhase::kRunning);
  EXPECT_EQ(read->at(9).process, record.process);
  book->Erase(9);
  EXPECT_TRUE(book->Read()->empty());
  std::ofstream(path_ + "/3.json") << "{}";
  EXPECT_THAT(book->Read().error().message, HasSubstr(path_ + "/3.json: "));
}

std::string WaitFor(Child& child) {
  pollfd end{child.fd(), POLLIN, 0};
  poll(&end, 1, 20'000);
  return child.Ended().value_or("it runs");
}

TEST_F(Folder, AChildIsFoundAgainByItsIdentityAndNoOthersIs) {
  ProcessId id;
  auto child = Child::Start({"/bin/sleep", "1000"}, path_ + "/log", [&](const ProcessId& made) {
    id = made;
    return true;
  });
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(child->Ended(), std::nullopt);
  auto found = Child::Find(id);
  ASSERT_TRUE(found);
  ProcessId other = id;
  other.start++;
  EXPECT_FALSE(Child::Find(other)) << "a process that has taken its number";
  other = id;
  other.boot = "before";
  EXPECT_FALSE(Child::Find(other));
  found->Signal(SIGTERM);
  EXPECT_EQ(WaitFor(*child), "signal 15");
  EXPECT_FALSE(Child::Find(id));
}

TEST_F(Folder, NothingRunsThatWasNotRemembered) {
  ProcessId id;
  const auto child = Child::Start({"/bin/sh", "-c", "echo ran"}, path_ + "/log", [&](const ProcessId& made) {
    id = made;
    return false;
  });
  EXPECT_FALSE(child);
  EXPECT_FALSE(Child::Find(id));
  EXPECT_EQ(std::filesystem::file_size(path_ + "/log"), 0u);
}

TEST_F(Folder, AChildsLastWordAndHowItEndedAreKnown) {
  auto book = InstanceBook::Open(path_);
  auto child = Child::Start({"/bin/sh", "-c", "echo one; echo the reason >&2; exit 3"}, book->LogOf(4),
                            [](const ProcessId&) { return true; });
  ASSERT_TRUE(child);
  EXPECT_EQ(WaitFor(*child), "exit code 3");
  EXPECT_EQ(book->LastWord(4), "the reason");
}

}  // namespace
}  // namespace spillway::node
