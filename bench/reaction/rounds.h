// SPDX-License-Identifier: Apache-2.0
// Rounds of one fault on one bed, and the row they make. The program's main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "bench/reaction/bed.h"
#include "bench/reaction/fault.h"
#include "bench/reaction/outcome.h"

namespace spillway::bench {

struct Round {
  Outcome outcome;
  std::optional<double> back_ms;  // nullopt: the switch did not show the unit as out
};

struct RowRounds {
  std::vector<Round> rounds;
  int disturbed = 0;  // rounds without a result, repeated
};

// How long a round takes but for what it waits for.
std::chrono::milliseconds LengthOf(Health health, Fault fault);

// As many rounds as asked for, or fewer, if the machine disturbs too many. The bed balances by its policy
// already.
[[nodiscard]] Result<RowRounds> PlayRounds(ReactionBed& bed, Fault fault, int rounds,
                                           uint32_t questions_per_s, const std::function<void()>& on_round);

nlohmann::ordered_json MakeRow(const BedSpec& bed, Fault fault, spw_unit_policy policy,
                               const RowRounds& played);

}  // namespace spillway::bench
