// SPDX-License-Identifier: Apache-2.0
// Active health checks of DNS and TLS servers, with agents and without.
#include <gmock/gmock.h>

#include <regex>

#include "checks_bed.h"

namespace spillway::e2e {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class DnsHealth : public ChecksTest {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("knotd", "dnsperf");
    BringUp();
  }
  lab::TestbedSpec Spec() const override {
    lab::TestbedSpec spec =
        TwoModes("hd", GetParam().family, {{model::Protocol::kUdp, 53}, {model::Protocol::kTcp, 53}});
    spec.name += model::ToString(GetParam().policy)[0];
    for (lab::ServiceSpec& service : spec.services) {
      service.unit_policy = GetParam().policy;
      service.affinity = SPW_AFFINITY_NONE;
    }
    for (const char* server : {"s1", "s2"})
      spec.servers.push_back(
          ServerOf(server, {{"cpu", SPW_KIND_CPU}, {"nic", SPW_KIND_SMARTNIC}}, lab::Workload::kKnot));
    return spec;
  }
  model::HealthCheck DefaultCheck() const override {
    model::HealthCheck check = Quick(model::CheckKind::kDns, 53);
    check.query = "h1.example.org";
    return check;
  }
  void ExpectAllAnswered() {
    for (const model::Service& service : bed_->config().services) {
      const Ran ran =
          bed_->InClient({"dnsperf", "-s", bed_->vip(service.name), "-d",
                          bed_->plan().folder + "/queries.txt", "-n", "1", "-c", "8", "-q", "20", "-t", "5"});
      EXPECT_EQ(ran.exit, 0) << ran.err;
      EXPECT_TRUE(std::regex_search(ran.out, std::regex("Response codes: +NOERROR 1000 \\(100.00%\\)")))
          << service.name << ": " << ran.out;
    }
  }
};

TEST_P(DnsHealth, AServerThatHangsOrIsKilledLosesNoQuestions) {
  ExpectAllAnswered();
  SignalServer("s1-cpu", "knotd", SIGSTOP);
  ASSERT_TRUE(Is("s1", "cpu", true));
  EXPECT_EQ(Why("s1", "cpu"), "no answer within 300 ms");
  ExpectAllAnswered();
  SignalServer("s1-cpu", "knotd", SIGCONT);
  ASSERT_TRUE(Is("s1", "cpu", false));
  SignalServer("s1-cpu", "knotd", SIGKILL);
  ASSERT_TRUE(Is("s1", "cpu", true));
  EXPECT_EQ(Why("s1", "cpu"), "nobody listens (ICMP port unreachable)");
  ExpectAllAnswered();
  RestartServer("s1-cpu");
  ASSERT_TRUE(Is("s1", "cpu", false)) << ReadFile(bed_->plan().folder + "/s1-cpu.again.log");
  ExpectAllAnswered();
  const uint64_t before = bed_->Unit("s1", "cpu").at("packets");
  ASSERT_TRUE(Eventually([&] {
    ExpectAllAnswered();
    return bed_->Unit("s1", "cpu").at("packets") > before;
  })) << "it gets questions again";
}

TEST_P(DnsHealth, AnAnswerWithAnErrorIsAFailure) {
  model::HealthCheck check = DefaultCheck();
  check.query = "h1.example.com";  // not theirs
  ASSERT_NO_FATAL_FAILURE(Use(check));
  ASSERT_TRUE(AllAre("failing"));
  EXPECT_EQ(Why("s1", "cpu"), "rcode refused, expected noerror");
  ExpectAllAnswered();  // fail-open
}

INSTANTIATE_TEST_SUITE_P(Policy, DnsHealth,
                         testing::Values(CheckCase{4, SPW_UNIT_WRR}, CheckCase{4, SPW_UNIT_HOST_ONLY}),
                         CheckCaseName);

// The units' agents have a word of their own.
class DnsHealthWithAgents : public DnsHealth {
 protected:
  lab::TestbedSpec Spec() const override {
    lab::TestbedSpec spec = DnsHealth::Spec();
    spec.name = "ha";
    spec.services.erase(spec.services.begin());  // dsr alone
    for (lab::ServerSpec& server : spec.servers) server.units.resize(1);
    spec.agent.run = true;
    spec.agent.period = lab::Micros(5000);
    return spec;
  }
};

