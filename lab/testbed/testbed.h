// SPDX-License-Identifier: Apache-2.0
// A testbed standing on this machine. Needs root. One thread, the program's main one (process.h).
//
//   Testbed::Up ──► Start/Restart parts, read plan() ──► destructor   all taken down
//                                                    └──► Release     left standing (`lab up`)
//   TakeDown(name)   by name, from any program, also what a killed one left behind
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan.h"
#include "spec.h"
#include "state.h"

namespace spillway::lab {

struct UpOptions {
  bool tied = true;         // parts die with this program; false for `lab up`
  bool with_switch = true;  // spillwayd and the agents; false: servers on plain routing only
};

// Errors: kUnavailable, for who is not root.
[[nodiscard]] Result<void> MayMakeTestbeds();

class Testbed {
 public:
  // Clears leftovers of dead runs first. kConflict: a testbed of this name stands. On error nothing is
  // left; the message of a part that did not start ends with what it said.
  [[nodiscard]] static Result<std::unique_ptr<Testbed>> Up(const TestbedSpec& spec, const UpOptions& options);
  ~Testbed();
  Testbed(const Testbed&) = delete;
  Testbed& operator=(const Testbed&) = delete;

  const TestbedSpec& spec() const { return spec_; }
  const Plan& plan() const { return plan_; }
  // Parts that no longer run, by label. Empty is good.
  std::vector<std::string> Dead() const;
  // cgroup.procs of the group for what has no quota; empty where there is no cpu controller.
  const std::string& common_group() const { return common_group_; }
  // CPU time so far of a unit's control group, which those with a quota have, else of its first process.
  // `label` is of plan().units.
  std::chrono::nanoseconds CpuTimeOf(const std::string& label) const;
  // That the switch has sent to each of plan().units so far; empty: it does not say.
  std::vector<uint64_t> PacketsToUnits() const;
  // From now on the service is balanced there, by these policies. A balancer on a NIC is a fresh one.
  [[nodiscard]] Result<void> Balance(const std::string& service, spw_server_policy server_policy,
                                     spw_unit_policy unit_policy, BalancerPlace place);
  // From now on agents run with these settings; false: they do already. Others are stopped, and new ones
  // started, which have learnt nothing.
  [[nodiscard]] Result<bool> UseAgents(const AgentSpec& agent);
  // Leaves everything standing.
  void Release();

 private:
  Testbed(TestbedSpec spec, Plan plan, UpOptions options);
  Result<void> MakeNamespaces();
  // Files that a process writes itself to, to be in the group.
  Result<std::vector<std::string>> MakeGroup(const std::string& label, const std::optional<CpuQuota>& quota);
  Result<void> WriteFiles() const;
  Result<void> StartAll();
  Result<void> StartOne(const ProcessPlan& process);
  Result<void> StopOne(const std::string& label);
  Result<void> Tell(std::vector<std::string> words) const;
  Result<void> AwaitReady(const std::vector<const ProcessPlan*>& processes) const;

  TestbedSpec spec_;
  Plan plan_;
  UpOptions options_;
  State state_;
  std::string common_group_;
  bool released_ = false;
};

// Stops the processes, removes namespaces, control groups, pins and files. False: there is no such
// testbed.
bool TakeDown(const std::string& name);
// The same for every leftover; the names.
std::vector<std::string> TakeDownLeftovers();

}  // namespace spillway::lab
