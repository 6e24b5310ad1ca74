// SPDX-License-Identifier: Apache-2.0
// The node agent's parts: its file, slices, the book, child processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "api/http.h"
#include "api/listen.h"
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
  std::string no_path = text;
  no_path.replace(no_path.find("/run/c.sock"), 11, "127.0.0.1:99");
  EXPECT_THAT(ProblemOf(no_path), HasSubstr("n.yaml:2: controller: expected the path of the gateway's "));
  std::string prefixed = text;
  prefixed.replace(prefixed.find("/run/c.sock"), 11, "unix:/run/c.sock");
  EXPECT_THAT(ProblemOf(prefixed), HasSubstr("n.yaml:2: controller: expected the path of the gateway's "));
  EXPECT_EQ(ProblemOf(text + "programs: [{name: p, run: python3}]\n"),
            "/etc/n.yaml:7: programs[p].run: expected a list: the absolute path of a program, and its "
            "arguments, got "
            "\"python3\"");
  EXPECT_THAT(ProblemOf(text + "programs: [{name: p, run: [python3]}]\n"),
              HasSubstr("got \"python3\" first"));
  std::string many = text;
  for (int g = 1; g < 65; ++g) many += "  - {name: g" + std::to_string(g) + ", gflop_per_s: 1}\n";
  EXPECT_THAT(ProblemOf(many), HasSubstr("n.yaml:5: gpus: expected 1 to 64 GPUs"));
  EXPECT_THAT(ProblemOf("name: h\n"), HasSubstr("state"));
  std::string tcp = text;
  tcp.replace(tcp.find("/run/c.sock"), 11, "\"tcp:10.0.0.1:99\"");
  EXPECT_THAT(ProblemOf(tcp), HasSubstr("controller_token_file: expected a file"));
  std::string rdma = kFile;
  rdma.replace(rdma.find("/run/e.sock"), 11, "rdma:nonsense");
  EXPECT_THAT(ProblemOf(rdma),
              HasSubstr("/etc/n.yaml:3: gateway: expected the path of the gateway's socket"));
  EXPECT_THAT(ProblemOf(rdma), HasSubstr("token_file: expected a file with the gateway's token"));
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

TEST(ExecutorFile, TakesNothingFromAProgramThatIsTheHostsToSay) {
  const auto config = ParseNodeConfig(kFile, "/etc/n.yaml");
  WantedInstance wanted = Wanted(5, 500);
  wanted.model.program = R"({"cells": 2, "cell": {"input": 65536, "output": 65536},
    "models": [{"name": "m", "kind": "echo", "row_bytes": 8}],
    "engine": "cuda", "token_file": "/etc/shadow", "gateway": "rdma:192.0.2.1:9", "workers": 99})";
  const auto made = ExecutorFile(*config, wanted);
  ASSERT_TRUE(made) << made.error().message;
  std::set<std::string> keys;
  const auto file = nlohmann::json::parse(*made);
  for (const auto& [key, value] : file.items()) keys.insert(key);
  EXPECT_THAT(keys, testing::ElementsAre("cell", "gateway", "gpus", "models", "name"));
  EXPECT_EQ(file["gateway"], "/run/e.sock");
  EXPECT_EQ(file["cell"]["input"], 65536);
}

TEST(ExecutorFile, RefusesAProgramThatIsNestedTooDeep) {
  const auto config = ParseNodeConfig(kFile, "/etc/n.yaml");
  WantedInstance wanted = Wanted(5, 500);
  for (const size_t depth : {1'000'000, 100}) {
    wanted.model.program =
        "{\"models\": " + std::string(depth, '[') + std::string(depth, ']') + ", \"cells\": 2}";
    const auto made = ExecutorFile(*config, wanted);
    ASSERT_FALSE(made) << depth;
    EXPECT_EQ(made.error().message, "its program: expected an object with models");
  }
}

TEST(HostOrders, OfAnInstanceThatIsNamedTwiceTheFirstCounts) {
  const auto read = scheduler::ParseHostOrders(
      ToText(scheduler::HostOrders{7, {Wanted(1, 500), Wanted(2, 250), Wanted(1, 250)}}));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->wanted.size(), 2u);
  EXPECT_EQ(read->wanted[0], Wanted(1, 500));
  EXPECT_EQ(read->wanted[1], Wanted(2, 250));
}

