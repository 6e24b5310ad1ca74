// SPDX-License-Identifier: Apache-2.0
// The `spillway` program as its users meet it: words in, text, JSON and exit codes out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "fake_switch.h"
#include "program.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using ::testing::StartsWith;

// Without a daemon.
class Cli : public ::testing::Test {
 protected:
  void SetUp() override { folder_.Write("pool.yaml", testing::PoolYaml()); }

  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), {SPILLWAY, "--api", folder_.File("api.sock")});
    return testing::RunProgram(words);
  }
  void Edit(const std::string& from, const std::string& to) const {
    std::string yaml = testing::PoolYaml();
    folder_.Write("pool.yaml", yaml.replace(yaml.find(from), from.size(), to));
  }

  testing::Folder folder_;
};

// With one, over a fake switch.
class CliWithDaemon : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    daemon_.emplace(std::vector<std::string>{FAKE_SPILLWAYD, "-c", folder_.File("pool.yaml"), "--run-dir",
                                             folder_.File(""), "--api", folder_.File("api.sock")},
                    folder_.File("log"), std::vector<std::string>{notify_.environment()});
    ASSERT_THAT(notify_.WaitFor("READY=1"), Not("")) << folder_.Read("log");
  }
  json Json(std::vector<std::string> words) const {
    words.push_back("--json");
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }

  testing::NotifySocket notify_{folder_.File("notify")};
  std::optional<testing::Running> daemon_;
};

TEST_F(Cli, LabRunFindsTheExamplesOfItsSourcesAndNamesThem) {
  const Outcome unknown = Run({"lab", "run", "fig9"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("fig5 (dns, knn, vgg16)"));
  const Outcome app = Run({"lab", "run", "fig5", "--apps", "dns,nginx"});
  EXPECT_EQ(app.exit_code, 2);
  EXPECT_THAT(app.err, HasSubstr("fig5 has no app nginx"));
}

// As nobody, whoever runs the test: root has setpriv.
Outcome RunAsNobody(const std::vector<std::string>& words) {
  std::vector<std::string> argv;
  if (geteuid() == 0) argv = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"};
  argv.insert(argv.end(), words.begin(), words.end());
  return testing::RunProgram(argv);
}

TEST(CliAsNobody, LabVerbsThatNeedRootSayOnlyThat) {
  const std::string lab = PROGRAMS "/spillway-lab";
  if (RunAsNobody({lab, "beds"}).exit_code != 0) GTEST_SKIP() << "nobody may not run " << lab;
  for (const char* verb : {"compare", "run"}) {
    const Outcome outcome = RunAsNobody({lab, verb, "demo"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err, "spillway: a testbed makes network namespaces, which requires root (try sudo)\n");
    EXPECT_EQ(outcome.out, "");
  }
  const std::string help = testing::RunProgram({lab, "--help"}).out;
  for (const char* verb : {"up", "down", "exec", "run", "compare"}) {
    const size_t at = help.find("\n  " + std::string(verb) + " ");
    ASSERT_NE(at, std::string::npos) << verb;
    EXPECT_THAT(help.substr(at, help.find('\n', at + 1) - at), HasSubstr("(root")) << verb;
  }
  EXPECT_THAT(testing::RunProgram({lab, "compare", "--help"}).out, HasSubstr("(root)\n"));
}

TEST_F(Cli, TheDispatchersVerbsHandTheirWordsOn) {
  for (const auto& verb : {std::vector<std::string>{"bench", "dispatch"},
                           {"bench", "--json", "dispatch"},
                           {"--json", "lab", "kvs"},
                           {"lab", "kvs", "--json"}}) {
    auto words = verb;
    words.push_back("--help");
    const Outcome help = Run(words);
    EXPECT_EQ(help.exit_code, 0) << help.err;
    EXPECT_THAT(help.out,
                HasSubstr(verb.back() == "kvs" || verb[1] == "kvs" ? "Usage: spillway lab kvs"
                                                                   : "Usage: spillway bench dispatch"));
    EXPECT_THAT(help.out, HasSubstr("Exit codes: "));
    EXPECT_THAT(help.out, HasSubstr("--rounds"));
    words.back() = "--bogus";
    const Outcome bogus = Run(words);
    EXPECT_EQ(bogus.exit_code, 2);
    EXPECT_THAT(bogus.err, HasSubstr("--bogus"));
  }
}

TEST_F(Cli, FilesMayComeOnStdin) {
  for (const std::string verb : {"check -", "sim -", "plan compare -", "sched place -"}) {
    const Outcome outcome =
        testing::RunProgram({"/bin/sh", "-c", std::string("echo nothing: 1 | exec " SPILLWAY " ") + verb});
    EXPECT_EQ(outcome.exit_code, 2) << verb;
    EXPECT_THAT(outcome.err, HasSubstr("stdin:1: unknown key \"nothing\"")) << verb;
  }
}

TEST_F(Cli, CheckAcceptsAGoodFile) {
  const Outcome outcome = Run({"check", folder_.File("pool.yaml")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("pool.yaml: ok (1 service, 1 pool, 1 server, 2 units)"));
  EXPECT_THAT(outcome.err, HasSubstr("pool.yaml: warning: services[dns]: no key_file"));
  const Outcome as_json = Run({"check", "--json", folder_.File("pool.yaml")});
  EXPECT_THAT(json::parse(as_json.out)["warnings"][0], StartsWith("services[dns]: no key_file"));
}

TEST_F(Cli, CheckNamesFileLineKeyAndExpectation) {
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"capacity: 6", "capacity: 0", "pool.yaml:13"},
      {"unit_policy: p4mite", "unit_policy: fair", "pool.yaml:7"},
      {"pool: rack1", "pool: rack9", "rack9"},
      {"10.0.1.2", "10.0.1.1", "10.0.1.1"},
      {"interfaces", "interface", "pool.yaml:2"},
  };
  for (const auto& [from, to, expected] : kCases) {
    Edit(from, to);
    const Outcome outcome = Run({"check", folder_.File("pool.yaml")});
    EXPECT_EQ(outcome.exit_code, 2) << to;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr(expected));
    std::istringstream lines(outcome.err);
    for (std::string line; std::getline(lines, line);)
      EXPECT_THAT(line, StartsWith("spillway: " + folder_.File("pool.yaml") + ":"));
  }
}

