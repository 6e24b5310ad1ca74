// SPDX-License-Identifier: Apache-2.0
// The testbed of the reaction benchmark: what stands, its servers' processes, and whether its switch calls
// all units healthy. Faults are done to one unit. One thread, the program's main one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/client.h"
#include "bench/reaction/asker.h"
#include "lab/testbed/testbed.h"

namespace spillway::bench {

// Who finds out that a unit is of no use.
enum class Health {
  kPassive,  // the agents beside the units; no active checks
  kActive,   // spillwayd's checks, each second, three failures; no agents
  kBoth,
};

struct BedSpec {
  lab::Workload server = lab::Workload::kKnot;  // or kNginx
  Health health = Health::kPassive;
  // Two units of one server, between which the unit policy decides; else two servers of one unit each.
  bool one_server = false;
  uint32_t period_ms = 20;      // of the agents
  uint32_t threshold_ms = 100;  // of the agents: over it a unit is busy, which p4mite reads
  bool operator==(const BedSpec&) const = default;
};

const char* Word(lab::Workload server);
const char* Word(Health health);

class ReactionBed {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ReactionBed>> Up(const BedSpec& spec);

  const BedSpec& spec() const { return spec_; }
  const lab::Plan& plan() const { return testbed_->plan(); }
  // The one that faults are done to: the first, until AimAtBusiest.
  const lab::UnitPlan& unit() const { return plan().units[aim_]; }
  std::unique_ptr<Asker> MakeAsker() const;

  [[nodiscard]] Result<void> Balance(spw_unit_policy policy);
  // Whether the switch takes all units for healthy.
  bool IsWell();
  // kSystem: not within 20 s, or interrupted.
  [[nodiscard]] Result<void> AwaitWell();

  // Packets that each unit has got so far, in the plan's order; empty when the switch does not answer.
  std::vector<uint64_t> Packets();
  // At the unit that got the most since `before`: a policy that sends nothing to a unit does not feel its
  // fault.
  [[nodiscard]] Result<void> AimAtBusiest(const std::vector<uint64_t>& before);

  // Of the unit: those of its server, the main one first; those of its agent.
  std::vector<lab::ProcessId> ServerProcesses() const;
  std::vector<lab::ProcessId> AgentProcesses() const;
  // A fresh process of the unit; returns when its ports are bound.
  [[nodiscard]] Result<void> StartAgain(const lab::ProcessPlan& process);
  // The unit's server answers every question with an error from now on, or no more. knotd obeys once it has
  // read its configuration again, nginx with the next question: a reload would leave its old worker beside
  // the new one for 100 ms.
  [[nodiscard]] Result<void> AnswerErrors(bool errors);

 private:
  ReactionBed(const BedSpec& spec, std::unique_ptr<lab::Testbed> testbed);
  std::vector<lab::ProcessId> Find(const std::string& program) const;
  std::string FileOf(const char* what) const;  // the unit's
  Result<void> Reconfigure(const std::string& text);
  Result<void> PrepareToFail();  // nginx
  nlohmann::json View();

  const BedSpec spec_;
  std::unique_ptr<lab::Testbed> testbed_;
  api::Client client_;
  size_t aim_ = 0;
};

}  // namespace spillway::bench
