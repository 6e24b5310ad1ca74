// SPDX-License-Identifier: Apache-2.0
// Servers whose services have active health checks, signals for them, and what spillwayd says of its units.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "bed.h"
#include "cases.h"

namespace spillway::e2e {

struct CheckCase {
  int family;
  spw_unit_policy policy;
};

inline std::string CheckCaseName(const testing::TestParamInfo<CheckCase>& info) {
  std::string policy = model::ToString(info.param.policy);
  std::replace(policy.begin(), policy.end(), '-', '_');
  return fmt::format("V{}_{}", info.param.family, policy);
}

inline model::HealthCheck Quick(model::CheckKind kind, uint16_t port) {
  model::HealthCheck check;
  check.kind = kind;
  check.port = port;
  check.interval_ms = 50;
  check.timeout_ms = 300;
  check.rise = check.fall = 2;
  check.dampening_ms = 0;
  return check;
}

class ChecksTest : public testing::TestWithParam<CheckCase> {
 protected:
  virtual lab::TestbedSpec Spec() const = 0;
  virtual model::HealthCheck DefaultCheck() const = 0;

  void BringUp() {
    bed_ = beds_.Get(Spec());
    ASSERT_NE(bed_, nullptr) << beds_.error();
    ASSERT_NO_FATAL_FAILURE(Use(DefaultCheck()));
    ASSERT_TRUE(AllAre("up")) << bed_->Show("health").dump(1);
  }
  static void TearDownTestSuite() { beds_.Clear(); }

  static model::Config WithCheck(model::Config config, const model::HealthCheck& check) {
    for (model::Service& service : config.services) service.health = check;
    return config;
  }
  void Use(const model::HealthCheck& check) {
    const Ran ran = bed_->Apply(WithCheck(bed_->config(), check));
    ASSERT_EQ(ran.exit, 0) << ran.err;
  }
  bool AllAre(const std::string& state) {
    return Eventually([&] {
      const auto units = bed_->Show("units");
      return std::all_of(units.begin(), units.end(), [&](const auto& unit) {
        return unit.at("health").is_object() && unit.at("health").at("state") == state;
      });
    });
  }
  bool Is(const std::string& server, const std::string& unit, bool ejected) {
    return Eventually([&] {
      const auto shown = bed_->Unit(server, unit);
      return shown.at("ejected") == ejected && (shown.at("health").at("state") == "failing") == ejected;
    });
  }
  std::string Why(const std::string& server, const std::string& unit) {
    return bed_->Unit(server, unit).at("health").at("reason");
  }
  const lab::UnitPlan& PlanOf(const std::string& label) const {
    for (const lab::UnitPlan& unit : bed_->plan().units)
      if (unit.label == label) return unit;
    throw std::logic_error("no unit " + label);
  }
  void SignalServer(const std::string& label, const std::string& program, int signal) {
    const auto processes = ProcessesOf(label, program);
    for (const lab::ProcessId& id : processes) kill(id.pid, signal);
    ASSERT_FALSE(processes.empty()) << program << " does not run on " << label;
  }
  // nginx's old workers go on answering by the old file for a tenth of a second, beside the new ones.
  void ReloadNginx(const std::string& label) {
    const auto before = ProcessesOf(label, "nginx");
    SignalServer(label, "nginx", SIGHUP);
    ASSERT_TRUE(Eventually([&] { return std::count_if(before.begin(), before.end(), lab::IsAlive) == 1; }))
        << "all but the master end";
  }
  void RestartServer(const std::string& label) {
    const lab::UnitPlan& unit = PlanOf(label);
    // knotd takes the process of its last life, a zombie here, for another one that runs.
    std::remove(fmt::format("{}/{}.knot/knot.pid", bed_->plan().folder, label).c_str());
    const auto id = bed_->StartIn(unit.netns, unit.server_process->argv, label + ".again");
    ASSERT_TRUE(id) << id.error().message;
  }
  std::vector<lab::ProcessId> ProcessesOf(const std::string& label, const std::string& program) const {
    std::vector<lab::ProcessId> processes;
    for (const lab::ProcessId& id : lab::ProcessesIn(PlanOf(label).netns))
      if (ReadFile(fmt::format("/proc/{}/comm", id.pid)) == program + "\n") processes.push_back(id);
    return processes;
  }
  std::string Metrics() { return bed_->Cli({"metrics"}).out; }

  static inline SharedBeds beds_;
  Bed* bed_ = nullptr;
};

}  // namespace spillway::e2e
