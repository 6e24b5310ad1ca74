// SPDX-License-Identifier: Apache-2.0
// Conspirator's placement problem (ATC 2024) as a mixed integer linear program in clean form, in the LP
// format that solvers read. Pure.
//
// minimise  gpu_value * sum_j Y_j + move_price * sum_i m_i d_i          i: jobs, j: GPUs, w: fractions of j
// such that sum_jw x_ijw = 1                       every job is in one fraction
//           sum_i R_i x_ijw <= alpha_w y_jw        demand within the fraction    (isolation none, gpu)
//           sum_i x_ijw <= y_jw                    one job per fraction that holds it (isolation fraction)
//           sum_{w covers s} y_jw <= Y_j           every memory slice s of a GPU is given once, if it is on
//           x_ijw <= A_jt(i), sum_t A_jt <= Y_j    one tenant per GPU            (isolation gpu)
//           sum_n z_in = 1, sum_{j of n} g_ij = k_i z_in   a job of k whole GPUs has so many of one node n
//           sum_i g_ij + sum_{w covers s} y_jw <= Y_j      and nobody else has these
//           d_i = 1 - x_i,home(i), d_i >= 1 - g_ij of every GPU at home    jobs that run and leave their
//           place
// all of x, y, Y, A, d, g, z in {0, 1}. A variable x_ijw is there where the model of j is one that i accepts,
// has the fraction, and is large enough: alpha_w is then j's.
//
// Without `every_fraction`, where jobs may share a fraction only the whole GPU is written down as one: the
// fractions of a GPU hold no more together than it does. GPUs and nodes that are off and alike are on in
// order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "scheduler/oracle/snapshot.h"

namespace spillway::scheduler {

[[nodiscard]] std::string WriteMilp(const Snapshot& snapshot, bool every_fraction = false);

// The placement in a solution: the names of the variables that are 1, as WriteMilp wrote them.
[[nodiscard]] Result<std::vector<Spot>> ReadPlacement(const Snapshot& snapshot,
                                                      const std::vector<std::string>& ones);

}  // namespace spillway::scheduler
