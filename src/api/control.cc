// SPDX-License-Identifier: Apache-2.0
#include "control.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "model/diff.h"
#include "model/parse.h"
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

void LogHealth(const switching::HealthNews& news) {
  const std::string name = fmt::format("unit {}/{}/{}", news.pool, news.server, news.unit);
  if (!news.now.failing) {
    spdlog::info("{}: answers again, or its agent is silent{}", name,
                 news.before.taken_out ? "; back in the choice" : "");
    return;
  }
  const char* why = news.now.refused ? "it refuses requests" : "it answers no requests";
  if (news.now.taken_out)
    spdlog::warn("{}: failing for {:.1f} s: {}; taken out of the choice but for probes", name,
                 news.now.out_ms / 1e3, why);
  else
    spdlog::warn("{}: failing: {}; kept in the choice, as half of its pool is out already", name, why);
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

Result<switching::ApplyReport> Control::Check(const std::string& yaml, const std::string& file_name) {
  const auto config = model::ParseConfig(yaml, file_name);
  if (!config) return tl::make_unexpected(config.error());
  const std::lock_guard lock(mutex_);
  if (const auto same = SameKind(*config); !same) return tl::make_unexpected(same.error());
  return switch_.Check(*config);
}

Result<switching::ApplyReport> Control::Apply(const std::string& yaml, const std::string& file_name) {
  const auto config = model::ParseConfig(yaml, file_name);  // reads key files: not under the mutex
  const std::lock_guard lock(mutex_);
  return TakeFile(config, file_name);
}

Result<switching::ApplyReport> Control::Reload() {
  const auto config = model::LoadConfig(info_.config_path);
  const std::lock_guard lock(mutex_);
  return TakeFile(config, info_.config_path);
}

std::optional<Result<void>> Control::ChangeUnit(const std::string& pool, const std::string& server,
                                                const std::string& unit, const UnitChange& change) {
  const std::lock_guard lock(mutex_);
  model::Config config = switch_.config();
  model::Unit* const found = FindUnit(config, pool, server, unit);
  if (found == nullptr) return std::nullopt;
  if (change.capacity) {
    found->capacity = *change.capacity;
    if (const auto taken = Take(Revalidate(config)); !taken) return tl::make_unexpected(taken.error());
  }
  if (change.forget_reports)
    if (const auto done = switch_.ForgetReports(pool, server, unit); !done) return done;
  if (change.status) {
    if (const auto done = switch_.SetUnitStatus(pool, server, unit, *change.status); !done) return done;
    spdlog::info("unit {}/{}/{}: {}", pool, server, unit, model::ToString(*change.status));
  }
  return Result<void>();
}

std::optional<Result<switching::ApplyReport>> Control::ChangeService(const std::string& name,
                                                                     const ServiceChange& change) {
  const std::lock_guard lock(mutex_);
  model::Config config = switch_.config();
  model::Service* const service = FindService(config, name);
  if (service == nullptr) return std::nullopt;
  if (change.unit_policy) service->unit_policy = *change.unit_policy;
  if (change.server_policy) service->server_policy = *change.server_policy;
  if (change.idle_s) service->idle_s = *change.idle_s;
  return Take(Revalidate(config));
}

Result<switching::ApplyReport> Control::TakeFile(const Result<model::Config>& config,
                                                 const std::string& file) {
  auto report = Take(config);
  last_apply_ok_ = report.has_value();
  if (report) applied_file_ = file;
  return report;
}

// With a switch or without one is what spillwayd was started as.
Result<void> Control::SameKind(const model::Config& config) const {
  const bool now = switch_.config().HasSwitch();
  if (config.HasSwitch() == now) return {};
  return Fail(ErrorCode::kBadInput,
              fmt::format("switch: expected {} one, as spillwayd was started; restart it to change that",
                          now ? "a file with" : "a file without"));
}

Result<switching::ApplyReport> Control::Take(const Result<model::Config>& config) {
  auto report = config.and_then([this](const model::Config& taken) {
    return SameKind(taken).and_then([&] { return switch_.Apply(taken); });
  });
  if (!report) {
    spdlog::error("configuration refused, the running one is kept");
    std::istringstream lines(report.error().message);  // a file's problems are told together
    for (std::string line; std::getline(lines, line);) spdlog::error("configuration: {}", line);
    return report;
  }
  apply_time_s_ = UnixTime();
  for (const std::string& change : report->changes) spdlog::info("configuration: {}", change);
  spdlog::info("configuration applied: {} changes, {} of {} ring slots moved", report->changes.size(),
               report->slots_moved, report->slots_total);
  SaveLastGood();
  return report;
}

// An edited configuration passes through the same door as a file, so no rule is checked twice or never.
Result<model::Config> Control::Revalidate(const model::Config& config) const {
  return model::ParseConfig(model::ToYaml(config), "edited configuration");
}

void Control::SaveLastGood() const {
  if (info_.last_good_path.empty()) return;
  const auto written = report::WriteFile(info_.last_good_path, model::ToYaml(switch_.config()));
  if (!written) spdlog::warn("the last good configuration is not saved: {}", written.error().message);
}

void Control::Tick() {
  const std::lock_guard lock(mutex_);
  switch_.Tick();
  for (const switching::HealthNews& news : switch_.TakeHealthNews()) LogHealth(news);
}

void Control::OnNetlink() {
  const std::lock_guard lock(mutex_);
  switch_.OnNetlink();
}

double Control::uptime_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

Snapshot Control::Read() const {
  const std::lock_guard lock(mutex_);
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
          .counters = switch_.Counters()};
}

std::string Control::ConfigYaml() const {
  const std::lock_guard lock(mutex_);
  return model::ToYaml(switch_.config());
}

}  // namespace spillway::api