TEST_F(Cli, CheckTellsFaultsAsJsonToo) {
  Edit("capacity: 6", "capacity: 0");
  const Outcome outcome = Run({"check", folder_.File("pool.yaml"), "--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  const json told = json::parse(outcome.out);
  EXPECT_EQ(told["valid"], false);
  EXPECT_THAT(told["error"].get<std::string>(), HasSubstr("pool.yaml:13"));
}

TEST_F(Cli, CheckGoesThroughAllFiles) {
  const std::string good = folder_.File("good.yaml"), pool = folder_.File("pool.yaml");
  folder_.Write("good.yaml", testing::PoolYaml());
  Edit("capacity: 6", "capacity: 0");
  const Outcome outcome = Run({"check", pool, folder_.File("missing.yaml"), good});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, StartsWith(good + ": ok (1 service, "));
  EXPECT_THAT(outcome.err, HasSubstr(pool + ":13"));
  EXPECT_THAT(outcome.err, HasSubstr("missing.yaml: expected a readable file"));
  const json documents = json::parse(Run({"check", pool, good, "--json"}).out);
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0]["valid"], false);
  EXPECT_EQ(documents[1], json::parse(Run({"check", good, "--json"}).out));
}

TEST_F(Cli, WithJsonAnErrorIsADocument) {
  const std::tuple<std::vector<std::string>, const char*, int> kCases[] = {
      {{"show"}, "unavailable", 1},
      {{"show", "everything"}, "bad_input", 2},
      {{"frobnicate"}, "bad_input", 2},
      {{"set", "unit", "a/b/c", "status=gone"}, "bad_input", 2},
      {{"apply", "nosuch.yaml"}, "bad_input", 2},
      {{"check", "nosuch.yaml"}, "bad_input", 2},
      {{"top", "--count", "1", "--interval", "0.05"}, "unavailable", 1},
      {{"lab", "exec", "nosuch", "client", "--", "true"}, "system", 1},
      {{"lab", "down", "nosuch"}, "system", 1},
      {{"lab", "up", "nosuch.yaml"}, "bad_input", 2},
      {{"sim", "nosuch.yaml"}, "bad_input", 2},
      {{"sched", "place", "nosuch.yaml", "--milli", "470"}, "bad_input", 2},
      {{"plan", "search", "nosuch.yaml"}, "bad_input", 2},
      {{"bench", "nosuch"}, "bad_input", 2}};
  for (auto [words, code, exit_code] : kCases) {
    words.insert(words.begin(), "--json");
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, exit_code) << words[1];
    const json document = json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(document.is_object()) << words[1] << ": " << outcome.out;
    EXPECT_EQ(document.value("code", ""), code) << words[1];
    EXPECT_EQ(outcome.err, "spillway: " + document.value("error", "") + "\n");
  }
}

