// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/fault.h"

#include <fmt/format.h>
#include <signal.h>

#include "bench/reaction/question_stream.h"
#include "lab/testbed/netns.h"

namespace spillway::bench {

using namespace std::chrono_literals;

const char* Word(Fault fault) {
  switch (fault) {
    case Fault::kProcessKilled:
      return "process-killed";
    case Fault::kProcessStopped:
      return "process-stopped";
    case Fault::kFailsFast:
      return "fails-fast";
    case Fault::kLinkDown:
      return "link-down";
    case Fault::kUnitSlow:
      return "unit-slow";
    default:
      return "agent-killed";
  }
}

std::optional<Fault> ParseFault(const std::string& word) {
  for (const Fault fault : kFaults)
    if (word == Word(fault)) return fault;
  return std::nullopt;
}

Breakage::~Breakage() {
  for (const lab::ProcessId& id : stopped_)
    if (lab::IsAlive(id)) kill(id.pid, SIGCONT);
}

Result<Moment> Breakage::Begin() {
  if (fault_ == Fault::kLinkDown) {
    const Moment hit = Now();
    return lab::CutLink(bed_.unit()).map([hit] { return hit; });
  }
  const std::vector<lab::ProcessId> victims =
      fault_ == Fault::kAgentKilled ? bed_.AgentProcesses() : bed_.ServerProcesses();
  if (victims.empty())
    return Fail(ErrorCode::kSystem, fmt::format("{}: the process to be hit is not running", Word(fault_)));
  if (fault_ == Fault::kFailsFast) {
    const Moment hit = Now();
    return bed_.AnswerErrors(true).map([hit] { return hit; });
  }
  const Moment hit = Now();
  if (fault_ == Fault::kUnitSlow) {
    slowdown_ = std::make_unique<Slowdown>(victims);
    return hit;
  }
  if (fault_ == Fault::kProcessStopped) stopped_ = victims;
  for (const lab::ProcessId& id : victims) kill(id.pid, fault_ == Fault::kProcessStopped ? SIGSTOP : SIGKILL);
  if (fault_ == Fault::kProcessStopped) return hit;
  // A zombie has its pid yet, and knotd takes it for one that runs. nginx's workers are not ours to reap.
  for (const lab::ProcessId& id : victims) (void)lab::Wait(id).has_value();
  lab::Stop(victims, 0ms);
  return hit;
}

Result<void> Breakage::Mend() {
  switch (fault_) {
    case Fault::kProcessKilled:
      return bed_.StartAgain(*bed_.unit().server_process);
    case Fault::kAgentKilled:
      return bed_.StartAgain(*bed_.unit().agent);
    case Fault::kFailsFast:
      return bed_.AnswerErrors(false);
    case Fault::kLinkDown:
      return lab::RestoreLink(bed_.plan(), bed_.unit());
    case Fault::kUnitSlow:
      slowdown_.reset();
      return {};
    case Fault::kProcessStopped:
      break;
  }
  for (const lab::ProcessId& id : stopped_) kill(id.pid, SIGCONT);
  stopped_.clear();
  return {};
}

}  // namespace spillway::bench