TEST_P(DnsHealthWithAgents, AServerThatBothFindDeadIsBackWhenBothFindItWell) {
  const auto failing = [&] { return bed_->Unit("s1", "cpu").at("failing"); };
  ASSERT_TRUE(Eventually([&] { return bed_->Unit("s1", "cpu").at("silent") == false; }));
  ExpectAllAnswered();
  EXPECT_TRUE(failing().is_null());
  SignalServer("s1-cpu", "knotd", SIGKILL);
  // The checks themselves show it to the agent, too.
  ASSERT_TRUE(Is("s1", "cpu", true));
  ASSERT_TRUE(Eventually([&] { return !failing().is_null(); }));
  const auto counts = bed_->Show("status").at("units");
  EXPECT_EQ(counts.at("failing"), 1);
  EXPECT_EQ(counts.at("failing_checks"), 1);
  EXPECT_EQ(counts.at("ejected"), 1);
  ExpectAllAnswered();
  const uint64_t before = bed_->Unit("s1", "cpu").at("new_flows");
  ExpectAllAnswered();
  EXPECT_EQ(bed_->Unit("s1", "cpu").at("new_flows"), before) << "it gets no probes while it is ejected";

  RestartServer("s1-cpu");
  ASSERT_TRUE(Is("s1", "cpu", false)) << ReadFile(bed_->plan().folder + "/s1-cpu.again.log");
  ASSERT_TRUE(Eventually([&] { return failing().is_null(); }));
  ExpectAllAnswered();
  EXPECT_GT(bed_->Unit("s1", "cpu").at("new_flows"), before + 100) << "it has its share again";
}

INSTANTIATE_TEST_SUITE_P(Policy, DnsHealthWithAgents, testing::Values(CheckCase{4, SPW_UNIT_WRR}),
                         CheckCaseName);

class TlsHealth : public ChecksTest {
 protected:
  void SetUp() override {
    SPW_SKIP_WITHOUT("nginx", "openssl");
    BringUp();
  }
  lab::TestbedSpec Spec() const override {
    lab::TestbedSpec spec = TwoModes("ht", GetParam().family, {{model::Protocol::kTcp, 443}});
    for (const char* server : {"s1", "s2"}) {
      spec.servers.push_back(ServerOf(server, {{"cpu", SPW_KIND_CPU}}, lab::Workload::kNginx));
      spec.servers.back().units[0].nginx.tls = true;
    }
    return spec;
  }
  model::HealthCheck DefaultCheck() const override { return Quick(model::CheckKind::kTls, 443); }
};

TEST_P(TlsHealth, TheHandshakeTheStatusAndTheCertificateAreChecked) {
  SignalServer("s1-cpu", "nginx", SIGSTOP);
  ASSERT_TRUE(Is("s1", "cpu", true));
  EXPECT_EQ(Why("s1", "cpu"), "no TLS handshake within 300 ms");
  SignalServer("s1-cpu", "nginx", SIGCONT);
  ASSERT_TRUE(Is("s1", "cpu", false));

  model::HealthCheck https = Quick(model::CheckKind::kHttps, 443);
  https.path = "/unit";
  https.body = "-cpu";
  ASSERT_NO_FATAL_FAILURE(Use(https));
  ASSERT_TRUE(AllAre("up"));
  https.ca_file = bed_->plan().folder + "/" + lab::kCertificateFile;  // its own CA, for another name
  https.host = "not-the-name.example";
  ASSERT_NO_FATAL_FAILURE(Use(https));
  ASSERT_TRUE(AllAre("failing")) << bed_->Show("health").dump(1);
  EXPECT_THAT(Why("s1", "cpu"), AnyOf(HasSubstr("name"), HasSubstr("certificate"))) << Why("s1", "cpu");
}

INSTANTIATE_TEST_SUITE_P(Ip, TlsHealth, testing::Values(CheckCase{4, SPW_UNIT_WRR}), CheckCaseName);

}  // namespace
}  // namespace spillway::e2e
