// SPDX-License-Identifier: Apache-2.0
// The `health` blocks of the pool file: what they say, what services take from the one for all, what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/diff.h"
#include "model/yaml.h"
#include "pool_text.h"

namespace spillway::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string WithHealth(const std::string& block) {
  return With(kText, "pool: rack1}", "pool: rack1, health: " + block + "}");
}

HealthCheck CheckFrom(const std::string& text) {
  auto config = ParseConfig(text, "pool.yaml");
  EXPECT_TRUE(config) << config.error().message;
  if (!config || !config->services[0].health) return {};
  return *config->services[0].health;
}

TEST(Health, ThereIsNoCheckUnlessTheFileSaysSo) {
  auto config = ParseConfig(kText, "pool.yaml");
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->services[0].health);
}

TEST(Health, DefaultsAreTheDocumentedOnes) {
  HealthCheck expected;
  expected.port = 53;
  EXPECT_EQ(CheckFrom(WithHealth("{check: tcp}")), expected);
  EXPECT_EQ(expected.interval_ms, 1000u);
  EXPECT_EQ(expected.timeout_ms, 500u);
  EXPECT_EQ(expected.rise, 2u);
  EXPECT_EQ(expected.fall, 3u);
  EXPECT_EQ(expected.jitter, 0.1);
  EXPECT_EQ(expected.dampening_ms, 5000u);
  EXPECT_EQ(expected.dampening_limit_ms, 300'000u);
  EXPECT_EQ(expected.on_fail, OnFail::kKeep);
}

// Only looked at for whether there is a certificate.
std::string PemFile() {
  const std::string path = ::testing::TempDir() + "spillway-health-" + std::to_string(getpid()) + ".pem";
  std::ofstream(path) << "subject: any\n-----BEGIN CERTIFICATE-----\n";
  return path;
}

TEST(Health, EveryKeyIsRead) {
  const HealthCheck web =
      CheckFrom(WithHealth("{check: https, port: 8443, interval: 250ms, timeout: 100ms, rise: 1, fall: 5, "
                           "jitter: 0.25, dampening: 2s, "
                           "dampening_limit: 1m, on_fail: move, host: example.org, path: /healthz, status: "
                           "[200, 300-399], body: fine, "
                           "ca_file: " +
                           PemFile() + "}"));
  EXPECT_EQ(web.kind, CheckKind::kHttps);
  EXPECT_EQ(web.port, 8443);
  EXPECT_EQ(web.interval_ms, 250u);
  EXPECT_EQ(web.timeout_ms, 100u);
  EXPECT_EQ(web.rise, 1u);
  EXPECT_EQ(web.fall, 5u);
  EXPECT_EQ(web.jitter, 0.25);
  EXPECT_EQ(web.dampening_ms, 2000u);
  EXPECT_EQ(web.dampening_limit_ms, 60'000u);
  EXPECT_EQ(web.on_fail, OnFail::kMove);
  EXPECT_EQ(web.host, "example.org");
  EXPECT_EQ(web.path, "/healthz");
  EXPECT_THAT(web.statuses, ElementsAre(std::pair(200, 200), std::pair(300, 399)));
  EXPECT_EQ(web.body, "fine");
  EXPECT_EQ(web.ca_file, PemFile());
  std::filesystem::remove(web.ca_file);
  const HealthCheck dns =
      CheckFrom(WithHealth("{check: dns, query: example.org, type: AAAA, rcode: nxdomain}"));
  EXPECT_EQ(dns.query, "example.org");
  EXPECT_EQ(dns.type, "AAAA");
  EXPECT_EQ(dns.rcode, "nxdomain");
  const HealthCheck udp = CheckFrom(WithHealth("{check: udp, payload: 'hex:00fF', expect: pong}"));
  EXPECT_EQ(udp.payload, std::string("\0\xff", 2));
  EXPECT_EQ(udp.expect, "pong");
  const HealthCheck exec =
      CheckFrom(WithHealth("{check: exec, command: [/bin/sh, -c, 'exit 3'], exit_status: 3}"));
  EXPECT_THAT(exec.command, ElementsAre("/bin/sh", "-c", "exit 3"));
  EXPECT_EQ(exec.exit_status, 3);
}

TEST(Health, ThePortIsTheServicesFirstThatFits) {
  const std::string ports = With(kText, "[udp/53, tcp/53]", "[tcp/853, udp/5353, tcp/53]");
  const auto port = [&](const std::string& block) {
    return CheckFrom(With(ports, "pool: rack1}", "pool: rack1, health: " + block + "}")).port;
  };
  EXPECT_EQ(port("{check: tcp}"), 853);
  EXPECT_EQ(port("{check: dns, query: .}"), 5353);
  EXPECT_EQ(port("{check: exec, command: [/bin/true]}"), 853);
  EXPECT_EQ(port("{check: http, port: 9000}"), 9000);
}

TEST(Health, AServiceTakesFromTheBlockForAllWhatItDoesNotSay) {
  const std::string text = "health: {check: http, path: /up, interval: 2s, fall: 7}\n" + kText;
  HealthCheck inherited = CheckFrom(text);
  EXPECT_EQ(inherited.kind, CheckKind::kHttp);
  EXPECT_EQ(inherited.path, "/up");
  EXPECT_EQ(inherited.fall, 7u);
  const auto with = [&](const std::string& block) {
    return CheckFrom(With(text, "pool: rack1}", "pool: rack1, health: " + block + "}"));
  };
  const HealthCheck changed = with("{interval: 5s}");
  EXPECT_EQ(changed.path, "/up");
  EXPECT_EQ(changed.interval_ms, 5000u);
  EXPECT_EQ(changed.fall, 7u);
  const HealthCheck other = with("{check: https}");
  EXPECT_EQ(other.path, "/") << "what belongs to another kind is not taken over";
  EXPECT_EQ(other.interval_ms, 2000u);
}

TEST(Health, AServiceMayHaveNoneWhereOthersHaveOne) {
  auto config = ParseConfig(
      "health: {check: tcp}\n" + With(kText, "pool: rack1}", "pool: rack1, health: {check: none}}"),
      "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->services[0].health);
}

TEST(Health, TheBlockForAllMaySayWhenAndHowOftenOnly) {
  auto config = ParseConfig("health: {interval: 3s}\n" + kText, "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->services[0].health);
  EXPECT_EQ(CheckFrom("health: {interval: 3s}\n" + WithHealth("{check: tcp}")).interval_ms, 3000u);
}

TEST(Health, TheBlockForAllHoldsInEveryDocument) {
  EXPECT_EQ(CheckFrom(kText + "---\nhealth: {check: tcp, rise: 9}\n").rise, 9u);
}

TEST(Health, AProgramsPathIsRelativeToTheFile) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("spillway-health-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "check.sh") << "#!/bin/sh\n";
  std::filesystem::permissions(folder / "check.sh", std::filesystem::perms::owner_all);
  const auto config = ParseConfig(WithHealth("{check: exec, command: [check.sh]}"), folder / "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->services[0].health->command[0], folder / "check.sh");
  std::filesystem::remove_all(folder);
}

TEST(Health, ChangesAreNamed) {
  auto from = ParseConfig(kText, "pool.yaml"), to = ParseConfig(WithHealth("{check: tcp}"), "pool.yaml");
  ASSERT_TRUE(from && to);
  EXPECT_THAT(Diff(*from, *to),
              ElementsAre(StartsWith("service dns: health none -> {check: tcp, port: 53, ")));
  EXPECT_THAT(Diff(*to, *to), ElementsAre());
}

struct BadBlock {
  const char *block, *says;
};

void PrintTo(const BadBlock& bad, std::ostream* out) { *out << bad.block; }

class BadHealth : public testing::TestWithParam<BadBlock> {};

TEST_P(BadHealth, IsRefusedInOneLine) {
  const std::string problem = Problem(WithHealth(GetParam().block));
  EXPECT_THAT(problem, StartsWith("pool.yaml:5: services[dns].health"));
  EXPECT_THAT(problem, HasSubstr(GetParam().says));
  EXPECT_EQ(problem.find('\n'), std::string::npos) << "one cause, one line: " << problem;
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadHealth,
    testing::Values(
        BadBlock{"tcp", "health: expected a map, got \"tcp\""},
        BadBlock{"{check: ping}",
                 "health.check: expected one of none, tcp, tls, http, https, dns, udp, exec, got \"ping\""},
        BadBlock{"{interval: 1s, path: /}", "health.check: expected the kind of check"},
        BadBlock{"{check: tcp, chekc: tcp}", "unknown key \"chekc\", did you mean check?"},
        BadBlock{"{check: tcp, port: 0}", "health.port: expected a whole number from 1 to 65535"},
        BadBlock{"{check: tcp, interval: 9ms}",
                 "health.interval: expected a duration such as 3s or 300ms, from 10ms to 1h"},
        BadBlock{"{check: tcp, timeout: 0ms}", "health.timeout: expected a duration"},
        BadBlock{"{check: tcp, timeout: 61s}", "from 1ms to 1m"},
        BadBlock{"{check: tcp, rise: 0}", "health.rise: expected"},
        BadBlock{"{check: tcp, fall: 101}", "health.fall: expected a whole number from 1 to 100"},
        BadBlock{"{check: tcp, jitter: 0.6}", "health.jitter: expected a number from 0 to 0.5"},
        BadBlock{"{check: tcp, dampening: 2h}", "health.dampening: expected a duration"},
        BadBlock{"{check: tcp, dampening: 10s, dampening_limit: 5s}",
                 "expected at least the dampening (10000 ms)"},
        BadBlock{"{check: tcp, on_fail: kill}", "health.on_fail: expected one of keep, move"},
        BadBlock{"{check: tcp, path: /}",
                 "health.path: allowed only in a check of kind http or https, got it in a check of kind tcp"},
        BadBlock{"{check: none, path: /}", "got it in a check without a kind"},
        BadBlock{"{check: http, ca_file: /etc/passwd}", "allowed only in a check of kind tls or https"},
        BadBlock{"{check: http, path: up}", "health.path: expected a path that begins with '/'"},
        BadBlock{"{check: http, path: '/a b'}", "without spaces"},
        BadBlock{"{check: http, status: 600}", "health.status: expected a status or a range of them"},
        BadBlock{"{check: http, status: 300-200}", "expected a status or a range"},
        BadBlock{"{check: http, status: []}", "expected at least one status"},
        BadBlock{"{check: http, host: 'a b'}", "(it is sent, never resolved)"},
        BadBlock{"{check: http, body: ''}", "health.body: expected 1 to 1024 bytes"},
        BadBlock{"{check: https, ca_file: /etc/passwd}",
                 "health.ca_file: expected a file of certificates in PEM, got \"/etc/passwd\": none in it"},
        BadBlock{"{check: https, ca_file: /nonexistent}",
                 "expected a readable file of certificates, got \"/nonexistent\": no such file"},
        BadBlock{"{check: dns}", "health.query: expected the domain name to ask for, got nothing"},
        BadBlock{"{check: dns, query: a..b}", "expected a domain name"},
        BadBlock{"{check: dns, query: x, type: ANY}", "health.type: expected one of A, NS"},
        BadBlock{"{check: dns, query: x, rcode: ok}", "health.rcode: expected one of noerror"},
        BadBlock{"{check: udp}", "health.payload: expected the bytes to send, got nothing"},
        BadBlock{"{check: udp, payload: 'hex:0'}",
                 "health.payload: expected 1 to 1024 bytes, as printable text or as hex:0a0b"},
        BadBlock{"{check: exec}", "health.command: expected a list"},
        BadBlock{"{check: exec, command: []}", "expected 1 to 64 words, got 0"},
        BadBlock{"{check: exec, command: [/nonexistent]}",
                 "expected an executable file, got \"/nonexistent\": no such file"},
        BadBlock{"{check: exec, command: [/etc/passwd]}", "Permission denied"},
        BadBlock{"{check: exec, command: [/bin/true], exit_status: 256}",
                 "health.exit_status: expected a whole number"}));

// Whoever may ask for a check of a configuration need not have spillwayd's memory.
TEST(Health, OfAFileOfCertificatesOnlyTheBeginningIsRead) {
  const std::string path = PemFile();
  std::ofstream(path).close();
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0);
  EXPECT_THAT(Problem(WithHealth("{check: https, ca_file: " + path + "}")),
              HasSubstr("expected a file of certificates in PEM"));
  std::filesystem::remove(path);
}

TEST(Health, ACheckThatFitsNoPortOfItsServiceIsRefused) {
  const std::string udp = With(kText, "[udp/53, tcp/53]", "[udp/53]");
  EXPECT_EQ(Problem(With(udp, "pool: rack1}", "pool: rack1, health: {check: tcp}}")),
            "pool.yaml:5: services[dns].health: expected a check for the service's ports, or one with a port "
            "of its "
            "own (no check: {check: none}), got kind tcp for a service with udp ports only");
  EXPECT_THAT(Problem("health: {check: tcp}\n" + udp),
              StartsWith("pool.yaml:6: services[dns].health: expected"));
}

TEST(Health, TheBlockForAllStandsOnce) {
  EXPECT_EQ(Problem("health: {check: tcp}\n" + kText + "---\nhealth: {check: tcp}\n"),
            "pool.yaml:15: health: already in another document of the file");
}

}  // namespace
}  // namespace spillway::model