Result<void> Forget(const std::string&) { return {}; }

TEST(EmulatedSlices, RefuseWhatAGpuWould) {
  const auto slices = MakeEmulatedSlices({{"g", "A100-40", 0, true}});
  EXPECT_TRUE(slices->Make(Wanted(1, 600), Forget));
  EXPECT_TRUE(slices->Make(Wanted(1, 600), Forget)) << "the same again";
  const auto more = slices->Make(Wanted(2, 500), Forget);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message, "GPU g: requested share exceeds what is free");
  ASSERT_TRUE(slices->Drop(Wanted(1, 600), "", Forget));
  EXPECT_TRUE(slices->Make(Wanted(2, 250, Profile::k3g, 0), Forget));
  EXPECT_FALSE(slices->Make(Wanted(3, 250, Profile::k2g, 2), Forget)) << "over another's slices";
  EXPECT_TRUE(slices->Make(Wanted(4, 250, Profile::k3g, 4), Forget));
  WantedInstance elsewhere = Wanted(5, 1);
  elsewhere.place.gpu = "x";
  EXPECT_FALSE(slices->Make(elsewhere, Forget));
}

// A controller that errs or lies gets no more of a GPU than there is.
TEST(EmulatedSlices, RefuseSharesAndProfilesThatAreNone) {
  const auto slices = MakeEmulatedSlices({{"g", "A100-40", 0, true}, {"whole", "A100-40", 0, false}});
  for (const int milli : {0, -1, -5000, 1001, INT_MIN, INT_MAX})
    EXPECT_FALSE(slices->Make(Wanted(1, milli), Forget)) << milli;
  for (const int start : {-1, 1, 5, 8, 1000})
    EXPECT_FALSE(slices->Make(Wanted(1, 250, Profile::k3g, start), Forget));
  WantedInstance undivided = Wanted(1, 250, Profile::k2g, 0);
  undivided.place.gpu = "whole";
  EXPECT_FALSE(slices->Make(undivided, Forget));
  EXPECT_TRUE(slices->Make(Wanted(2, 1000), Forget)) << "what was refused takes nothing";
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
}

TEST_F(Folder, AnIdentityStaysUnlessItIsDamaged) {
  const auto identity = [&] { return InstanceBook::Open(path_)->identity(); };
  const std::string first = identity();
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(identity(), first);
  EXPECT_EQ(std::filesystem::status(path_ + "/identity").permissions(), std::filesystem::perms(0600))
      << "who knows it can pass processes off as the agent's";
  for (const std::string& damaged :
       {std::string(), std::string(16, '\0'), first.substr(1), first + "\n", std::string(1 << 20, 'a')}) {
    std::ofstream(path_ + "/identity") << damaged;
    const std::string next = identity();
    EXPECT_EQ(next.size(), 16u);
    EXPECT_NE(next, first);
    EXPECT_EQ(identity(), next);
  }
}

TEST_F(Folder, ADamagedRecordIsSetAsideAndItsInstanceHasFailed) {
  auto book = InstanceBook::Open(path_);
  ASSERT_TRUE(book) << book.error().message;
  const Record whole{{Wanted(9, 250), HostPhase::kFailed}, {}, false, "why"};
  ASSERT_TRUE(book->Write(whole));
  std::ofstream(path_ + "/3.json").flush();  // empty, as a power cut leaves it
  std::ofstream(path_ + "/4.json") << "{}";
  std::ofstream(path_ + "/notes.json") << "of no instance";
  auto read = book->Read();
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ(read->at(9).why, "why");
  for (const uint64_t id : {3, 4}) {
    const Record& lost = read->at(id);
    EXPECT_EQ(lost.has.wanted.instance, id);
    EXPECT_EQ(lost.has.phase, HostPhase::kFailed);
    EXPECT_THAT(lost.why, HasSubstr(fmt::format("{}/{}.json: ", path_, id)));
    EXPECT_TRUE(std::filesystem::exists(fmt::format("{}/{}.json.bad", path_, id)));
    EXPECT_TRUE(book->Write(lost)) << "as of any other";
  }
  EXPECT_TRUE(std::filesystem::exists(path_ + "/notes.json.bad"));
  read = book->Read();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at(3).has.phase, HostPhase::kFailed);
}

