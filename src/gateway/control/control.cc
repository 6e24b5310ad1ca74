// SPDX-License-Identifier: Apache-2.0
#include "gateway/control/control.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/print.h"
#include "gateway/control/fleet_report.h"
#include "gateway/control/model_file.h"
#include "gateway/metrics.h"
#include "gateway/protocol/token.h"

namespace spillway::gateway {
namespace {

using api::Response;
using scheduler::Fleet;
using scheduler::Millis;
using scheduler::Phase;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kTurnEvery = 100ms;
constexpr auto kDeaf = 500ms;          // of a turn: hosts could not make themselves heard
constexpr auto kDrainTurnEvery = 5ms;  // while something drains: whether it is done
constexpr Millis kLongestWait = 2'000;
constexpr auto kAskEvery = 2s;  // what requests take on which instance
// A large one would take this thread seconds to read, while hosts seem to be silent.
constexpr size_t kMaxModelFile = 64 << 10;
constexpr auto kMeasureEvery = 1s;  // for the metrics
constexpr auto kForgetAfter = 24h;
// By the socket and by TCP each: every node agent keeps one, an operator has one now and then.
constexpr unsigned kMaxConnections = HostTable::kMaxHosts + 64;
constexpr unsigned kMaxUnauthenticated = 32;
constexpr std::string_view kExecutorPrefix = "instance-";

std::string ExecutorOf(uint64_t instance) { return fmt::format("{}{}", kExecutorPrefix, instance); }

std::optional<uint64_t> InstanceOf(std::string_view name) {
  if (!name.starts_with(kExecutorPrefix)) return std::nullopt;
  uint64_t id = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kExecutorPrefix.size(), end, id);
  // Not "instance-007": two names would be one instance's.
  if (error != std::errc() || rest != end || name != ExecutorOf(id)) return std::nullopt;
  return id;
}

}  // namespace

Result<std::unique_ptr<Control>> Control::Open(const ControllerConfig& config, Server& server) {
  auto file = FleetFile::Open(config.state);
  if (!file) return tl::make_unexpected(file.error());
  auto read = file->Read();
  if (!read) return tl::make_unexpected(read.error());
  const bool is_new = !*read;
  Fleet fleet;
  if (is_new) {
    // Numbers that no fleet before had, whose executors may still run somewhere.
    fleet.revision = fleet.last_id = static_cast<uint64_t>(Now());
    fleet.moves_left = config.options.moves_per_hour;
    fleet.now = Now();
    spdlog::warn("{} does not exist: starting without models; hosts stop instances of any other fleet",
                 config.state);
  } else {
    fleet = std::move(**read);
  }
  std::unique_ptr<Control> control(new Control(config, server, std::move(*file), std::move(fleet)));
  if (!is_new) control->controller_.Restarted(Now());
  for (const auto& [name, host] : control->controller_.fleet().hosts)
    control->hosts_.Expect(name, host.agent, Clock::now());
  server.OnExecutors([made = control.get()](const std::string& name, bool is_here) {
    made->Post([made, name, is_here] { made->HearExecutor(name, is_here); });
  });
  control->file_.Save(control->controller_.fleet());
  if (!control->file_.is_saved()) return Fail(ErrorCode::kSystem, config.state + ": cannot be written");
  control->thread_ = std::thread([made = control.get()] { made->Loop(); });
  return control;
}

Control::Control(const ControllerConfig& config, Server& server, FleetFile file, Fleet fleet)
    : config_(config),
      server_(server),
      file_(std::move(file)),
      controller_(config.options, std::move(fleet)),
      hosts_(config.silent_after) {}

Control::~Control() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

// The time of day as it was when the program began, from which on it is not set: a clock that is would let no
// limit end, or all at once.
Millis Control::Now() {
  static const auto ahead =
      std::chrono::system_clock::now().time_since_epoch() - Clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch() + ahead)
      .count();
}

