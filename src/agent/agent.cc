// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <fmt/format.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "agent/boot_id.h"
#include "agent/meters/cpu_meter.h"
#include "agent/meters/reading.h"
#include "agent/meters/system_clock.h"
#include "agent/reporter.h"

namespace spillway::agent {
namespace {

constexpr Duration kStatsPeriod = std::chrono::seconds(1);
constexpr Duration kFollowEvery = std::chrono::milliseconds(500);  // a look at which interface has the name

Time Now() { return ReadClock(CLOCK_MONOTONIC); }

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result<std::unique_ptr<Meter>> OpenMeter(const AgentConfig& config) {
  if (config.meter.kind == MeterKind::kCpu) return OpenCpuMeter(config);
  auto meter = OpenLatencyMeter(config);
  if (!meter) return tl::make_unexpected(meter.error());
  return std::unique_ptr<Meter>(std::move(*meter));
}

}  // namespace

Agent::Agent(const AgentConfig& config, std::unique_ptr<Meter> meter)
    : config_(config),
      meter_(std::move(meter)),
      latency_(dynamic_cast<LatencyMeter*>(meter_.get())),
      ifindex_(static_cast<int>(if_nametoindex(config.interface.c_str()))),
      trigger_(config.trigger, config.meter.kind),
      failure_(config.failing),
      schedule_(config.report),
      reporter_(config),
      stats_at_(Now()) {}

Result<std::unique_ptr<Agent>> Agent::Start(const AgentConfig& config) {
  auto meter = OpenMeter(config);
  if (!meter) return tl::make_unexpected(meter.error());
  return std::unique_ptr<Agent>(new Agent(config, std::move(*meter)));
}

void Agent::Report(Time now, Verdict verdict, bool regular) {
  verdict.failure = failure_.failure();
  verdict_ = verdict;
  if (verdict.changed && verdict.busy) trips_++;
  const bool failure_changed = std::exchange(failure_changed_, false);
  if (verdict.failure != Failure::kNone || failure_changed) schedule_.Repeat();
  const bool news = verdict.changed || failure_changed || SwitchIsWrong();
  if (!schedule_.Due(now, regular, news)) return;
  reporter_.Send(Now(), verdict, reading_);  // not `now`: reading the meter took its time
  schedule_.Sent(now);
  view_.Reported(reading_.learnt);
}

void Agent::CheckSwitchView(Time now) {
  if (failure_.failure() != Failure::kNone) {  // nothing is asked of it
    view_.Advance(now, reading_.arrivals, 0);
    return;
  }
  reading_.learnt = latency_->Glance(now);
  const MeterTotals& totals = latency_->totals();
  reading_.at = now;
  reading_.queue = totals.pending;
  reading_.arrivals = totals.counts.arrivals;
  reading_.completed = totals.counts.completed;
  view_.Advance(now, reading_.arrivals, totals.pending);
  if (!SwitchIsWrong()) return;
  reporter_.Send(Now(), verdict_, reading_);
  view_.Reported(reading_.learnt);
  corrections_++;
}

bool Agent::SwitchIsWrong() const {
  return ChecksSwitchView() && failure_.failure() == Failure::kNone &&
         view_.IsWrong(reading_.learnt, static_cast<uint32_t>(latency_->totals().counts.untimed));
}

// Not for a policy by thresholds, which is to hear of those alone.
bool Agent::ChecksSwitchView() const { return latency_ && config_.report.Checks(); }

// A meter that knows no requests says nothing of their failure.
void Agent::JudgeFailure(Time now) {
  if (!latency_ || !config_.failing.detect) return;
  const Failure before = failure_.failure(), after = failure_.Update(now, reading_);
  if (after == before) return;
  failure_changed_ = true;
  if (after == Failure::kNone) {
    spdlog::info("the unit answers again");
    return;
  }
  if (before == Failure::kNone) failures_++;
  const char* why = after == Failure::kErrors    ? "it answers with errors"
                    : after == Failure::kRefused ? "it refuses requests"
                                                 : "it answers no requests";
  spdlog::warn("the unit fails: {}; {} requests pending, none answered for {:.0f} ms", why,
               reading_.queue.value_or(0), static_cast<double>(reading_.stall.count()) / 1e6);
}

// What a meter attached to an interface goes with it, without a word: the unit would seem idle for ever.
Result<void> Agent::FollowInterface(Time now) {
  if (!latency_) return {};
  if (now >= follow_at_) {
    follow_at_ = now + kFollowEvery;
    const auto attached = AttachAnew();
    why_detached_ = attached ? "" : attached.error().message;
  }
  if (why_detached_.empty()) return {};
  return Fail(ErrorCode::kSystem, why_detached_);
}

Result<void> Agent::AttachAnew() {
  const int index = static_cast<int>(if_nametoindex(config_.interface.c_str()));
  if (index == ifindex_) {
    const auto anew = latency_->KeepAttached();
    if (!anew) return tl::make_unexpected(anew.error());
    if (*anew) spdlog::warn("interface {} had lost the meter; metering it again", config_.interface);
    return {};
  }
  auto meter = OpenMeter(config_);
  if (!meter) return tl::make_unexpected(meter.error());
  spdlog::warn("interface {} was recreated; metering it again", config_.interface);
  meter_ = std::move(*meter);
  latency_ = dynamic_cast<LatencyMeter*>(meter_.get());
  ifindex_ = index;
  // All that was counted begins at nothing again.
  failure_changed_ = failure_.failure() != Failure::kNone;
  failure_ = FailureDetector(config_.failing);
  view_ = SwitchView();
  stats_counts_ = {};
  return {};
}

std::optional<Verdict> Agent::Look(Time now) {
  Result<Reading> reading = FollowInterface(now).and_then([&] { return meter_->Read(now); });
  if (!reading) {
    // E.g. the cgroup was removed and made anew: report nothing, so that the switch sees us silent.
    if (!meter_failed_) spdlog::error("meter: {}", reading.error().message);
    meter_failed_ = true;
    return std::nullopt;
  }
  if (meter_failed_) spdlog::info("meter: works again");
  meter_failed_ = false;
  reading_ = *reading;
  const Verdict verdict = trigger_.Update(now, reading_);
  JudgeFailure(now);
  verdict_ = verdict;
  view_.Advance(now, reading_.arrivals, reading_.queue.value_or(0));
  // While it fails, by the agent's word, a row of errors is no news.
  meter_->Watch(trigger_.busy(), config_.failing.detect && failure_.failure() == Failure::kNone);
  return verdict;
}

Result<void> Agent::Run(const std::function<void(const std::string&)>& on_stats) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
  if (signal_fd < 0) return Fail(ErrorCode::kSystem, fmt::format("signalfd: {}", strerror(errno)));
  reporter_.SetBootId(TakeBootId(config_.state_file));
  spdlog::info("unit {} of server {}: meter {}, reports to {} switch(es)", config_.unit, config_.server_code,
               meter_->name(), config_.switches.size());