// Ends the program in the middle of what it was told.
class DeadlySlices : public Slices {
 public:
  struct Killed {};
  Result<std::string> Make(const WantedInstance&, const Remember& remember) override {
    EXPECT_TRUE(remember("being made"));
    throw Killed();
  }
  Result<void> Drop(const WantedInstance&, const std::string& mark, const Remember& remember) override {
    EXPECT_TRUE(remember(mark + ", ending"));
    throw Killed();
  }
  void Restore(const WantedInstance&) override {}
  Result<std::optional<SliceDevice>> DeviceOf(const WantedInstance&, const std::string&) override {
    return Fail(ErrorCode::kUnavailable, "it is gone");
  }
};

TEST_F(Folder, ANodeAgentThatIsKilledHasWrittenDownWhatItWasAbout) {
  std::atomic<bool> is_wanted = true;
  auto listener = api::ListenUnix(path_ + "/c.sock");
  auto controller = api::HttpServer::Start(listener->fd, [&](const api::Request&) {
    scheduler::HostOrders orders{1, {}};
    if (is_wanted) orders.wanted.push_back(Wanted(9, 250, Profile::k2g, 4));
    return api::Response{200, ToText(orders)};
  });
  ASSERT_TRUE(controller) << controller.error().message;
  std::string yaml = kFile;
  yaml.replace(yaml.find("/run/c.sock"), 11, path_ + "/c.sock");
  yaml.replace(yaml.find("state: state"), 12, "state: " + path_ + "/state");
  const auto run = [&] {
    auto agent = NodeAgent::Open(*ParseNodeConfig(yaml, "n.yaml"), std::make_unique<DeadlySlices>(), "/x");
    ASSERT_TRUE(agent) << agent.error().message;
    const base::Fd never(eventfd(0, EFD_CLOEXEC));
    EXPECT_THROW((*agent)->Run(never.get()), DeadlySlices::Killed);
  };
  const auto mark = [&] { return InstanceBook::Open(path_ + "/state")->Read()->at(9).mark; };
  run();
  EXPECT_EQ(mark(), "being made");
  is_wanted = false;
  run();
  EXPECT_EQ(mark(), "being made, ending");
}

