// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/reaction_bench.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/client.h"
#include "bench/reaction/question_stream.h"
#include "lab/testbed/interrupt.h"
#include "lab/testbed/netns.h"
#include "lab/testbed/testbed.h"
#include "report/percentile.h"

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using nlohmann::ordered_json;

// Sooner after the last fault the agent would take the next for a relapse.
constexpr auto kBefore = 2200ms, kFaultLasts = 1200ms, kPoll = 2ms;
constexpr auto kLimit = 20s;

const char* Word(Fault fault) {
  switch (fault) {
    case Fault::kProcessKilled:
      return "process-killed";
    case Fault::kProcessStopped:
      return "process-stopped";
    default:
      return "agent-killed";
  }
}

Moment Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

double Ms(Moment time) { return std::chrono::duration<double, std::milli>(time).count(); }

std::string Command(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/comm", pid));
  return {std::istreambuf_iterator<char>(in), {}};
}

lab::TestbedSpec Spec(const ReactionOptions& options) {
  lab::TestbedSpec spec;
  spec.name = fmt::format("reaction{}", getpid());
  lab::ServiceSpec service;
  service.name = "dns";
  service.ports = {{model::Protocol::kUdp, 53}};
  service.mode = SPW_MODE_DSR_L2;
  service.affinity = SPW_AFFINITY_NONE;
  spec.services.push_back(service);
  for (const char* name : {"s1", "s2"}) {
    lab::UnitSpec unit;
    unit.name = "cpu";
    unit.runs = lab::Workload::kKnot;
    spec.servers.push_back({name, {unit}});
  }
  spec.agent.period = std::chrono::milliseconds(options.period_ms);
  return spec;
}

class Bed {
 public:
  explicit Bed(std::unique_ptr<lab::Testbed> testbed)
      : testbed_(std::move(testbed)), client_(testbed_->plan().api_socket) {}

  lab::Testbed& testbed() { return *testbed_; }
  const lab::Plan& plan() const { return testbed_->plan(); }
  const lab::UnitPlan& unit() const { return plan().units.front(); }

  std::optional<lab::ProcessId> Find(const std::string& program) const {
    for (const lab::ProcessId& id : lab::ProcessesIn(unit().netns))
      if (Command(id.pid) == program.substr(0, 15) + "\n") return id;
    return std::nullopt;
  }
  // Of the first server's unit; null when nobody answers.
  json View() {
    const auto text = api::Client::Accept(client_.Get("/v1/units"));
    const json units = text ? json::parse(*text, nullptr, false) : json();
    return units.is_array() && !units.empty() ? units.front() : json();
  }
  Result<void> Await(const char* what, const std::function<bool(const json&)>& holds) {
    for (const Moment end = Now() + kLimit; Now() < end;) {
      const json view = View();
      if (view.is_object() && holds(view)) return {};
      if (!lab::SleepUnlessInterrupted(kPoll)) return Fail(ErrorCode::kSystem, "interrupted");
    }
    return Fail(ErrorCode::kSystem,
                fmt::format("waiting until {}: not within {} s: {}", what, kLimit.count(), View().dump()));
  }
  Result<void> StartAgain(const lab::ProcessPlan& process) {
    lab::StartOptions start;
    start.argv = process.argv;
    start.netns = process.netns;
    start.stdout_file = start.stderr_file = fmt::format("{}/{}.again.log", plan().folder, process.label);
    const auto id = lab::Start(start);
    if (!id) return tl::make_unexpected(id.error());
    for (const model::ServicePort& port : process.ready.ports)
      while (!lab::PortBound(id->pid, port))
        if (!lab::IsAlive(*id) || !lab::SleepUnlessInterrupted(1ms))
          return Fail(ErrorCode::kSystem, process.label + " did not start again");
    return {};
  }

 private:
  std::unique_ptr<lab::Testbed> testbed_;
  api::Client client_;
};

struct Round {
  Outcome outcome;
  double back_ms = 0;
};

Result<void> Break(Bed& bed, Fault fault) {
  const auto victim = bed.Find(fault == Fault::kAgentKilled ? "spillway-agent" : "knotd");
  if (!victim) return Fail(ErrorCode::kSystem, "the process to be hit is not there");
  if (fault == Fault::kProcessStopped) {
    kill(victim->pid, SIGSTOP);
    return {};
  }
  kill(victim->pid, SIGKILL);
  // A zombie has its pid yet, and knotd takes it for one that runs.
  return lab::Wait(*victim).map([](int) {});
}