TEST_F(Cli, AVerbThatWasMistypedIsAnsweredWithTheOneThatWasMeant) {
  EXPECT_THAT(Run({"shw"}).err, ::testing::EndsWith("got shw (did you mean show?)\n"));
  EXPECT_THAT(Run({"set", "untis"}).err, ::testing::EndsWith("got untis (did you mean unit?)\n"));
  EXPECT_THAT(Run({"frobnicate"}).err, ::testing::EndsWith("got frobnicate\n"));
}

TEST_F(Cli, TheProgramIsNamedOnceInErrors) {
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{}, "spillway: expected a verb (check, show, "},
      {{"frob"}, "spillway: expected a verb (check, show, "},
      {{"set"}, "spillway: set: expected a verb (unit, service), got none"},
      {{"set", "frob"}, "spillway: set: expected a verb (unit, service), got frob"},
      {{"lab"}, "spillway: lab: expected a verb (up, "},
      {{"lab", "up", "nosuch.yaml"}, "spillway: nosuch.yaml: expected a readable file"},
      {{"lab", "up"}, "spillway: lab up: FILE is required"},
      {{"lab", "exec", "nosuch", "client", "true"},
       "spillway: lab exec: no testbed nosuch on this machine, which has "},
      {{"lab", "down"}, "spillway: lab down: expected a testbed's name, or --all"}};
  for (const auto& [words, expected] : kCases) EXPECT_THAT(Run(words).err, StartsWith(expected));
}

TEST_F(Cli, BadValuesAreReportedWithoutADaemon) {
  Edit("capacity: 6", "capacity: 0");
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{"set", "unit", "a/b/c", "status=gone"}, "status: expected up, draining or down"},
      {{"set", "unit", "a/b/c", "capacity=0"}, "capacity: expected a number above 0"},
      {{"set", "unit", "a/b/c", "colour=red"}, "unknown key \"colour\""},
      {{"set", "service", "dns", "unit_policy=fair"}, "unit_policy: expected "},
      {{"set", "service", "dns", "idle=soon"}, "idle: expected whole seconds"},
      {{"apply", folder_.File("pool.yaml")}, "pool.yaml:13: "}};
  for (const auto& [words, expected] : kCases) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2) << words.back();
    EXPECT_THAT(outcome.err, HasSubstr(expected));
    EXPECT_THAT(outcome.err, Not(HasSubstr("no spillwayd answers")));
  }
}

