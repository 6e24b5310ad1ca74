// SPDX-License-Identifier: Apache-2.0
#include "agent/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace spillway::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() : folder_(fs::temp_directory_path() / ("spillway_agent_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "good.key") << "000102030405060708090a0b0c0d0E0F\n";
    std::ofstream(folder_ / "short.key") << "0001";
  }
  ~ConfigTest() override { fs::remove_all(folder_); }

  Result<AgentConfig> Parse(const std::string& yaml) {
    return ParseAgentConfig(yaml, folder_ / "agent.yaml");
  }
  // The example with one line replaced (1-based).
  Result<AgentConfig> With(int line, const std::string& text) {
    std::vector<std::string> lines = {
        "switches: [192.0.2.1:9870, '[2001:db8::1]:9871']",
        "server: {code: 4, key_file: good.key}",
        "unit: 1",
        "interface: eth0",
        "services: [udp/53, tcp/53]",
        "meter: {kind: latency, protocol: dns, source: auto}",
        "trigger: {threshold: 100ms, release_ratio: 0.5, second_report_after: 5ms}",
        "report: {mode: on-threshold, period: 10ms, heartbeat: 2s}",
        "learn: {workers: 4}"};
    if (line > 0) lines[line - 1] = text;
    std::string yaml;
    for (const auto& one : lines) yaml += one + "\n";
    return Parse(yaml);
  }
  void ExpectError(int line, const std::string& text, const std::string& says) {
    const auto config = With(line, text);
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(config.error().message, HasSubstr(says)) << text;
    std::istringstream lines(config.error().message);
    for (std::string problem; std::getline(lines, problem);)
      EXPECT_THAT(problem, StartsWith((folder_ / "agent.yaml:").string()));
  }
  fs::path folder_;
};

TEST_F(ConfigTest, EveryKeyIsRead) {
  const auto config = With(0, "");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->switches.size(), 2u);
  EXPECT_EQ(config->switches[1].address.ss_family, AF_INET6);
  EXPECT_EQ(config->server_code, 4);
  EXPECT_EQ(config->key[10], 0x0a);
  EXPECT_EQ(config->key[15], 0x0f);
  EXPECT_EQ(config->unit, 1);
  EXPECT_EQ(config->services, (std::vector<ServicePort>{{false, 53}, {true, 53}}));
  EXPECT_TRUE(config->meter.dns);
  EXPECT_EQ(config->trigger.threshold, 100e6);
  EXPECT_EQ(config->trigger.second_report_after, 5ms);
  EXPECT_EQ(config->report.mode, ReportMode::kOnThreshold);
  EXPECT_EQ(config->report.heartbeat, 2s);
  EXPECT_EQ(config->learn.workers, 4u);
  EXPECT_EQ(config->state_file, "/var/lib/spillway-agent/4-1.boot");
  EXPECT_EQ(With(9, "state_file: boot")->state_file, (folder_ / "boot").string());
}

