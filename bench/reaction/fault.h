// SPDX-License-Identifier: Apache-2.0
// What is done to a unit of a bed, and undone. The program's main thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/reaction/bed.h"
#include "bench/reaction/outcome.h"
#include "bench/reaction/slowdown.h"

namespace spillway::bench {

enum class Fault {
  kProcessKilled,   // SIGKILL of all of the server's processes; it is started again
  kProcessStopped,  // SIGSTOP, SIGCONT
  kFailsFast,       // every answer is REFUSED or a 503
  kLinkDown,        // the unit's network interface is set down, and up
  kUnitSlow,        // the server runs for 2 ms in every 20
  kAgentKilled,     // SIGKILL of the agent alone
};
inline constexpr Fault kFaults[] = {Fault::kProcessKilled, Fault::kProcessStopped, Fault::kFailsFast,
                                    Fault::kLinkDown,      Fault::kUnitSlow,       Fault::kAgentKilled};

const char* Word(Fault fault);
std::optional<Fault> ParseFault(const std::string& word);

// One at a time. Its end leaves no process stopped; what else a bed needs that goes on standing, Mend does.
class Breakage {
 public:
  Breakage(ReactionBed& bed, Fault fault) : bed_(bed), fault_(fault) {}
  ~Breakage();
  Breakage(const Breakage&) = delete;
  Breakage& operator=(const Breakage&) = delete;

  // When it was done.
  [[nodiscard]] Result<Moment> Begin();
  [[nodiscard]] Result<void> Mend();

 private:
  ReactionBed& bed_;
  const Fault fault_;
  std::vector<lab::ProcessId> stopped_;
  std::unique_ptr<Slowdown> slowdown_;
};

}  // namespace spillway::bench