void Control::Post(std::function<void()> work) {
  {
    const base::MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
  }
  wake_.NotifyOne();
}

void Control::Loop() {
  for (;;) {
    std::vector<std::function<void()>> work;
    {
      const base::MutexLock lock(mutex_);
      const auto pause = draining_.empty() ? kTurnEvery : kDrainTurnEvery;
      wake_.WaitFor(mutex_, pause, [this]() SPILLWAY_REQUIRES(mutex_) {
        return stop_ || !posted_.empty() || controller_.HasMore();
      });
      if (stop_) break;
      work = std::exchange(posted_, {});
    }
    const auto began = Clock::now();
    for (const auto& one : work) one();
    const auto done = Clock::now();
    ExcuseHosts(done - began);
    Turn();
    ExcuseHosts(Clock::now() - done);
  }
  file_.Save(controller_.fleet());
}

// Short ones make no host silent, and of many short ones nobody may be excused for ever.
void Control::ExcuseHosts(Clock::duration busy) {
  if (busy >= kDeaf) hosts_.Excuse(busy);
}

void Control::Turn() {
  const auto now = Clock::now();
  for (const std::string& host : hosts_.Silent(now)) {
    const auto known = controller_.fleet().hosts.find(host);
    if (known == controller_.fleet().hosts.end() || !known->second.is_up) continue;
    // One that said that it stops is expected to be.
    if (!known->second.HasEnded()) spdlog::warn("host {}: its node agent is silent", host);
    controller_.HostLost(host, Now());
  }
  controller_.Tick(Now());
  const MoveTimes::Seen moves = move_times_.See(controller_.fleet(), here_, Now());
  for (const MoveTimes::Move& move : moves.begun)
    spdlog::info("model {}: moving from {} to {}", move.model, move.from, move.to);
  for (const MoveTimes::Move& move : moves.ended) {
    spdlog::info("model {}: moved from {} to {}, {} ms without service", move.model, move.from, move.to,
                 move.downtime);
    controller_.Measured(move.model, move.downtime, Now());
  }
  file_.Save(controller_.fleet());
  DrainExecutors();
  if (now - asked_ >= kAskEvery) {
    asked_ = now;
    AskWhatRequestsTake();
  }
  if (now - measured_ >= kMeasureEvery) {
    measured_ = now;
    ForgetHosts(kForgetAfter);
    server_.Post([&server = server_, text = FleetMetricsText(controller_.fleet(), refused_)]() mutable {
      server.SetFleetMetrics(std::move(text));
    });
  }
  for (const auto& answer : std::exchange(answers_, {})) answer();
  if (!file_.is_saved()) return;  // what is not written must not be acted on
  hosts_.AnswerWith(
      [&](const std::string& host) {
        return scheduler::HostOrders{controller_.fleet().revision, controller_.Wanted(host)};
      },
      controller_.fleet().revision, now);
}

// ---- executors

void Control::HearExecutor(const std::string& name, bool is_here) {
  const auto id = InstanceOf(name);
  if (!id) return;
  if (is_here) {
    here_.insert(*id);
    controller_.Joined(*id, Now());
  } else {
    here_.erase(*id);
    controller_.Left(*id, Now());
  }
}

void Control::DrainExecutors() {
  std::set<std::string, std::less<>> names;
  std::vector<uint64_t> draining;
  for (const auto& [id, one] : controller_.fleet().instances) {
    if (one.phase != Phase::kDraining && one.phase != Phase::kStopping) continue;
    names.insert(ExecutorOf(id));
    if (one.phase == Phase::kDraining) draining.push_back(id);
  }
  if (names != draining_) {
    draining_ = names;
    server_.Post([this, names] { server_.broker().Drain(names, Server::Now()); });
  }
  if (!draining.empty() && !is_asking_) AskWhoIsIdle(draining);
}