TEST_F(ConfigTest, CpuMeterNeedsNoInterface) {
  const auto config = Parse(
      "switches: [10.0.0.1]\nserver: {code: 0, key_file: good.key}\nunit: 0\n"
      "meter: {kind: cpu, cgroup: /unit0}\ntrigger: {threshold: 80%}\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_DOUBLE_EQ(config->trigger.threshold, 0.8);
  EXPECT_EQ(config->meter.cgroup, "/unit0");
  EXPECT_EQ(config->report.period, 20ms);
  EXPECT_EQ(config->learn.workers, 0u);
  const auto learns = Parse(
      "switches: [10.0.0.1]\nserver: {code: 0, key_file: good.key}\nunit: 0\n"
      "meter: {kind: cpu}\ntrigger: {threshold: 80%}\nlearn: {workers: 2}\n");
  ASSERT_FALSE(learns);
  EXPECT_THAT(learns.error().message, HasSubstr(":6: learn: allowed only with meter kind: latency"));
}

TEST_F(ConfigTest, FailureIsLookedForUnlessTheFileSaysOtherwise) {
  const auto usual = With(0, "");
  ASSERT_TRUE(usual) << usual.error().message;
  EXPECT_EQ(usual->failing, FailingConfig{});
  EXPECT_TRUE(usual->failing.detect);
  EXPECT_EQ(usual->failing.errors, (ErrorAnswers{true, true, true}));
  const auto said = With(9, "failing: {detect: false, after: 300ms, refused_share: 0.9, error_share: 0.8}");
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(said->failing, (FailingConfig{false, 300ms, 0.9, {}, 0.8}));
  const auto of_cpu = Parse(
      "switches: [10.0.0.1]\nserver: {code: 0, key_file: good.key}\nunit: 0\n"
      "meter: {kind: cpu}\ntrigger: {threshold: 80%}\nfailing: {after: 1s}\n");
  ASSERT_FALSE(of_cpu);
  EXPECT_THAT(of_cpu.error().message, HasSubstr(":6: failing: allowed only with meter kind: latency"));
}

TEST_F(ConfigTest, TheFileSaysWhichAnswersAreErrors) {
  const auto errors = [this](const std::string& list) {
    const auto config = With(9, "failing: {errors: " + list + "}");
    EXPECT_TRUE(config) << config.error().message;
    return config ? config->failing.errors : ErrorAnswers{};
  };
  EXPECT_EQ(errors("[]"), (ErrorAnswers{false, false, false}));
  EXPECT_EQ(errors("[servfail]"), (ErrorAnswers{true, false, false}));
  EXPECT_EQ(errors("[http-5xx, refused]"), (ErrorAnswers{false, true, true}));
  ExpectError(9, "failing: {errors: none}",
              ":9: failing.errors: expected a list of servfail, refused, http-5xx, got \"none\"");
  ExpectError(9, "failing: {errors: [nxdomain]}", ":9: failing.errors[#1]: expected a list of servfail");
  ExpectError(9, "failing: {errors: [[servfail]]}", ":9: failing.errors[#1]: expected a list of servfail");
  ExpectError(9, "failing: {error_share: 0}", ":9: failing.error_share: expected a number from 0.01 to 1");
  // A DNS server's agent that was not told so would never count one.
  const std::string web =
      "switches: [10.0.0.1]\nserver: {code: 0, key_file: good.key}\nunit: 0\ninterface: eth0\n"
      "services: [tcp/80]\ntrigger: {threshold: 1s}\nfailing: {errors: ";
  EXPECT_TRUE(Parse(web + "[http-5xx]}\n"));
  const auto no_dns = Parse(web + "[http-5xx, refused]}\n");
  ASSERT_FALSE(no_dns);
  EXPECT_THAT(no_dns.error().message,
              HasSubstr(":7: failing.errors[#2]: expected meter.protocol: dns with refused"));
}

TEST_F(ConfigTest, OfAProgramThatIsItsOwnMeterOnlyTheKindIsSaid) {
  const auto said = [&](const std::string& meter, const std::string& threshold = "80%") {
    const auto config =
        ParseAgentConfig("switches: [10.0.0.1]\nserver: {code: 0, key_file: good.key}\nunit: 0\n" + meter +
                             "\ntrigger: {threshold: " + threshold + "}\n",
                         folder_ / "agent.yaml", MeteredBy::kProgram);
    return config ? "" : config.error().message;
  };
  EXPECT_EQ(said("meter: {kind: cpu}"), "");
  EXPECT_THAT(said("meter: {kind: cpu, cgroup: /unit0}"),
              HasSubstr(":4: meter.cgroup: allowed only in an agent's own file"));
  EXPECT_THAT(said("meter:\n  kind: cpu\n  window: 100ms"),
              HasSubstr(":6: meter.window: allowed only in an agent's own file"));
  for (const char* latency : {"meter: {kind: latency}", "meter: {timeout: 5s}", "{}"})
    EXPECT_THAT(said((std::string(latency) == "{}" ? "" : std::string(latency) + "\n") +
                         "interface: eth0\nservices: [udp/53]",
                     "1s"),
                HasSubstr("expected cpu: the program reports its load as a share of its capacity"));
}

TEST_F(ConfigTest, ErrorsNameLineKeyAndExpectation) {
  ExpectError(1, "switches: []", ":1: switches: expected a list of ADDRESS[:PORT], got an empty one");
  for (const std::string wrong : {"192.0.2.1:0", "example.org:1", "2001:db8::1:9870", "2001:db8::1",
                                  "0.0.0.0", "224.0.0.1", "[::ffff:192.0.2.1]:9870"})
    ExpectError(1, "switches: ['" + wrong + "']", ":1: switches[#1]: expected a host's ADDRESS[:PORT]");
  ExpectError(1, "switches: [192.0.2.1, '[::1]:1', 192.0.2.1:9870]",
              ":1: switches[#3]: duplicate switch 192.0.2.1:9870");
  ExpectError(2, "server: {code: 4096, key_file: good.key}",
              ":2: server.code: expected a whole number from 0 to 4095, got \"4096\"");
  ExpectError(2, "server: {code: 4}", ":2: server.key_file: expected a file of 32 hex digits, got nothing");
  ExpectError(2, "server: {code: 4, key_file: short.key}",
              ":2: server.key_file: expected a file with 32 hex digits, made by ");
  ExpectError(2, "server: {code: 4, key_file: short.key}", "short.key: 4 hex digits");
  ExpectError(2, "server: {code: 4, key_file: none.key}", "none.key: No such file");
  ExpectError(3, "unit: 8", ":3: unit: expected a whole number from 0 to 7");
  ExpectError(3, "unti: 1", ":3: unknown key \"unti\", did you mean unit?");
  ExpectError(3, "", "unit: expected a whole number from 0 to 7, got nothing");
  for (const char* name : {"a-name-much-too-long", "\"\"", "\"a\\nb\"", "a/b"})
    ExpectError(4, std::string("interface: ") + name, ":4: interface: expected an interface's name, got");
  ExpectError(5, "services: [sctp/53]", ":5: services[#1]: expected tcp/PORT or udp/PORT");
  ExpectError(5, "services: [udp/53, udp/53]", ":5: services[#2]: duplicate service udp/53");
  ExpectError(5, "services: [udp/65536]", ":5: services[#1]: expected tcp/PORT or udp/PORT");
  ExpectError(6, "meter: {source: pcap}",
              ":6: meter.source: expected one of auto, bpf, af_packet, got \"pcap\"");
  ExpectError(6, "meter: {pending: 1000}", ":6: meter.pending: expected a power of two");
  ExpectError(6, "meter: latency", ":6: meter: expected a map, got \"latency\"");
  ExpectError(7, "", "trigger: expected a map such as {threshold: 100ms}, got nothing");
  ExpectError(7, "trigger: {threshold: 100}",
              ":7: trigger.threshold: expected a time from 2us to 10m, such as 1ms, got \"100\"");
  ExpectError(7, "trigger: {threshold: 80%}", ":7: trigger.threshold: expected a time");
  ExpectError(7, "trigger: {threshold: 20s}",
              ":7: trigger.threshold: expected less than meter.timeout (10s), got 20s");
  ExpectError(7, "trigger: {threshold: 1s, release_ratio: 2}",
              ":7: trigger.release_ratio: expected a number");
  ExpectError(7, "trigger: {threshold: 1s, release_queue: 5, queue_high: 5}",
              ":7: trigger.queue_high: expected");
  ExpectError(8, "report: {period: 2s}", ":8: report.period: expected heartbeat >= period, got 1s and 2s");
  ExpectError(8, "report: {check: 10us}", ":8: report.check: expected 0 or 100us and more, got 10us");
  ExpectError(8, "report: {mode: x}", ":8: report.mode: expected one of periodic, on-threshold");
  ExpectError(9, "learn: {workers: 0}", ":9: learn.workers: expected a whole number from 1 to 65535");
  ExpectError(9, "learn: {slot: 1ms}", ":9: learn: unknown key \"slot\", known are workers");
  ExpectError(9, "failing: {after: 0ms}", ":9: failing.after: expected a time from 1ms to 10m");
  ExpectError(9, "failing: {detect: maybe}", ":9: failing.detect: expected one of true, false");
  ExpectError(9, "failing: {refused_share: 2}",
              ":9: failing.refused_share: expected a number from 0.01 to 1");
  ExpectError(8, "unit: 2", ":8: unit: duplicate key, already on line 3");
  ExpectError(8, "report: {", ": expected YAML");
}

TEST_F(ConfigTest, AllProblemsAreReportedInTheOrderOfLines) {
  const auto config = Parse(
      "switches: [nowhere, 10.0.0.1]\nserver: {code: 5000, key_file: good.key}\ninterface: eth0\n"
      "services: [tcp/80, tcp/0]\nmeter: {window: 1h}\ntrigger: {threshold: 1s}\nreport: {mode: x, period: "
      "1m}\n");
  ASSERT_FALSE(config);
  std::vector<std::string> places;
  std::istringstream lines(config.error().message);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, (folder_ / "agent.yaml:").string().size());
    places.push_back(line.substr(0, line.find(": expected")));
  }
  EXPECT_THAT(places,
              ::testing::ElementsAre("1: switches[#1]", "1: unit", "2: server.code", "4: services[#2]",
                                     "5: meter.window", "7: report.mode", "7: report.period"));
}

