// SPDX-License-Identifier: Apache-2.0
#include "bed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/signals.h"

namespace spillway::lab {
namespace {

constexpr std::chrono::milliseconds kSettle{300};  // queues empty, agents report the calm
constexpr int kMaxSettles = 200;                   // of units that compute, whose queues may hold much
constexpr double kIdle = 0.01;                     // of a CPU
constexpr double kPatienceS = 30;                  // with a unit that computes, before its pace is known

// Of the units that compute; in a neighbour's control group its time would be counted with it.
std::chrono::duration<double> ComputingTime(const Testbed& testbed) {
  std::chrono::nanoseconds total{};
  for (const UnitPlan& unit : testbed.plan().units)
    if (Computes(unit.spec.runs) && !unit.spec.neighbour) total += testbed.CpuTimeOf(unit.label);
  return total;
}

}  // namespace

bool AnyComputes(const TestbedSpec& testbed) {
  for (const ServerSpec& server : testbed.servers)
    for (const UnitSpec& unit : server.units)
      if (Computes(unit.runs)) return true;
  return false;
}

Bed::Bed(const ExperimentSpec& spec, Testbed& testbed)
    : spec_(spec),
      testbed_(testbed),
      service_(*std::find_if(testbed.plan().config.services.begin(), testbed.plan().config.services.end(),
                             [&](const model::Service& s) { return s.name == spec.service; })) {}

Result<bool> Bed::Balance(const PolicyRun& policy) {
  auto restarted = testbed_.UseAgents(policy.AgentOf(spec_.testbed));
  if (!restarted) return restarted;
  const auto balanced =
      testbed_.Balance(spec_.service, policy.server_policy, policy.unit_policy, policy.balancer);
  if (!balanced) return tl::make_unexpected(balanced.error());
  return restarted;
}

// Waits out whatever the last run left, on a testbed that is whole.
Result<void> Bed::Settle() const {
  // A unit that computes works on at what the client has given up.
  for (int i = 0; i < kMaxSettles; i++) {
    const auto before = ComputingTime(testbed_);
    if (!base::SleepUnlessInterrupted(kSettle)) return Fail(ErrorCode::kSystem, "interrupted");
    if (ComputingTime(testbed_) - before <= kIdle * kSettle) break;
  }
  const auto dead = testbed_.Dead();
  if (dead.empty()) return {};
  return Fail(ErrorCode::kSystem, fmt::format("{} exited during the experiment", fmt::join(dead, ", ")));
}

std::vector<UnitWork> Bed::WorkOfUnits() const {
  const std::vector<uint64_t> packets = testbed_.PacketsToUnits();
  std::vector<UnitWork> work;
  for (const UnitPlan& unit : testbed_.plan().units) {
    const std::chrono::duration<double> cpu = testbed_.CpuTimeOf(unit.label);
    // A neighbour's time says nothing of the packets; that of one that only waits says nothing of the
    // machine.
    const bool counts = !packets.empty() && !unit.spec.neighbour && unit.spec.runs != Workload::kEmulated;
    work.push_back({cpu.count(), counts ? packets[work.size()] : 0});
  }
  return work;
}

double Bed::ProvisionalTimeoutS() const {
  if (spec_.unloaded_ms) return std::max(1.0, 2 * kLatencyLimit * *spec_.unloaded_ms / 1e3);
  return AnyComputes(spec_.testbed) ? kPatienceS : 1;
}

Result<Sample> Bed::Load(const model::Address& target, double rate, double seconds, double timeout_s,
                         uint64_t seed) const {
  LoadRun run;
  run.target = target;
  run.port = service_.ports.front();
  run.rate = rate;
  run.seconds = seconds;
  run.timeout_s = timeout_s > 0 ? timeout_s : ProvisionalTimeoutS();
  run.seed = seed;
  return RunLoad(spec_, testbed_, run);
}

}  // namespace spillway::lab