// Behind the order to drain, so that what is idle stays so.
void Control::AskWhoIsIdle(const std::vector<uint64_t>& draining) {
  is_asking_ = true;
  server_.Post([this, draining] {
    std::vector<uint64_t> idle;
    for (const uint64_t id : draining)
      if (server_.broker().InHand(ExecutorOf(id)) == 0) idle.push_back(id);
    Post([this, idle] {
      is_asking_ = false;
      for (const uint64_t id : idle) controller_.Idle(id, Now());
    });
  });
}

void Control::AskWhatRequestsTake() {
  server_.Post([this] {
    const auto slices = server_.broker().Slices();
    TookMs took;
    std::vector<scheduler::Controller::Took> learnt;
    for (const Broker::ServiceView& one : server_.broker().ServiceTimes())
      if (const auto id = InstanceOf(slices[one.slice].executor)) {
        const double ms = std::chrono::duration<double, std::milli>(one.mean).count();
        took[*id] = ms;
        learnt.push_back({*id, one.model, ms, slices[one.slice].requests});
      }
    Post([this, took, learnt] {
      took_ = took;
      controller_.Learn(learnt, Now());
    });
  });
}

// Hosts of which nothing was heard for so long, and on which nothing is: their names would fill the table.
void Control::ForgetHosts(std::chrono::milliseconds silent) {
  std::vector<std::string> gone;
  for (const auto& [name, host] : controller_.fleet().hosts)
    if (!host.is_up && Now() - host.since >= silent.count()) gone.push_back(name);
  for (const std::string& name : gone) {
    if (!controller_.ForgetHost(name, Now())) continue;
    hosts_.Forget(name);
    spdlog::info("host {}: forgotten, as its node agent is silent and it has no instances", name);
  }
}

// ---- the API

api::AsyncHandler Control::Front() {
  return [this](api::Request request, api::Responder respond) {
    const std::vector<std::string> parts = api::PathParts(request.path);
    if (parts.size() == 3 && parts[0] == "v1" && parts[1] == "hosts" && request.method == "POST")
      return TakeReport(request, parts[2], respond);
    Post([this, request = std::move(request), respond = std::move(respond)] { Handle(request, respond); });
  };
}

api::HttpLimits Control::LocalLimits() {
  api::HttpLimits limits;
  limits.connections = kMaxConnections;
  limits.whole = 30s;
  return limits;
}

api::HttpLimits Control::RemoteLimits() const {
  api::HttpLimits limits = LocalLimits();
  limits.max_unauthenticated = kMaxUnauthenticated;
  limits.connections_per_address = config_.connections_per_address;
  limits.per_address_key = "controller.connections_per_address";
  limits.admit = [token = config_.token](const api::Request& head, uint64_t) -> std::optional<Response> {
    const auto shown = head.headers.find("authorization");
    constexpr std::string_view kScheme = "Bearer ";
    if (shown != head.headers.end() && shown->second.starts_with(kScheme) &&
        SameToken(token, std::string_view(shown->second).substr(kScheme.size())))
      return std::nullopt;
    return api::ErrorResponse(401, "bad_input", "expected the controller's token");
  };
  return limits;
}

void Control::Handle(const api::Request& request, const api::Responder& respond) {
  const std::vector<std::string> parts = api::PathParts(request.path);
  const bool is_post = request.method == "POST", is_get = request.method == "GET";
  const size_t depth = parts.size();
  if (depth >= 2 && parts[0] == "v1" && parts[1] == "models" && is_get && depth == 2)
    return respond([body = ReportOf(controller_, took_).dump()] { return Response{.body = body}; });
  const bool is_change = depth == 2 || (depth == 4 && (parts[3] == "move" || parts[3] == "remove"));
  if (depth < 2 || parts[0] != "v1" || parts[1] != "models" || !is_change)
    return respond([] { return api::ErrorResponse(404, "not_found", "not found"); });
  if (!is_post)
    return respond([allow = depth == 2 ? "GET, POST" : "POST"] {
      Response response = api::ErrorResponse(405, "bad_input", std::string("expected ") + allow);
      response.allow = allow;
      return response;
    });
  const Response response = depth == 2 ? Change(request, "", "add") : Change(request, parts[2], parts[3]);
  if (response.status >= 400) refused_[response.status]++;
  answers_.push_back([this, response, respond] {
    if (file_.is_saved()) return respond([response] { return response; });
    respond([path = file_.path()] {
      return api::ErrorResponse(503, "unavailable",
                                path + ": cannot be written: the change may be lost at a restart");
    });
  });
}

