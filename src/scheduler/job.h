// SPDX-License-Identifier: Apache-2.0
// What a job asks for, where it is, and how far it is kept apart from others. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "scheduler/gpu_model.h"

namespace spillway::scheduler {

// How far jobs, and requests, of different tenants are kept apart.
// Of jobs, which stay, and of requests, which take a slice that is there:
//   none      all tenants share a GPU's compute and memory; and its slices
//   fraction  every job has a slice of the GPU to itself, as MIG divides it; a slice has requests of one
//             tenant at a time
//   gpu       jobs share a GPU's compute and memory with those of the same tenant only; a GPU has requests of
//             one tenant at a time
enum class Isolation : uint8_t { kNone, kFraction, kGpu };
[[nodiscard]] std::optional<Isolation> IsolationByName(std::string_view name);
[[nodiscard]] const char* ToString(Isolation isolation);

inline constexpr int kWholeGpu = 1000;  // a GPU's compute, in thousandths ("milli")

struct Job {
  int cpu_milli = 0;   // thousandths of a core
  int memory_mib = 0;  // of the host
  int gpus = 1;        // 0: none; 1: `milli` of one; more: so many whole GPUs of one node
  int milli = kWholeGpu;
  ModelSet models = 0;   // 0: any
  int tenant = 0;        // who owns it; matters where tenants may not share a GPU
  double move_cost = 1;  // of one migration, in the units of the caller's choice
  // A MIG slice of just this profile, where a rule would make one of `milli`. Asks for GPUs that MIG divides.
  std::optional<Profile> profile = {};

  bool Fractional() const { return gpus == 1 && milli < kWholeGpu; }
  int TotalMilli() const { return gpus * (gpus == 1 ? milli : kWholeGpu); }
  bool Accepts(int model) const { return models == 0 || (models >> model & 1) != 0; }
  bool operator==(const Job&) const = default;
};

// The slice that holds the job where every job has one.
[[nodiscard]] inline Profile SliceOf(const Job& job, SliceRule rule) {
  return job.profile ? *job.profile : ProfileFor(job.milli, rule);
}

// A place for a job: `gpu` of `node` for a part of one, with the first memory slice where it has a slice to
// itself. Of whole GPUs the node's first idle ones are taken, unless `whole` says which (bits).
struct Spot {
  int node = -1;
  int gpu = 0;
  int start = -1;
  uint32_t whole = 0;
  bool operator==(const Spot&) const = default;
};

}  // namespace spillway::scheduler
