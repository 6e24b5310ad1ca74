// SPDX-License-Identifier: Apache-2.0
// A switch without a kernel: keeps a configuration and what operators said of its units.
//
// Threading: as the real one, not thread-safe, and TSan sees it: `calls` is a plain integer that every
// method touches.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "switch/switch.h"

namespace spillway::testing {

// A pool file without key files: service "dns" on pool "rack1" with server "s1", units "cpu" and "nic".
std::string PoolYaml();
model::Config PoolConfig();

class FakeSwitch : public switching::Switch {
 public:
  explicit FakeSwitch(model::Config config) : config_(std::move(config)) {}

  bool adopted() const override { return adopted_value; }
  Result<switching::ApplyReport> Check(const model::Config& config) const override;
  Result<switching::ApplyReport> Apply(const model::Config& config) override;
  const model::Config& config() const override { return config_; }
  Result<std::vector<std::string>> SetUnitStatus(const std::string& pool, const std::string& server,
                                                 const std::string& unit, spw_unit_status status) override;
  Result<void> ForgetReports(const std::string& pool, const std::string& server,
                             const std::string& unit) override;
  void SetFailing(const std::vector<switching::FailingUnit>& units) override {
    calls++;
    failing = units;
  }
  std::vector<switching::CheckNews> TakeCheckNews() override { return {}; }
  void Tick() override { calls++; }
  int netlink_fd() const override { return -1; }
  void OnNetlink() override { calls++; }
  std::vector<switching::InterfaceView> Interfaces() const override;
  std::vector<switching::UnitView> Units() const override;
  std::vector<switching::ServiceView> Services() const override;
  switching::FlowTableView FlowTable() const override;
  spw_counters Counters() const override;
  Result<void> Remove() override;

  mutable uint64_t calls = 0;
  bool adopted_value = false;
  std::optional<Error> refuse;         // what the next changes fail with
  std::vector<std::string> forgotten;  // units of ForgetReports
  spw_counters counters{};
  bool removed = false;
  std::vector<switching::FailingUnit> failing;  // of the last SetFailing; all of them are ejected
  // Units by "pool/server/unit"; what it sets stands in Units().
  std::map<std::string, spw_unit_status> status;
  std::vector<std::string> notes;                      // that SetUnitStatus gives
  std::function<void(switching::UnitView&)> touch_up;  // last word on each view

 private:
  model::Config config_;
};

}  // namespace spillway::testing
