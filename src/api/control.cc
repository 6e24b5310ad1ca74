// SPDX-License-Identifier: Apache-2.0
#include "control.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "api/listen.h"
#include "model/diff.h"
#include "model/parse.h"
#include "model/validate.h"
#include "model/yaml.h"
#include "report/file.h"

namespace spillway::api {
namespace {

double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

model::Unit* FindUnit(model::Config& config, const std::string& pool, const std::string& server,
                      const std::string& unit) {
  for (model::Pool& p : config.pools)
    for (model::Server& s : p.servers)
      for (model::Unit& u : s.units)
        if (p.name == pool && s.name == server && u.name == unit) return &u;
  return nullptr;
}

const char* WhyKept(std::optional<switching::KeptFor> kept) {
  switch (kept.value_or(switching::KeptFor::kHalf)) {
    case switching::KeptFor::kChecks:
      return "still chosen, as it passes its checks";
    case switching::KeptFor::kCommon:
      return "still chosen, as nearly all units of its pool answer errors";
    case switching::KeptFor::kNoNewFlows:
      return "it gets no new flows as it is";
    default:
      return "still chosen, as at most half of a pool's units are taken out";
  }
}

void LogAgentNews(const switching::HealthNews& news) {
  const std::string name = fmt::format("unit {}/{}/{}", news.pool, news.server, news.unit);
  if (!news.now.failing) {
    spdlog::info("{}: answers again, or its agent is silent{}", name,
                 news.before.taken_out ? "; chosen again" : "");
    return;
  }
  const auto reason = news.now.reason;
  const char* why = reason == switching::FailingReason::kErrors    ? "it answers with errors"
                    : reason == switching::FailingReason::kRefused ? "it refuses requests"
                                                                   : "it answers no requests";
  if (news.now.taken_out)
    spdlog::warn("{}: failing for {:.1f} s: {}; no longer chosen, except for probes", name,
                 news.now.out_ms / 1e3, why);
  else
    spdlog::warn("{}: failing according to its agent: {}; {}", name, why, WhyKept(news.now.kept));
}

model::Service* FindService(model::Config& config, const std::string& name) {
  for (model::Service& service : config.services)
    if (service.name == name) return &service;
  return nullptr;
}

}  // namespace

Control::Control(switching::Switch& sw, DaemonInfo info)
    : info_(std::move(info)),
      switch_(sw),
      start_time_s_(UnixTime()),
      apply_time_s_(start_time_s_),
      applied_file_(info_.config_path) {
  SaveLastGood();
}

Result<void> Control::StartChecks() {
  const base::MutexLock lock(mutex_);  // its first change waits until checker_ is set
  auto checker = health::Checker::Start(
      switch_.config(), [this](const auto& changes, const auto& failing) { OnChecks(changes, failing); });
  if (!checker) return tl::make_unexpected(checker.error());
  checker_ = std::move(*checker);
  return {};
}

void Control::OnChecks(const std::vector<health::CheckChange>& changes,
                       const std::vector<health::FailingUnit>& failing) {
  for (const health::CheckChange& change : changes) {
    const std::string unit = fmt::format("{}/{}/{}", change.pool, change.server, change.unit);
    if (change.skipped > 0)
      spdlog::warn(
          "health: {} checks could not be run and say nothing about their units; the latest, of {}, service "
          "{}: {}",
          change.skipped, unit, change.service, change.reason);
    else if (change.state == health::CheckState::kFailing)
      spdlog::warn("health of {}, service {}: failing, {}", unit, change.service, change.reason);
    else
      spdlog::info("health of {}, service {}: up, after {:.1f} s", unit, change.service, change.before_s);
  }
  std::vector<switching::FailingUnit> units;
  for (const health::FailingUnit& unit : failing)
    units.push_back({unit.pool, unit.server, unit.unit, unit.since, unit.move});
  const base::MutexLock lock(mutex_);
  switch_.SetFailing(units);
  LogCheckNews();
}

void Control::LogCheckNews() {
  for (const switching::CheckNews& news : switch_.TakeCheckNews())
    spdlog::log(news.trouble ? spdlog::level::warn : spdlog::level::info, "{}", news.text);
}

std::vector<health::CheckView> Control::Checks() const {
  return checker_ ? checker_->Views() : std::vector<health::CheckView>();
}

Result<switching::ApplyReport> Control::Check(const std::string& yaml, const std::string& file_name) {
  const auto file = model::ParsePoolFile(yaml, file_name);
  if (!file) return tl::make_unexpected(file.error());
  const base::MutexLock lock(mutex_);
  if (const auto good = NoNewCommands(file->config); !good)
    return tl::make_unexpected(file->At(good.error()));
  return switch_.Check(file->config).map_error([&](const Error& error) { return file->At(error); });
}

Result<switching::ApplyReport> Control::Apply(const std::string& yaml, const std::string& file_name) {
  auto file = model::ParsePoolFile(yaml, file_name);  // reads key files: not under the mutex
  const base::MutexLock lock(mutex_);
  if (file)
    if (const auto good = NoNewCommands(file->config); !good)
      file = tl::make_unexpected(file->At(good.error()));
  return TakeFile(file, file_name);
}

Result<switching::ApplyReport> Control::Reload() {
  const auto file = model::LoadPoolFile(info_.config_path);
  const base::MutexLock lock(mutex_);
  return TakeFile(file, info_.config_path);
}

std::optional<Result<std::vector<std::string>>> Control::ChangeUnit(const std::string& pool,
                                                                    const std::string& server,
                                                                    const std::string& unit,
                                                                    const UnitChange& change) {
  const base::MutexLock lock(mutex_);
  model::Config config = switch_.config();
  model::Unit* const found = FindUnit(config, pool, server, unit);
  if (found == nullptr) return std::nullopt;
  if (change.capacity) {
    found->capacity = *change.capacity;
    if (const auto taken = TakeEdited(config); !taken) return tl::make_unexpected(taken.error());
  }
  std::vector<std::string> forgotten;
  if (change.forget_reports) {
    if (const auto done = switch_.ForgetReports(pool, server, unit); !done)
      return tl::make_unexpected(done.error());
    forgotten.push_back(fmt::format("unit {}/{}/{}: its reports are forgotten, the next authentic one counts",
                                    pool, server, unit));
    spdlog::info("{}", forgotten.front());
  }
  if (!change.status) return forgotten;
  auto notes = switch_.SetUnitStatus(pool, server, unit, *change.status);
  if (!notes) return notes;
  spdlog::info("unit {}/{}/{}: {}", pool, server, unit, model::ToString(*change.status));
  for (const std::string& note : *notes) spdlog::warn("{}", note);
  LogCheckNews();
  notes->insert(notes->begin(), forgotten.begin(), forgotten.end());
  return notes;
}

std::optional<Result<switching::ApplyReport>> Control::ChangeService(const std::string& name,
                                                                     const ServiceChange& change) {
  const base::MutexLock lock(mutex_);
  model::Config config = switch_.config();
  model::Service* const service = FindService(config, name);
  if (service == nullptr) return std::nullopt;
  if (change.unit_policy) service->unit_policy = *change.unit_policy;
  if (change.server_policy) service->server_policy = *change.server_policy;
  if (change.idle_s) service->idle_s = *change.idle_s;
  return TakeEdited(config);
}

Result<switching::ApplyReport> Control::TakeFile(const Result<model::PoolFile>& file,
                                                 const std::string& name) {
  auto report = Conclude(file.and_then([this](const model::PoolFile& read) SPILLWAY_REQUIRES(mutex_) {
    return switch_.Apply(read.config).map_error([&](const Error& error) { return read.At(error); });
  }));
  last_apply_ok_ = report.has_value();
  if (report) applied_file_ = name;
  return report;
}

// Who may use the API may change the switch, but not run programs as spillwayd's user.
Result<void> Control::NoNewCommands(const model::Config& config) const {
  for (const model::Service& service : config.services) {
    if (!service.health || service.health->kind != model::CheckKind::kExec) continue;
    const auto& running = switch_.config().services;
    const bool known = std::any_of(running.begin(), running.end(), [&](const model::Service& other) {
      return other.health && other.health->kind == model::CheckKind::kExec &&
             other.health->command == service.health->command;
    });
    if (!known)
      return Fail(
          ErrorCode::kBadInput,
          fmt::format("services[{}].health.command: expected a command that is already in use, got a "
                      "new one: commands are taken only from spillwayd's own file, at its start and by "
                      "SIGHUP",
                      service.name));
  }
  return {};
}

Result<switching::ApplyReport> Control::Conclude(Result<switching::ApplyReport> report) {
  if (!report) {
    spdlog::error("configuration refused, the running one is kept");
    std::istringstream lines(report.error().message);  // a file's problems come together
    for (std::string line; std::getline(lines, line);) spdlog::error("configuration: {}", line);
    return report;
  }
  apply_time_s_ = UnixTime();
  for (const std::string& change : report->changes) spdlog::info("configuration: {}", change);
  spdlog::info("configuration applied: {} change{}, {} of {} ring slots moved", report->changes.size(),
               report->changes.size() == 1 ? "" : "s", report->slots_moved, report->slots_total);
  LogCheckNews();
  if (checker_) checker_->SetConfig(switch_.config());
  SaveLastGood();
  return report;
}

Result<switching::ApplyReport> Control::TakeEdited(const model::Config& config) {
  return Conclude(
      model::CheckEdited(config).and_then([&]() SPILLWAY_REQUIRES(mutex_) { return switch_.Apply(config); }));
}

void Control::SaveLastGood() const {
  if (info_.last_good_path.empty()) return;
  const auto written = report::WriteFile(info_.last_good_path, model::ToYaml(switch_.config()));
  if (!written) spdlog::warn("the last good configuration is not saved: {}", written.error().message);
}

// Agents that say of a unit that it is dead, while it answers its checks.
void Control::CarryWitnesses() {
  if (!checker_) return;
  std::set<health::UnitName> said;
  for (const auto& unit : switch_.SaidDead()) said.emplace(unit.pool, unit.server, unit.unit);
  std::vector<switching::WitnessedUnit> witnessed;
  for (const health::Witness& witness : checker_->Witnesses(said)) {
    const auto& [pool, server, unit] = witness.unit;
    witnessed.push_back({pool, server, unit, witness.since, witness.last, witness.pace});
  }
  switch_.SetWitnessed(witnessed);
}

void Control::Tick() {
  const base::MutexLock lock(mutex_);
  CarryWitnesses();
  switch_.Tick();
  LogCheckNews();
  for (const switching::HealthNews& news : switch_.TakeHealthNews()) LogAgentNews(news);
}

void Control::OnNetlink() {
  const base::MutexLock lock(mutex_);
  switch_.OnNetlink();
  LogCheckNews();
}

double Control::uptime_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

Snapshot Control::Read() const {
  std::vector<health::CheckView> checks = Checks();  // under the checker's own lock
  const base::MutexLock lock(mutex_);
  return {.version = info_.version,
          .instance = info_.instance,
          .start_time_s = start_time_s_,
          .apply_time_s = apply_time_s_,
          .last_apply_ok = last_apply_ok_,
          .applied_file = applied_file_,
          .adopted = switch_.adopted(),
          .interfaces = switch_.Interfaces(),
          .units = switch_.Units(),
          .services = switch_.Services(),
          .flow_table = switch_.FlowTable(),
          .counters = switch_.Counters(),
          .checks = std::move(checks)};
}

std::string Control::ConfigYaml() const {
  const base::MutexLock lock(mutex_);
  return model::ToYaml(switch_.config());
}

}  // namespace spillway::api