TEST_F(Cli, DoctorSaysThatTheLoopbackIsNoPlaceForASwitch) {
  const Outcome outcome = Run({"doctor", "lo"});
  EXPECT_THAT(outcome.out,
              ::testing::ContainsRegex(
                  "interface lo +unfit .* the loopback interface: no packets from other machines"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, ::testing::EndsWith("unfit for the switch: interface lo\n"));
  const json told = json::parse(Run({"doctor", "--json", "lo"}).out);
  EXPECT_EQ(told["ok"], false);
  EXPECT_EQ(told["findings"].back()["verdict"], "unfit");
}

TEST_F(Cli, DoctorNamesOnItsLastLineWhatIsMissing) {
  const Outcome outcome = Run({"doctor", "absent0"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, ::testing::EndsWith("interface absent0\n"));
}

TEST_F(Cli, CheckOfWhatCannotBeReadIsBadInput) {
  for (const std::string& path : {folder_.File("missing.yaml"), folder_.File("")}) {
    const Outcome outcome = Run({"check", path});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(path));
  }
}

TEST_F(Cli, BadUsageExitsWithTwo) {
  const std::vector<std::vector<std::string>> kCases = {{},
                                                        {"frobnicate"},
                                                        {"check"},
                                                        {"show", "everything"},
                                                        {"set"},
                                                        {"set", "unit", "rack1/s1/nic"},
                                                        {"set", "unit", "rack1/s1/nic", "capacity"},
                                                        {"set", "unit", "rack1/s1/nic", "capacity=much"},
                                                        {"set", "unit", "rack1/s1", "status=up"},
                                                        {"drain", "nic"},
                                                        {"drain", "a/b/c/d"},
                                                        {"top", "--interval", "0"},
                                                        {"show", "--api", "127.0.0.1:80"}};
  for (const auto& words : kCases) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2) << (words.empty() ? "" : words.back());
    EXPECT_THAT(outcome.err, Not(IsEmpty()));
  }
}

TEST_F(Cli, AnUnknownOptionIsNamedBeforeWhatIsMissing) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"check", "--nope"}, {"sched", "place", "--nope"}, {"bench", "dispatch", "--nope"}}) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("not expected: --nope"));
  }
  EXPECT_THAT(Run({"sched", "place"}).err, HasSubstr("CLUSTER is required"));
}

TEST_F(Cli, EveryVerbsHelpNamesJson) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"check"},
                                                                 {"show", "units"},
                                                                 {"sched", "place"},
                                                                 {"plan", "search"},
                                                                 {"sim"},
                                                                 {"lab", "run"},
                                                                 {"lab", "kvs"},
                                                                 {"bench", "switch"},
                                                                 {"bench", "dispatch"}}) {
    auto asked = words;
    asked.push_back("--help");
    EXPECT_THAT(Run(asked).out, HasSubstr("--json")) << words.back();
  }
}

TEST_F(Cli, WithoutADaemonTheSocketIsNamed) {
  const Outcome outcome = Run({"show"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(folder_.File("api.sock") + ": no spillwayd answers"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(Cli, DoctorAnswersWithAVerdictEverywhere) {
  const Outcome outcome = Run({"doctor", "--json"});
  const json told = json::parse(outcome.out);
  EXPECT_EQ(outcome.exit_code, told["ok"].get<bool>() ? 0 : 1);
  EXPECT_GE(told["findings"].size(), 10u);
  bool good = true;
  for (const json& finding : told["findings"])
    good = good && (finding["present"].get<bool>() || !finding["required"].get<bool>());
  EXPECT_EQ(told["ok"], good);
}

TEST_F(CliWithDaemon, ShowsEverythingAsTextAndAsJson) {
  const std::pair<const char*, const char*> kCases[] = {{"status", "generic, because the driver has no XDP"},
                                                        {"units", "rack1/s1/nic"},
                                                        {"services", "203.0.113.53"},
                                                        {"interfaces", "veth0"},
                                                        {"config", "smartnic"},
                                                        {"flow-table", "65536"}};
  for (const auto& [what, expected] : kCases) {
    const Outcome outcome = Run({"show", what});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(expected));
    EXPECT_FALSE(Json({"show", what}).is_discarded()) << what;
  }
  EXPECT_EQ(Json({"show"})["instance"], "default");
  EXPECT_THAT(Run({"metrics"}).out, HasSubstr("# TYPE spillway_packets_forwarded_total counter"));
}

TEST_F(CliWithDaemon, DrainsAndUndoes) {
  const Outcome drained = Run({"drain", "rack1/s1/nic"});
  EXPECT_EQ(drained.exit_code, 0) << drained.err;
  EXPECT_EQ(drained.out, "rack1/s1/nic: draining, capacity 1\n");
  EXPECT_EQ(Json({"show", "units"})[1]["status"], "draining");
  EXPECT_EQ(Run({"drain", "rack1/s1/nic", "--undo"}).exit_code, 0);
  EXPECT_EQ(Json({"show", "units"})[1]["status"], "up");
}

TEST_F(CliWithDaemon, SetsUnitsAndServices) {
  EXPECT_EQ(Json({"set", "unit", "rack1/s1/nic", "status=down", "capacity=2.5"})["capacity"], 2.5);
  EXPECT_EQ(Json({"show", "units"})[1]["status"], "down");
  EXPECT_EQ(Run({"set", "unit", "rack1/s1/nic", "forget_reports=true"}).exit_code, 0);
  EXPECT_EQ(Json({"set", "service", "dns", "unit_policy=wrr", "idle=30s"})["changes"].size(), 2u);
  EXPECT_EQ(Json({"show", "services"})[0]["unit_policy"], "wrr");
}

TEST_F(CliWithDaemon, RefusalsOfTheDaemonAreBadInput) {
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{"drain", "rack1/s1/gpu"}, "rack1/s1/gpu: no such unit"},
      {{"set", "service", "web", "idle=3"}, "web: no such service"},
      {{"set", "unit", "rack1/s1/nic", "status=gone"}, "status: expected up, draining or down"},
      {{"set", "unit", "rack1/s1/nic", "colour=red"}, "unknown key \"colour\""}};
  for (const auto& [words, expected] : kCases) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(expected));
  }
}

