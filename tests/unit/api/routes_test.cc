// SPDX-License-Identifier: Apache-2.0
#include "api/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fake_switch.h"
#include "model/parse.h"

namespace spillway::api {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class Routes : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("spillway-routes-" + std::to_string(getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    Write(testing::PoolYaml());
    control_.emplace(switch_, DaemonInfo{"1.2.3", "blue", File("pool.yaml"), File("last-good.yaml")});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(const char* name) const { return folder_ / name; }
  void Write(const std::string& yaml) const { std::ofstream(File("pool.yaml")) << yaml; }
  std::string Read(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(File(name)).rdbuf();
    return text.str();
  }

  Response Get(const std::string& path) { return Route(*control_, {"GET", path, {}, ""}); }
  Response Post(const std::string& path, const std::string& body,
                std::map<std::string, std::string> query = {}) {
    return Route(*control_, {"POST", path, std::move(query), body});
  }
  static std::string ErrorOf(const Response& response) {
    const json body = json::parse(response.body);
    return body.at("error").get<std::string>();
  }

  std::filesystem::path folder_;
  testing::FakeSwitch switch_{testing::PoolConfig()};
  std::optional<Control> control_;
};

TEST_F(Routes, StatusTellsWhoItIsAndCountsUnits) {
  switch_.status["rack1/s1/nic"] = SPW_UNIT_DRAINING;
  switch_.failing = {{"rack1", "s1", "cpu", {}, false}};
  switch_.touch_up = [](switching::UnitView& unit) { unit.health.failing = true; };
  const json status = json::parse(Get("/v1/status").body);
  EXPECT_EQ(status["version"], "1.2.3");
  EXPECT_EQ(status["instance"], "blue");
  EXPECT_EQ(status["units"]["up"], 1);
  EXPECT_EQ(status["units"]["draining"], 1);
  EXPECT_EQ(status["units"]["silent"], 2);
  EXPECT_EQ(status["units"]["ejected"], 1);
  EXPECT_EQ(status["units"]["failing"], 2) << "by their agents' word";
  EXPECT_EQ(status["units"]["failing_checks"], 0) << "nothing is checked here";
  EXPECT_EQ(status["fail_open"], 0);
  EXPECT_EQ(status["interfaces"][0]["mode"], "generic");
  EXPECT_EQ(status["interfaces"][0]["why_generic"], "the driver has no XDP");
  EXPECT_EQ(status["flow_table"]["capacity"], 65536);
}

TEST_F(Routes, StatusNamesTheFileThatRunsAndWhetherTheLastOneWasRefused) {
  const std::string start = json::parse(Get("/v1/status").body)["applied_file"];
  EXPECT_EQ(json::parse(Get("/v1/status").body)["config_file"], start);
  ASSERT_EQ(Post("/v1/apply", testing::PoolYaml(), {{"name", "mine.yaml"}}).status, 200);
  EXPECT_EQ(json::parse(Get("/v1/status").body)["applied_file"], "mine.yaml");
  ASSERT_EQ(Post("/v1/apply", "nonsense", {{"name", "bad.yaml"}}).status, 400);
  EXPECT_EQ(json::parse(Get("/v1/status").body)["applied_file"], "mine.yaml");
  EXPECT_EQ(json::parse(Get("/v1/status").body)["last_apply_ok"], false);
}

TEST_F(Routes, AMistypedChangeIsNoRefusedFile) {
  ASSERT_EQ(Post("/v1/units/rack1/s1/nic", R"({"capacity": 1e9})").status, 400);
  EXPECT_EQ(json::parse(Get("/v1/status").body)["last_apply_ok"], true);
}

TEST_F(Routes, UnitsSpeakTheWordsOfThePoolFile) {
  switch_.touch_up = [](switching::UnitView& unit) {
    if (unit.unit != "nic") return;
    unit.report_age_ms = 12.5;
    unit.base_us = 3100;
    unit.slot_ns = 436'500;
    unit.knee_us = 872;
    unit.health = {.failing = true, .taken_out = true, .out_ms = 1500, .failing_ms = 2500};
  };
  const json units = json::parse(Get("/v1/units").body);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[1]["pool"], "rack1");
  EXPECT_EQ(units[1]["server"], "s1");
  EXPECT_EQ(units[1]["unit"], "nic");
  EXPECT_EQ(units[1]["kind"], "smartnic");
  EXPECT_EQ(units[1]["address"], "10.0.1.2");
  EXPECT_EQ(units[1]["status"], "up");
  EXPECT_EQ(units[1]["report_age_ms"], 12.5);
  EXPECT_EQ(units[1]["base_us"], 3100);
  EXPECT_EQ(units[1]["slot_us"], 436.5);
  EXPECT_EQ(units[1]["knee_us"], 872);
  EXPECT_EQ(units[0]["slot_us"], 0);
  EXPECT_EQ(units[1]["failing"], json({{"reason", "unanswered"},
                                       {"taken_out", true},
                                       {"excused", false},
                                       {"kept", nullptr},
                                       {"failing_ms", 2500.0},
                                       {"since_ms", 1500.0}}));
  EXPECT_TRUE(units[0]["failing"].is_null());
  EXPECT_TRUE(units[0]["report_age_ms"].is_null());
}

TEST_F(Routes, AFailingUnitHasItsReason) {
  using Reason = switching::FailingReason;
  for (const auto& [reason, word] : {std::pair{Reason::kUnanswered, "unanswered"},
                                     {Reason::kRefused, "refused"},
                                     {Reason::kErrors, "errors"}}) {
    switch_.touch_up = [reason = reason](switching::UnitView& unit) {
      unit.health = {.failing = true, .reason = reason};
    };
    EXPECT_EQ(json::parse(Get("/v1/units").body)[0]["failing"]["reason"], word);
  }
}

TEST_F(Routes, UnitsWithoutACheckHaveNoHealth) {
  EXPECT_TRUE(json::parse(Get("/v1/units").body)[0]["health"].is_null());
  EXPECT_EQ(json::parse(Get("/v1/units").body)[0]["ejected"], false);
  EXPECT_EQ(json::parse(Get("/v1/health").body), json::array());
  EXPECT_TRUE(json::parse(Get("/v1/services").body)[0]["health"].is_null());
}

TEST_F(Routes, NobodyHasCommandsRunThroughTheApi) {
  const auto with = [](const std::string& command) {
    return Replaced(testing::PoolYaml(), "unit_policy: p4mite",
                    "unit_policy: p4mite, health: {check: exec, command: [" + command + "]}");
  };
  for (const char* path : {"/v1/check", "/v1/apply"}) {
    const Response refused = Post(path, with("/bin/true"));
    EXPECT_EQ(refused.status, 400);
    EXPECT_THAT(ErrorOf(refused),
                HasSubstr("services[dns].health.command: expected a command that is already in use"));
  }
  EXPECT_FALSE(switch_.config().services[0].health);
  // Its own file may name one; from then on it is known.
  Write(with("/bin/true"));
  ASSERT_TRUE(control_->Reload());
  EXPECT_EQ(Post("/v1/apply", with("/bin/true")).status, 200);
  EXPECT_EQ(Post("/v1/apply", with("/bin/true, more")).status, 400);
  EXPECT_EQ(Post("/v1/services/dns", R"({"unit_policy": "wrr"})").status, 200);
}

TEST_F(Routes, ServicesInterfacesAndFlowTableAreShown) {
  const json services = json::parse(Get("/v1/services").body);
  EXPECT_EQ(services[0]["name"], "dns");
  EXPECT_EQ(services[0]["vip"], "203.0.113.53");
  EXPECT_EQ(services[0]["ports"], json({"udp/53", "tcp/53"}));
  EXPECT_EQ(services[0]["unit_policy"], "p4mite");
  EXPECT_EQ(services[0]["slots_moved"], 2);
  EXPECT_EQ(json::parse(Get("/v1/interfaces").body)[0]["name"], "veth0");
  EXPECT_EQ(json::parse(Get("/v1/flow-table").body)["used"], 1024);
}

TEST_F(Routes, EveryCounterOfTheDataPlaneIsThere) {
  switch_.counters.reports_forged = 7;
  const json counters = json::parse(Get("/v1/counters").body);
  EXPECT_EQ(counters.size(), sizeof(spw_counters) / sizeof(__u64));
  EXPECT_EQ(counters["reports_forged"], 7);
  EXPECT_EQ(counters["packets_forwarded"], 0);
}

TEST_F(Routes, ConfigIsYamlThatParsesToTheSame) {
  const Response response = Get("/v1/config");
  EXPECT_EQ(response.content_type, "application/yaml");
  const auto config = model::ParseConfig(response.body, "again.yaml");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(*config, switch_.config());
}

TEST_F(Routes, CheckTellsChangesAndChangesNothing) {
  const Response response = Post("/v1/check", Replaced(testing::PoolYaml(), "capacity: 6", "capacity: 4"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json::parse(response.body)["changes"].size(), 1u);
  EXPECT_EQ(json::parse(response.body)["notes"][0], "a note");
  EXPECT_EQ(switch_.config(), testing::PoolConfig());
}

TEST_F(Routes, ADryRunIsRefusedAsTheApplyWouldBe) {
  switch_.refuse = Error{ErrorCode::kBadInput, "its size is fixed"};
  const Response response = Post("/v1/apply", testing::PoolYaml(), {{"dry_run", "1"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(ErrorOf(response), HasSubstr("its size is fixed"));
}

TEST_F(Routes, AMisspeltDryRunChangesNothing) {
  const std::string edited = Replaced(testing::PoolYaml(), "capacity: 6", "capacity: 4");
  for (const std::map<std::string, std::string>& query :
       {std::map<std::string, std::string>{{"dry-run", "1"}}, {{"dryrun", "1"}}, {{"dry_run", "2"}}}) {
    const Response response = Post("/v1/apply", edited, query);
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_THAT(ErrorOf(response), HasSubstr(query.begin()->first));
  }
  EXPECT_EQ(Post("/v1/units/rack1/s1/nic", R"({"status": "down"})", {{"dry_run", "1"}}).status, 400);
  EXPECT_EQ(switch_.config(), testing::PoolConfig());
}

TEST_F(Routes, WhatOnlyTheSwitchCanRefuseIsToldWithItsPlaceInTheFile) {
  switch_.refuse = Error{ErrorCode::kBadInput, "pools.rack1.servers[s1].code: expected 3, got 4"};
  for (const char* path : {"/v1/check", "/v1/apply"}) {
    const Response response = Post(path, testing::PoolYaml(), {{"name", "mine.yaml"}});
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(ErrorOf(response),
                MatchesRegex("mine.yaml:[0-9]+: pools.rack1.servers\\[s1\\].code: expected 3, got 4"));
    EXPECT_THAT(ErrorOf(response), Not(HasSubstr("mine.yaml:1:")));
  }
}

TEST_F(Routes, CheckNamesTheFaultyPlace) {
  const Response response =
      Post("/v1/check", Replaced(testing::PoolYaml(), "capacity: 6", "capacity: 0"), {{"name", "mine.yaml"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(ErrorOf(response), HasSubstr("mine.yaml:13"));
  EXPECT_THAT(ErrorOf(response), HasSubstr("capacity"));
}

TEST_F(Routes, ApplyChangesTheSwitchAndSavesTheConfiguration) {
  const Response response = Post("/v1/apply", Replaced(testing::PoolYaml(), "capacity: 6", "capacity: 4"));
  ASSERT_EQ(response.status, 200) << response.body;
  const json body = json::parse(response.body);
  EXPECT_EQ(body["slots_moved"], 3);
  EXPECT_EQ(body["changes"].size(), 1u);
  EXPECT_EQ(switch_.config().pools[0].servers[0].units[0].capacity, 4);
  EXPECT_EQ(Read("last-good.yaml"), Get("/v1/config").body);
}

TEST_F(Routes, DryRunAppliesNothing) {
  const Response response =
      Post("/v1/apply", Replaced(testing::PoolYaml(), "capacity: 6", "capacity: 4"), {{"dry_run", "1"}});
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(json::parse(response.body)["dry_run"], true);
  EXPECT_EQ(json::parse(response.body)["changes"].size(), 1u);
  EXPECT_EQ(switch_.config(), testing::PoolConfig());
}

TEST_F(Routes, BadApplyKeepsTheRunningAndTheSavedConfiguration) {
  const std::string saved = Read("last-good.yaml");
  EXPECT_THAT(saved, Not(IsEmpty()));
  for (const char* yaml : {"", "switch: [", "services: 3", "\xff\xfe\x00junk", "a: &a [*a]"}) {
    const Response response = Post("/v1/apply", yaml);
    EXPECT_EQ(response.status, 400) << yaml;
    EXPECT_FALSE(ErrorOf(response).empty());
  }
  EXPECT_EQ(switch_.config(), testing::PoolConfig());
  EXPECT_EQ(Read("last-good.yaml"), saved);
  EXPECT_THAT(Get("/metrics").body, HasSubstr("spillway_config_last_apply_successful 0"));
}

TEST_F(Routes, RefusalsOfTheSwitchKeepTheirCause) {
  const std::pair<ErrorCode, int> kCases[] = {{ErrorCode::kBadInput, 400},
                                              {ErrorCode::kConflict, 409},
                                              {ErrorCode::kUnavailable, 503},
                                              {ErrorCode::kSystem, 500}};
  for (const auto& [code, status] : kCases) {
    switch_.refuse = Error{code, "no such luck"};
    const Response response = Post("/v1/apply", testing::PoolYaml());
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(ErrorOf(response), "no such luck");
  }
}

TEST_F(Routes, UnitStatusCanBeSet) {
  for (const auto& [word, status] : std::map<std::string, spw_unit_status>{
           {"draining", SPW_UNIT_DRAINING}, {"down", SPW_UNIT_DOWN}, {"up", SPW_UNIT_UP}}) {
    const Response response = Post("/v1/units/rack1/s1/nic", json{{"status", word}}.dump());
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(json::parse(response.body)["status"], word);
    EXPECT_EQ(switch_.status["rack1/s1/nic"], status);
    EXPECT_FALSE(json::parse(response.body).contains("notes"));
  }
}

TEST_F(Routes, AServiceThatTakesNoNewFlowsAnyMoreIsNoted) {
  switch_.notes = {"service dns takes no new flows"};
  const Response response = Post("/v1/units/rack1/s1/nic", R"({"status": "down"})");
  EXPECT_EQ(json::parse(response.body)["notes"], json({"service dns takes no new flows"}));
}

TEST_F(Routes, CapacityGoesIntoTheConfiguration) {
  ASSERT_EQ(Post("/v1/units/rack1/s1/nic", R"({"capacity": 2.5})").status, 200);
  EXPECT_EQ(switch_.config().pools[0].servers[0].units[1].capacity, 2.5);
  EXPECT_THAT(Read("last-good.yaml"), HasSubstr("2.5"));
}

TEST_F(Routes, ForgettingReportsReachesThatUnitOnly) {
  const Response response = Post("/v1/units/rack1/s1/nic", R"({"forget_reports": true})");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(json::parse(response.body)["notes"],
            json({"unit rack1/s1/nic: its reports are forgotten, the next authentic one counts"}));
  EXPECT_THAT(switch_.forgotten, ElementsAre("rack1/s1/nic"));
  ASSERT_EQ(Post("/v1/units/rack1/s1/cpu", R"({"forget_reports": false})").status, 200);
  EXPECT_THAT(switch_.forgotten, ElementsAre("rack1/s1/nic"));
}

TEST_F(Routes, ServicePoliciesCanBeSet) {
  const Response response = Post("/v1/services/dns", R"({"unit_policy": "wrr", "idle": 30})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json::parse(response.body).at("dry_run"), false) << "an answer like that to an apply";
  EXPECT_EQ(switch_.config().services[0].unit_policy, SPW_UNIT_WRR);
  EXPECT_EQ(switch_.config().services[0].server_policy, SPW_SERVER_MAGLEV);
  EXPECT_EQ(switch_.config().services[0].idle_s, 30u);
}

TEST_F(Routes, IdleTimesAreSecondsOrDurationsWithinTheRangeOfThePoolFile) {
  const auto idle_s = [this] { return switch_.config().services[0].idle_s; };
  EXPECT_EQ(Post("/v1/services/dns", R"({"idle": "2m"})").status, 200);
  EXPECT_EQ(idle_s(), 120u);
  for (const char* bad :
       {R"({"idle": "300ms"})", R"({"idle": "2"})", R"({"idle": "5h"})", R"({"idle": 99999})"})
    EXPECT_EQ(Post("/v1/services/dns", bad).status, 400) << bad;
  EXPECT_EQ(idle_s(), 120u);
  EXPECT_EQ(Post("/v1/services/dns", R"({"idle": 0})").status, 200);
  EXPECT_EQ(idle_s(), 0u);
}

TEST_F(Routes, MalformedChangesAreRefusedWithTheKeyAndWhatWasExpected) {
  // Deeper than the stack holds calls.
  const std::string nested = R"({"capacity": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"/v1/units/rack1/s1/nic", "", "not JSON"},
      {"/v1/units/rack1/s1/nic", "{", "not JSON"},
      {"/v1/units/rack1/s1/nic", "[]", "\"status\""},
      {"/v1/units/rack1/s1/nic", "{}", "\"capacity\""},
      {"/v1/units/rack1/s1/nic", "null", "JSON object"},
      {"/v1/units/rack1/s1/nic", R"({"state": "up"})", "unknown key \"state\", expected any of \"status\""},
      {"/v1/units/rack1/s1/nic", R"({"a\nb\u007f": 1})", R"(unknown key "a\x0ab\x7f", expected)"},
      {"/v1/units/rack1/s1/nic", R"({"status": "asleep"})",
       "status: expected up, draining or down, got \"asleep\""},
      {"/v1/units/rack1/s1/nic", R"({"status": "absent"})", "status: expected"},
      {"/v1/units/rack1/s1/nic", R"({"status": [1]})", "status: expected up, draining or down, got a list"},
      {"/v1/units/rack1/s1/nic", R"({"capacity": "6"})", "capacity: expected a number above 0"},
      {"/v1/units/rack1/s1/nic", R"({"capacity": 0})", "capacity: expected a number above 0"},
      {"/v1/units/rack1/s1/nic", nested.c_str(), "capacity: expected a number above 0, got a list"},
      {"/v1/units/rack1/s1/nic", R"({"capacity": -1})", "capacity: expected a number above 0"},
      {"/v1/units/rack1/s1/nic", R"({"capacity": 1e999})", "not JSON"},
      {"/v1/units/rack1/s1/nic", R"({"forget_reports": 1})", "forget_reports: expected true or false"},
      {"/v1/services/dns", R"({"unit_policy": "fair"})", "unit_policy: expected p4mite"},
      {"/v1/services/dns", R"({"server_policy": []})", "server_policy: expected maglev"},
      {"/v1/services/dns", R"({"idle": -3})", "idle: expected whole seconds"},
      {"/v1/services/dns", R"({"idle": 1.5})", "idle: expected whole seconds"},
      {"/v1/services/dns", "{\"\xff\": 1}", "not JSON"},
  };
  for (const auto& [path, body, message] : kCases) {
    const Response response = Post(path, body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(ErrorOf(response), HasSubstr(message)) << body;
  }
  EXPECT_EQ(switch_.config(), testing::PoolConfig());
  EXPECT_THAT(switch_.status, IsEmpty());
}

TEST_F(Routes, OneBadKeyChangesNothing) {
  EXPECT_EQ(Post("/v1/units/rack1/s1/nic", R"({"status": "down", "capacity": -2})").status, 400);
  EXPECT_EQ(Post("/v1/services/dns", R"({"unit_policy": "wrr", "idle": "x"})").status, 400);
  EXPECT_THAT(switch_.status, IsEmpty());
  EXPECT_EQ(switch_.config(), testing::PoolConfig());
}

TEST_F(Routes, UnknownNamesAreNotFound) {
  for (const char* path : {"/v1/units/rack1/s1/gpu", "/v1/units/rack2/s1/nic", "/v1/units/rack1/s2/nic"})
    EXPECT_EQ(Post(path, R"({"status": "up"})").status, 404) << path;
  EXPECT_EQ(Post("/v1/services/web", R"({"idle": 3})").status, 404);
  for (const char* path : {"/", "", "/v1", "/v1/", "/v2/units", "/v1/units/rack1", "/v1/nothing",
                           "/v1/services/a/b", "//v1/units", "/v1/status/"})
    EXPECT_EQ(Get(path).status, 404) << path;
}

TEST_F(Routes, WrongMethodsNameTheRightOne) {
  EXPECT_EQ(Post("/v1/status", "").status, 405);
  EXPECT_EQ(Post("/v1/status", "").allow, "GET");
  EXPECT_EQ(Get("/v1/apply").status, 405);
  EXPECT_EQ(Get("/v1/apply").allow, "POST");
  EXPECT_EQ(Get("/v1/services/dns").status, 405);
  EXPECT_EQ(Post("/metrics", "").status, 405);
}

TEST_F(Routes, TheMetricsListenerServesNothingElse) {
  EXPECT_EQ(RouteMetrics(*control_, {"GET", "/metrics", {}, ""}).status, 200);
  EXPECT_EQ(RouteMetrics(*control_, {"POST", "/metrics", {}, ""}).status, 405);
  EXPECT_EQ(RouteMetrics(*control_, {"GET", "/v1/units", {}, ""}).status, 404);
  EXPECT_EQ(RouteMetrics(*control_, {"POST", "/v1/apply", {}, testing::PoolYaml()}).status, 404);
}

TEST_F(Routes, ReloadTakesTheFileOrKeepsWhatRuns) {
  Write(Replaced(testing::PoolYaml(), "capacity: 6", "capacity: 5"));
  ASSERT_TRUE(control_->Reload().has_value());
  EXPECT_EQ(switch_.config().pools[0].servers[0].units[0].capacity, 5);
  Write("switch: {");
  ASSERT_FALSE(control_->Reload().has_value());
  EXPECT_EQ(switch_.config().pools[0].servers[0].units[0].capacity, 5);
}

// A rule that takes more than the key which is edited.
TEST_F(Routes, AnEditThatBreaksARuleOfTheWholeIsRefused) {
  const Response response = Post("/v1/units/rack1/s1/nic", R"({"capacity": 1e9})");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(ErrorOf(response),
              StartsWith("pools.rack1.servers[s1].units[cpu].capacity: expected at least 1/10000"));
  EXPECT_EQ(switch_.config(), testing::PoolConfig());
}

// Keys change when their file is applied, not when somebody edits a capacity after it was replaced.
TEST_F(Routes, AnEditReadsNoFiles) {
  std::ofstream(File("s1.key")) << "000102030405060708090a0b0c0d0e0f\n";
  Write(Replaced(testing::PoolYaml(), "- name: s1", "- name: s1\n        key_file: s1.key"));
  ASSERT_TRUE(control_->Reload().has_value());
  const auto key = switch_.config().pools[0].servers[0].key;
  std::ofstream(File("s1.key")) << "ff0102030405060708090a0b0c0d0e0f\n";
  ASSERT_EQ(Post("/v1/units/rack1/s1/nic", R"({"capacity": 3})").status, 200);
  EXPECT_EQ(switch_.config().pools[0].servers[0].units[1].capacity, 3);
  EXPECT_EQ(switch_.config().pools[0].servers[0].key, key);
}

}  // namespace
}  // namespace spillway::api