  const bool checks = ChecksSwitchView();
  pollfd fds[] = {{signal_fd, POLLIN, 0}, {meter_->fd(), POLLIN, 0}};
  Time now = Now(), next_look = now, next_stats = now + kStatsPeriod;
  for (;;) {
    Time until = next_look;
    if (checks && !meter_failed_) until = std::min(until, view_.NextCheck(config_.report.check));
    if (trigger_.pulse_end()) until = std::min(until, *trigger_.pulse_end());
    if (on_stats) until = std::min(until, next_stats);
    const Duration wait = std::max<Duration>(until - now, Duration{0});
    const timespec timeout{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    fds[1].fd = meter_->fd();
    const int ready = ppoll(fds, 2, &timeout, nullptr);
    if (ready < 0 && errno != EINTR) {
      close(signal_fd);
      return Fail(ErrorCode::kSystem, fmt::format("poll: {}", strerror(errno)));
    }
    now = Now();
    if (ready > 0 && fds[0].revents) break;
    const bool regular = now >= next_look;
    bool look = regular;
    if (ready > 0 && fds[1].revents && meter_->Drain() == Notice::kLook) {
      notices_++;
      look = true;
    }
    if (const auto ended = trigger_.EndPulse(now)) Report(now, *ended, false);
    if (look) {
      if (const auto verdict = Look(now)) Report(now, *verdict, regular);
    } else if (checks && !meter_failed_ && now >= view_.NextCheck(config_.report.check)) {
      CheckSwitchView(now);
    }
    // Kept to its grid; a late wake-up skips looks instead of making them up.
    while (next_look <= now) next_look += config_.report.period;
    if (on_stats && now >= next_stats) {
      on_stats(Stats(now));
      while (next_stats <= now) next_stats += kStatsPeriod;
    }
  }
  close(signal_fd);
  if (on_stats) on_stats(Stats(Now()));
  spdlog::info("stopped: {} reports sent, {} failed, {} trips", reporter_.sent(), reporter_.failed(), trips_);
  return {};
}

Result<std::string> Agent::Once() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  Time now = Now();
  Look(now);
  Stats(now);  // from here the quantiles count
  for (const Time end = now + kStatsPeriod; now < end; now = Now()) {
    const Duration wait = std::min<Duration>(end - now, config_.report.period);
    const timespec timeout{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    if (sigtimedwait(&signals, nullptr, &timeout) > 0) return Fail(ErrorCode::kSystem, "interrupted");
    Look(Now());
  }
  return Stats(now);
}

std::string Agent::Stats(Time now) {
  nlohmann::ordered_json json;
  json["server"] = config_.server_code;
  json["unit"] = config_.unit;
  json["meter"] = meter_->name();
  json["busy"] = trigger_.busy();
  json["level"] = verdict_.level;
  json["failing"] = Word(failure_.failure());
  if (config_.meter.kind == MeterKind::kCpu) {
    json["cpu_share"] = reading_.measure.value_or(0);
  } else {
    const spw_meter_counts& counts = latency_->totals().counts;
    const double seconds = static_cast<double>((now - stats_at_).count()) / 1e9;
    json["queue"] = reading_.queue.value_or(0);
    json["latency_ms"] = reading_.latency_us / 1e3;
    json["latency_min_ms"] = Ms(counts.latency_min_ns);
    json["latency_mean_ms"] = counts.timed ? Ms(counts.latency_sum_ns / counts.timed) : 0.0;
    json["p50_ms"] = Ms(Quantile(stats_counts_, counts, 0.5));
    json["p99_ms"] = Ms(Quantile(stats_counts_, counts, 0.99));
    json["stall_ms"] = Ms(static_cast<uint64_t>(reading_.stall.count()));
    json["rps"] = static_cast<double>(counts.completed - stats_counts_.completed) / std::max(seconds, 1e-3);
    json["base_ms"] = reading_.learnt.base_us / 1e3;
    json["price_ms"] = reading_.learnt.price_us / 1e3;
    json["slot_ms"] = reading_.learnt.slot_ns / 1e6;
    json["knee_ms"] = reading_.learnt.knee_us / 1e3;
    json["tail_ms"] = reading_.learnt.tail_us / 1e3;
    json["backlog_ms"] = reading_.learnt.backlog_us / 1e3;
    json["timed_one_in"] = latency_->sample_one_in();
#define SPW_STATS_FIELD(field, help) json[#field] = counts.field;
    SPW_METER_COUNTERS(SPW_STATS_FIELD)
#undef SPW_STATS_FIELD
    json["timed_out"] = counts.timed_out + latency_->given_up();
    json["packets_lost"] = latency_->packets_lost();
    stats_counts_ = counts;
    stats_at_ = now;
  }
  json["trips"] = trips_;
  json["failures"] = failures_;
  json["notices"] = notices_;
  json["corrections"] = corrections_;
  json["reports_sent"] = reporter_.sent();
  json["reports_failed"] = reporter_.failed();
  json["agent_cpu_s"] = CpuSeconds();
  return json.dump();
}

}  // namespace spillway::agent