std::string WaitFor(Child& child) {
  pollfd end{child.fd(), POLLIN, 0};
  poll(&end, 1, 20'000);
  return child.Ended().value_or("it runs");
}

TEST_F(Folder, AChildIsFoundAgainByItsIdentityAndNoOthersIs) {
  ProcessId id;
  auto child = Child::Start({{"/bin/sleep", "1000"}, {}, path_ + "/log"}, [&](const ProcessId& made) {
    id = made;
    return Result<void>();
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

// Stopped, once it is the program that it is to be.
Child Stopped(const std::string& folder, const std::string& mark) {
  auto child = Child::Start({{"/bin/sh", "-c", "kill -STOP $$"}, {mark}, folder + "/log"},
                            [](const ProcessId&) { return Result<void>(); });
  EXPECT_TRUE(child);
  EXPECT_EQ(waitpid(child->id().pid, nullptr, WUNTRACED), child->id().pid);
  return std::move(*child);
}

TEST_F(Folder, ADamagedRecordsExecutorIsFoundByItsMark) {
  auto book = InstanceBook::Open(path_);
  Child third = Stopped(path_, book->MarkOf(3)), thirtieth = Stopped(path_, book->MarkOf(30));
  for (const char* id : {"3", "4"}) std::ofstream(path_ + "/" + id + ".json") << "{}";
  const auto read = book->Read();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at(3).process, third.id());
  EXPECT_EQ(read->at(3).has.phase, HostPhase::kEnding);
  EXPECT_EQ(read->at(4).process, ProcessId{});
  EXPECT_EQ(read->at(4).has.phase, HostPhase::kFailed);
  for (Child* child : {&third, &thirtieth}) {
    child->Signal(SIGKILL);
    EXPECT_EQ(WaitFor(*child), "signal 9");
  }
}

TEST_F(Folder, NothingRunsThatWasNotRemembered) {
  ProcessId id;
  const auto child =
      Child::Start({{"/bin/sh", "-c", "echo ran"}, {}, path_ + "/log"}, [&](const ProcessId& made) {
        id = made;
        return Result<void>(Fail(ErrorCode::kSystem, "write 7.json: No space left on device"));
      });
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().message, "start /bin/sh: write 7.json: No space left on device");
  EXPECT_FALSE(Child::Find(id));
  EXPECT_EQ(std::filesystem::file_size(path_ + "/log"), 0u);
}

TEST_F(Folder, AProgramThatCannotBeExecutedSaysSo) {
  auto book = InstanceBook::Open(path_);
  ASSERT_TRUE(book);
  auto child = Child::Start({{path_}, {}, book->LogOf(4)}, [](const ProcessId&) { return Result<void>(); });
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(WaitFor(*child), "exit code 127");
  EXPECT_EQ(book->LastWord(4), path_ + ": cannot be executed: Permission denied");
}

TEST_F(Folder, AChildsLastWordAndHowItEndedAreKnown) {
  auto book = InstanceBook::Open(path_);
  auto child = Child::Start({{"/bin/sh", "-c", "echo one; echo the reason >&2; exit 3"}, {}, book->LogOf(4)},
                            [](const ProcessId&) { return Result<void>(); });
  ASSERT_TRUE(child);
  EXPECT_EQ(WaitFor(*child), "exit code 3");
  EXPECT_EQ(book->LastWord(4), "the reason");
}

TEST_F(Folder, OfAModelThatFailedTheLogIsKeptAndOfTooManyTheOldestGoes) {
  auto book = InstanceBook::Open(path_);
  ASSERT_TRUE(book);
  std::ofstream(book->LogOf(4)) << std::string(InstanceBook::kKeptBytes, 'x') << "the reason\n";
  book->KeepLog(4, "cats");
  book->KeepLog(4, "../cats");
  const std::string kept = path_ + "/failed-cats.log";
  ASSERT_EQ(std::filesystem::file_size(kept), InstanceBook::kKeptBytes);
  std::ifstream file(kept);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}), testing::EndsWith("xthe reason\n"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/cats.log"));
  std::filesystem::last_write_time(kept,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  for (size_t i = 0; i < InstanceBook::kMostKept; ++i) book->KeepLog(4, "m" + std::to_string(i));
  EXPECT_FALSE(std::filesystem::exists(kept));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/failed-m0.log"));
}

TEST_F(Folder, OfALogTheEndIsReadAndWhatIsTooLongBeginsAnew) {
  auto book = InstanceBook::Open(path_);
  const std::string log = book->LogOf(4);
  EXPECT_EQ(book->LastWord(4), "") << "no log";
  book->BoundLog(4);
  std::ofstream(log) << std::string(5000, 'a') << std::string(5000, 'b') << "\n";
  EXPECT_EQ(book->LastWord(4), std::string(300, 'b'));
  std::ofstream(log, std::ios::app) << "the reason\n\n";
  EXPECT_EQ(book->LastWord(4), "the reason");
  std::ofstream(log, std::ios::app) << "\x1b[2Jgrün\x9b\n";
  EXPECT_EQ(book->LastWord(4), "\\x1b[2Jgrün\\x9b");
  std::filesystem::resize_file(log, InstanceBook::kMaxLogBytes);
  book->BoundLog(4);
  EXPECT_EQ(std::filesystem::file_size(log), InstanceBook::kMaxLogBytes);
  std::ofstream writer(log, std::ios::app);  // as an executor has it open
  writer << "over" << std::flush;
  book->BoundLog(4);
  EXPECT_EQ(std::filesystem::file_size(log), 0u);
  writer << "on\n" << std::flush;
  EXPECT_EQ(std::filesystem::file_size(log), 3u);
  EXPECT_EQ(book->LastWord(4), "on");
}

}  // namespace
}  // namespace spillway::node
