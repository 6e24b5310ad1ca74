// SPDX-License-Identifier: Apache-2.0
// Room for a job that fits nowhere, by moving a few that run, of one GPU or less and together smaller than
// what is asked for, to where the placer would put them. Pure.
#pragma once

#include <functional>
#include <vector>

#include "scheduler/consolidation.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {

// Places `job` as `id` on `node`, or on any for -1, and moves at most `most_moves` others for it; the
// moves, in order. Empty: no room was found with so few, and nothing has changed. `job` asks for GPUs and
// fits nowhere as it is. Fewer moves go before more, small jobs before large ones; at most kTries plans are
// carried out to see whether all that they displace find a place, and one that `may_move` (none: any) allows.
[[nodiscard]] std::vector<Move> MakeRoom(Cluster& cluster, Placer& placer, JobId id, const Job& job,
                                         int most_moves, int node = -1,
                                         const std::function<bool(const Move&)>& may_move = {});

}  // namespace spillway::scheduler
