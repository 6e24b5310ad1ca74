// SPDX-License-Identifier: Apache-2.0
#include "no_switch.h"

#include "model/diff.h"

namespace spillway::command {
namespace {

class NoSwitch : public switching::Switch {
 public:
  explicit NoSwitch(const model::Config& config) : config_(config) {}

  bool adopted() const override { return false; }
  Result<switching::ApplyReport> Apply(const model::Config& config) override {
    auto report = Check(config);
    config_ = config;
    return report;
  }
  Result<switching::ApplyReport> Check(const model::Config& config) const override {
    return switching::ApplyReport{.changes = model::Diff(config_, config), .notes = {}};
  }
  const model::Config& config() const override { return config_; }
  // There are no units to call so.
  Result<void> SetUnitStatus(const std::string&, const std::string&, const std::string&,
                             spw_unit_status) override {
    return {};
  }
  Result<void> ForgetReports(const std::string&, const std::string&, const std::string&) override {
    return {};
  }
  void SetFailing(const std::vector<switching::FailingUnit>&) override {}
  std::vector<switching::CheckNews> TakeCheckNews() override { return {}; }
  void Tick() override {}
  int netlink_fd() const override { return -1; }
  void OnNetlink() override {}
  std::vector<switching::InterfaceView> Interfaces() const override { return {}; }
  std::vector<switching::UnitView> Units() const override { return {}; }
  std::vector<switching::ServiceView> Services() const override { return {}; }
  switching::FlowTableView FlowTable() const override { return {}; }
  spw_counters Counters() const override { return {}; }
  Result<void> Remove() override { return {}; }

 private:
  model::Config config_;
};

}  // namespace

std::unique_ptr<switching::Switch> MakeNoSwitch(const model::Config& config) {
  return std::make_unique<NoSwitch>(config);
}

}  // namespace spillway::command
