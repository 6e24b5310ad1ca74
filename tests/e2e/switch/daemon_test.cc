// SPDX-License-Identifier: Apache-2.0
// spillwayd's coming and going: what it refuses, and what it leaves behind.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include <regex>

#include "bed.h"
#include "cases.h"
#include "flow_set.h"

namespace spillway::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class Daemon : public testing::Test {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("timeout");
    lab::TestbedSpec spec =
        TwoModes("dmn", 4, {{model::Protocol::kTcp, kEchoPort}, {model::Protocol::kUdp, kEchoPort}});
    spec.servers.push_back(ServerOf("s1", {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}));
    auto up = Bed::Up(spec);
    ASSERT_TRUE(up) << up.error().message;
    bed_ = std::move(*up);
  }

  // The testbed's spillwayd command with another ending; killed should it not end by itself.
  Ran Spillwayd(const std::vector<std::string>& words) {
    std::vector<std::string> argv{"timeout", "-s", "KILL", "120", bed_->plan().daemon.argv[0]};
    argv.insert(argv.end(), words.begin(), words.end());
    return bed_->Run(argv, bed_->plan().switch_netns);
  }
  // The words of the testbed's command after the program, those of option `name` changed.
  std::vector<std::string> WordsWith(const std::map<std::string, std::string>& changed) const {
    const std::vector<std::string>& argv = bed_->plan().daemon.argv;
    std::vector<std::string> words(argv.begin() + 1, argv.end());
    for (size_t i = 0; i + 1 < words.size(); i++)
      if (auto found = changed.find(words[i]); found != changed.end()) words[i + 1] = found->second;
    return words;
  }

  std::string Instance() const { return "lab-" + bed_->plan().name; }
  bool PinsExist(const std::string& instance) const {
    return access(("/sys/fs/bpf/spillway/" + instance).c_str(), F_OK) == 0;
  }
  std::string Links() {
    const Ran ran = bed_->Run({"ip", "-details", "link", "show"}, bed_->plan().switch_netns);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return ran.out;
  }
  void ExpectNothingLeft() {
    EXPECT_FALSE(PinsExist(Instance()));
    EXPECT_TRUE(Eventually([&] { return Links().find("prog/xdp") == std::string::npos; })) << Links();
    EXPECT_FALSE(bed_->ApiAnswers());
  }

  static std::string WithInterfaces(const std::string& pool_file, const std::string& names) {
    return std::regex_replace(pool_file, std::regex(R"(interfaces: \[[^\]]*\])"),
                              fmt::format("interfaces: [{}]", names));
  }

  std::unique_ptr<Bed> bed_;
};

TEST_F(Daemon, SecondOnTheSameInterfaceIsRefusedAndDoesNotDisturbTheFirst) {
  ASSERT_TRUE(bed_->StartEchoes());
  FlowSet flows(bed_->plan().client_netns);
  for (const model::Service& service : bed_->config().services) {
    flows.Open(model::Protocol::kTcp, service.vip, kEchoPort, 20);
    flows.Open(model::Protocol::kUdp, service.vip, kEchoPort, 20);
  }
  ASSERT_TRUE(flows.AwaitProgress(10)) << flows.Stuck();

  const Ran other = Spillwayd(WordsWith(
      {{"--instance", "other-" + bed_->plan().name}, {"--api", bed_->plan().folder + "/other.sock"}}));
  EXPECT_EQ(other.exit, 1) << other.err;
  EXPECT_THAT(other.err, HasSubstr("interface client already has an XDP program"));
  EXPECT_FALSE(PinsExist("other-" + bed_->plan().name));

  const Ran same = Spillwayd(WordsWith({{"--api", bed_->plan().folder + "/other.sock"}}));
  EXPECT_EQ(same.exit, 1) << same.err;
  EXPECT_THAT(same.err,
              HasSubstr(fmt::format("is already run by another spillwayd (pid {})", bed_->daemon().pid)));

  EXPECT_EQ(bed_->Show("status").at("pid"), bed_->daemon().pid);
  EXPECT_TRUE(PinsExist(Instance()));
  for (int i = 0; i < 2; i++) {  // flows that were there, then new ones
    ASSERT_TRUE(flows.AwaitProgress(10)) << flows.Stuck();
    EXPECT_EQ(flows.Tally().moved + flows.Tally().broken, 0u) << flows.Tally().example;
    flows.Open(model::Protocol::kTcp, bed_->config().services[0].vip, kEchoPort, 20);
  }
}

TEST_F(Daemon, CleanExitRemovesProgramsAndPins) {
  EXPECT_TRUE(PinsExist(Instance()));
  EXPECT_THAT(Links(), HasSubstr("prog/xdp"));
  bed_->Signal(SIGTERM);
  EXPECT_EQ(bed_->AwaitExit(), 0) << bed_->DaemonLog();
  ExpectNothingLeft();
}