// docs/agent.md lists key, value and default as the code has them; the meaning is its own.
TEST_F(ConfigTest, ThePageListsEveryKeyAsItIsRead) {
  std::ifstream in(SPILLWAY_SOURCE "/docs/agent.md");
  std::vector<std::string> listed, read;
  for (std::string line; std::getline(in, line) && line != "## What is a request";) {
    if (!line.starts_with("| `")) continue;
    size_t end = 0;
    for (int cell = 0; cell < 3; cell++) end = line.find(" | ", end + 1);
    listed.push_back(line.substr(0, end));
  }
  for (const KeyInfo& key : AgentKeys())
    read.push_back(fmt::format("| `{}` | {} | {}", key.path, key.takes, key.fallback));
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(read));
}

TEST_F(ConfigTest, ExamplesAreValid) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(SPILLWAY_SOURCE "/examples/agent")) {
    const auto config = LoadAgentConfig(entry.path());
    EXPECT_TRUE(config) << entry.path() << ": " << config.error().message;
    count++;
  }
  EXPECT_EQ(count, 3);
}

TEST_F(ConfigTest, NoMappingAtAll) {
  for (const char* text : {"", "- a", "word", "[", "\x01", "? {a: b}\n: c"})
    EXPECT_FALSE(Parse(text)) << text;
  EXPECT_EQ(LoadAgentConfig("/nowhere.yaml").error().code, ErrorCode::kBadInput);
}

}  // namespace
}  // namespace spillway::agent