Response Control::Change(const api::Request& request, const std::string& model, const std::string& verb) {
  const auto word = [&](const char* key) {
    const auto at = request.query.find(key);
    return at == request.query.end() ? std::string() : at->second;
  };
  const std::string_view takes = verb == "add" ? "name" : verb == "move" ? "to" : "";
  for (const auto& [key, value] : request.query)
    if (key != takes)
      return api::ResponseTo(
          {ErrorCode::kBadInput, fmt::format("unknown parameter {}{}{}", base::Printable(key),
                                             takes.empty() ? "" : ", expected ", takes)});
  Result<void> done;
  std::string name = model;
  if (verb == "add") {
    if (request.body.size() > kMaxModelFile)
      return api::ResponseTo(
          {ErrorCode::kBadInput, fmt::format("model file: expected at most {} bytes", kMaxModelFile)});
    const auto read = ParseModelFile(request.body, word("name").empty() ? "model" : word("name"),
                                     KnownTenants(server_.config()));
    if (!read) return api::ResponseTo(read.error());
    name = read->name;
    done = controller_.AddModel(*read, Now());
  } else if (verb == "move") {
    done = controller_.MoveModel(name, word("to"), Now());
    if (done) spdlog::info("model {}: an operator moves it", name);
  } else {
    done = controller_.RemoveModel(name, Now());
  }
  if (!done) return api::ResponseTo(done.error());
  const auto& models = controller_.fleet().models;
  const auto at = models.find(name);
  if (at == models.end()) return {.body = nlohmann::json{{"name", name}, {"removed", true}}.dump()};
  return {.body = ReportOf(controller_.fleet(), at->second, took_).dump()};
}

// On the thread of the server that has it, which other hosts' reports wait for, but no operator's request.
void Control::TakeReport(const api::Request& request, const std::string& host,
                         const api::Responder& respond) {
  const auto answer = [respond](const Result<scheduler::HostOrders>& orders) {
    respond([response = orders ? Response{.body = ToText(*orders)} : api::ResponseTo(orders.error())] {
      return response;
    });
  };
  if (!IsTensorName(host))
    return answer(
        Fail(ErrorCode::kBadInput, "expected a host's name of 1 to 64 letters, digits, '.', '_', '-'"));
  auto report = scheduler::ParseHostReport(request.body);
  if (!report) return answer(tl::make_unexpected(report.error()));
  const WaitingReports::Key key{host, report->agent};
  if (reports_.Put(key, {std::move(*report), answer})) Post([this, key] { HearHost(key); });
}

void Control::HearHost(const WaitingReports::Key& key) {
  const auto& [host, agent] = key;
  const auto [report, answer] = reports_.Take(key);
  const auto now = Clock::now();
  if (hosts_.IsFullFor(host)) ForgetHosts(1ms);
  if (const auto heard = hosts_.Hear(host, agent, now); !heard)
    return answer(tl::make_unexpected(heard.error()));
  controller_.HostSays(host, report.gpus, report.held, report.revision, Now(), report.programs, agent);
  const auto wait = std::chrono::milliseconds(std::clamp<Millis>(report.wait_ms, 0, kLongestWait));
  hosts_.Wait(host, report.revision, now + wait, answer);
}

}  // namespace spillway::gateway