Result<void> Mend(Bed& bed, Fault fault) {
  if (fault == Fault::kProcessStopped) {
    kill(bed.Find("knotd")->pid, SIGCONT);
    return {};
  }
  return bed.StartAgain(fault == Fault::kAgentKilled ? *bed.unit().agent : *bed.unit().server_process);
}

Result<Round> RunRound(Bed& bed, const ReactionOptions& options, Fault fault) {
  const auto well = [](const json& view) {
    return view.at("failing").is_null() && view.at("silent") == false;
  };
  if (auto awaited = bed.Await("the unit is well", well); !awaited)
    return tl::make_unexpected(awaited.error());
  QuestionStream stream(bed.plan().client_netns, bed.plan().config.services.front().vip,
                        options.questions_per_s);
  if (!lab::SleepUnlessInterrupted(kBefore)) return Fail(ErrorCode::kSystem, "interrupted");
  const Moment hit = Now();
  if (auto broken = Break(bed, fault); !broken) return tl::make_unexpected(broken.error());
  if (!lab::SleepUnlessInterrupted(kFaultLasts)) return Fail(ErrorCode::kSystem, "interrupted");
  const Moment mending = Now();
  if (auto mended = Mend(bed, fault); !mended) return tl::make_unexpected(mended.error());
  const Moment mended = Now();
  if (auto awaited = bed.Await("the unit is back", well); !awaited)
    return tl::make_unexpected(awaited.error());
  Round round;
  round.back_ms = Ms(Now() - mended);
  const auto questions = stream.Stop();
  if (!questions) return tl::make_unexpected(questions.error());
  round.outcome = Judge(*questions, hit, mending);
  if (round.outcome.lost_before > 0)
    return Fail(ErrorCode::kSystem, fmt::format("{} questions were lost before the fault: the machine is too "
                                                "busy to tell",
                                                round.outcome.lost_before));
  return round;
}

ordered_json Row(Fault fault, spw_unit_policy policy, const std::vector<Round>& rounds) {
  std::vector<double> detect, back;
  double lost = 0, lost_after = 0;
  for (const Round& round : rounds) {
    if (round.outcome.detect_ms) detect.push_back(*round.outcome.detect_ms);
    back.push_back(round.back_ms);
    lost += static_cast<double>(round.outcome.lost);
    lost_after += static_cast<double>(round.outcome.lost_after_detect);
  }
  const auto count = static_cast<double>(rounds.size());
  ordered_json row;
  row["fault"] = Word(fault);
  row["policy"] = model::ToString(policy);
  row["rounds"] = rounds.size();
  row["undetected"] = rounds.size() - detect.size();
  row["detect_ms_p50"] = report::PercentileOf(detect, 50);
  row["detect_ms_p99"] = report::PercentileOf(detect, 99);
  row["lost"] = lost / count;
  row["lost_after_detect"] = lost_after / count;
  row["back_ms_p50"] = report::PercentileOf(back, 50);
  row["back_ms_p99"] = report::PercentileOf(back, 99);
  return row;
}

}  // namespace

Result<report::Document> RunReactionBench(
    const ReactionOptions& options, const std::function<void(double, const std::string&)>& on_progress) {
  std::vector<spw_unit_policy> policies = options.policies;
  for (int p = 0; options.policies.empty() && p < SPW_UNIT_POLICIES; p++)
    policies.push_back(static_cast<spw_unit_policy>(p));
  auto up = lab::Testbed::Up(Spec(options), {});
  if (!up) return tl::make_unexpected(up.error());
  Bed bed(std::move(*up));
  report::Document document("reaction");
  document.SetRounds(options.rounds);
  const double steps = 3.0 * static_cast<double>(policies.size()) * options.rounds;
  double done = 0;
  for (const Fault fault : {Fault::kProcessKilled, Fault::kProcessStopped, Fault::kAgentKilled}) {
    for (const spw_unit_policy policy : policies) {
      if (auto balanced =
              bed.testbed().Balance("dns", SPW_SERVER_MAGLEV, policy, lab::BalancerPlace::kSwitch);
          !balanced)
        return tl::make_unexpected(balanced.error());
      std::vector<Round> rounds;
      for (int i = 0; i < options.rounds; i++) {
        auto round = RunRound(bed, options, fault);
        if (!round) return tl::make_unexpected(round.error());
        rounds.push_back(*round);
        on_progress(++done / steps, fmt::format("{}, {}", Word(fault), model::ToString(policy)));
      }
      document.AddRow(Row(fault, policy, rounds));
    }
  }
  return document;
}

}  // namespace spillway::bench