TEST_F(CliWithDaemon, AppliesAFileOrSaysWhatWouldChange) {
  Edit("capacity: 6", "capacity: 4");
  const Outcome dry = Run({"apply", folder_.File("pool.yaml"), "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("1 change, not applied"));
  EXPECT_EQ(Json({"show", "units"})[0]["capacity"], 6);
  const Outcome wet = Run({"apply", folder_.File("pool.yaml")});
  EXPECT_EQ(wet.exit_code, 0) << wet.err;
  EXPECT_THAT(wet.out, HasSubstr("1 change applied, 3 of 101 ring slots moved"));
  EXPECT_EQ(Json({"show", "units"})[0]["capacity"], 4);
}

TEST_F(CliWithDaemon, ABadFileIsNamedByThePathTheUserGave) {
  Edit("capacity: 6", "capacity: 0");
  const Outcome outcome = Run({"apply", folder_.File("pool.yaml")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(folder_.File("pool.yaml") + ":13"));
  EXPECT_EQ(Json({"show", "units"})[0]["capacity"], 6);
}

TEST_F(CliWithDaemon, KeyFilesAreFoundBesideThePoolFile) {
  folder_.Write("s1.key", "000102030405060708090a0b0c0d0e0f\n");
  Edit("- name: s1", "- name: s1\n        key_file: s1.key");
  EXPECT_EQ(Run({"apply", folder_.File("pool.yaml")}).exit_code, 0);
  // The edited configuration finds them again, though the daemon's folder is another.
  EXPECT_EQ(Run({"set", "unit", "rack1/s1/nic", "capacity=3"}).exit_code, 0);
}

TEST_F(CliWithDaemon, StatsAndTopRepeatOnRequest) {
  EXPECT_THAT(Run({"stats", "--all"}).out, HasSubstr("reports_forged"));
  EXPECT_THAT(Run({"stats"}).out, HasSubstr("nothing counted yet"));
  const Outcome watched = Run({"stats", "--watch", "--all", "--count", "2", "--interval", "0.05"});
  EXPECT_EQ(watched.exit_code, 0) << watched.err;
  EXPECT_THAT(watched.out, HasSubstr("PER SECOND"));
  const Outcome top = Run({"top", "--count", "2", "--interval", "0.05"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_THAT(top.out, HasSubstr("rack1/s1/nic"));
}

// Whatever came before the error could be a valid file that lacks services.
TEST(StandardInput, ThatCannotBeReadToItsEndIsRefused) {
  const Outcome outcome = testing::RunProgram({"/bin/sh", "-c", std::string(SPILLWAY) + " check - < /tmp"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "spillway: standard input: expected a readable file: Is a directory\n");
}

}  // namespace
}  // namespace spillway