TEST_F(Daemon, RemoveCleansUpAfterAKilledOne) {
  bed_->Signal(SIGKILL);
  ASSERT_EQ(bed_->AwaitExit(), 128 + SIGKILL);
  EXPECT_TRUE(PinsExist(Instance()));
  EXPECT_THAT(Links(), HasSubstr("prog/xdp"));

  const std::vector<std::string> words = WordsWith({});
  std::vector<std::string> remove{"--remove"};
  for (size_t i = 0; i + 1 < words.size(); i++)
    if (words[i] == "--instance" || words[i] == "--run-dir")
      remove.insert(remove.end(), {words[i], words[i + 1]});
  const Ran ran = Spillwayd(remove);
  EXPECT_EQ(ran.exit, 0) << ran.err;
  ExpectNothingLeft();

  const auto started = bed_->StartDaemon();
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(bed_->Show("status").at("adopted"), false);
}

// With an interface in the file that is not there: an error, and whoever is served by what ran goes on.
TEST_F(Daemon, AStartThatFailsLeavesTheTrafficOfAKilledOneAlone) {
  ASSERT_TRUE(bed_->StartEchoes());
  FlowSet flows(bed_->plan().client_netns);
  const auto open = [&] {
    for (const model::Service& service : bed_->config().services)
      flows.Open(model::Protocol::kTcp, service.vip, kEchoPort, 20);
    EXPECT_TRUE(flows.AwaitProgress(10)) << flows.Stuck();
    EXPECT_EQ(flows.Tally().moved + flows.Tally().broken, 0u) << flows.Tally().example;
  };
  open();
  bed_->Signal(SIGKILL);
  ASSERT_EQ(bed_->AwaitExit(), 128 + SIGKILL);

  const std::string good = ReadFile(bed_->plan().pool_file);
  bed_->WritePoolFile(WithInterfaces(good, "client, s1-cpu, s1-nic, nosuch"));
  const Ran ran = Spillwayd(WordsWith({}));
  EXPECT_EQ(ran.exit, 2) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("spillwayd: " + bed_->plan().pool_file + ":"));
  EXPECT_THAT(ran.err, HasSubstr(": switch.interfaces: no interface nosuch here"));
  open();

  bed_->WritePoolFile(good);
  const auto started = bed_->StartDaemon();
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(bed_->Show("status").at("adopted"), true);
  open();
}

TEST_F(Daemon, InterfacesNoLongerListedAreLeftAndThoseMadeAnewAreAttached) {
  const std::string good = ReadFile(bed_->plan().pool_file), at_switch = bed_->plan().switch_netns;
  const auto ip = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"ip", "-n", at_switch});
    const Ran ran = bed_->Run(words);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return ran.out;
  };
  const auto is_attached = [&](const std::string& interface) {
    return ip({"-details", "link", "show", interface}).find("prog/xdp") != std::string::npos;
  };
  bed_->Signal(SIGKILL);
  ASSERT_EQ(bed_->AwaitExit(), 128 + SIGKILL);
  ip({"link", "add", "made", "type", "veth", "peer", "name", "peer"});
  bed_->WritePoolFile(WithInterfaces(good, "client, made"));
  const auto started = bed_->StartDaemon();
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_TRUE(is_attached("client"));
  EXPECT_TRUE(is_attached("made"));
  EXPECT_TRUE(Eventually([&] { return !is_attached("s1-cpu"); }));
  EXPECT_EQ(bed_->Show("interfaces").size(), 2u);

  ip({"link", "del", "made"});
  ip({"link", "add", "made", "type", "veth", "peer", "name", "peer"});
  EXPECT_TRUE(Eventually([&] { return is_attached("made"); }));
}

TEST_F(Daemon, RefusesABrokenFileAtStartAndNamesTheLine) {
  bed_->WritePoolFile("switch:\n  interfaces: [client]\n  speed: 11\n");
  const Ran ran = Spillwayd(WordsWith({{"--instance", "other-" + bed_->plan().name}}));
  EXPECT_EQ(ran.exit, 2);
  EXPECT_THAT(ran.err, HasSubstr("pool.yaml:3: "));
  EXPECT_THAT(ran.err, HasSubstr("speed"));
  EXPECT_TRUE(bed_->ApiAnswers());
}

// A drain that was taken back leaves the pool file in charge; one that contradicts it is said to.
TEST_F(Daemon, AnOperatorsWordHoldsOnlyWhereItDiffersFromTheFile) {
  const Ran drained = bed_->Cli({"drain", "lab/s1/nic"}),
            undone = bed_->Cli({"drain", "--undo", "lab/s1/nic"});
  ASSERT_EQ(drained.exit, 0) << drained.err;
  ASSERT_EQ(undone.exit, 0) << undone.err;
  model::Config config = bed_->config();
  config.pools[0].servers[0].units[1].drain = true;
  const Ran applied = bed_->Apply(config);
  ASSERT_EQ(applied.exit, 0) << applied.err;
  EXPECT_THAT(applied.out, Not(HasSubstr("note:")));
  EXPECT_THAT(bed_->Cli({"show", "units"}).out, HasSubstr("draining"));

  ASSERT_EQ(bed_->Cli({"set", "unit", "lab/s1/nic", "status=up"}).exit, 0);
  const Ran again = bed_->Apply(config);
  EXPECT_THAT(again.out,
              HasSubstr("note: lab/s1/nic stays up, as set by an operator; the file says draining"));
  EXPECT_THAT(bed_->Cli({"show", "units"}).out, Not(HasSubstr("draining")));
}

}  // namespace
}  // namespace spillway::e2e
