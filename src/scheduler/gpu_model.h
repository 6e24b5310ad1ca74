// SPDX-License-Identifier: Apache-2.0
// Models of GPUs: how fast they are to each other, and how their memory divides into slices. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::scheduler {

struct GpuModel {
  std::string name;
  // Work done a second, relative to a T4. Models that nobody knows have 1.
  double speed = 1;
  bool mig = false;            // can be divided by MIG
  double slice_memory_gb = 0;  // of one of its eight memory slices; 0 where it has none
  // Memory slices, 1 to 8. A GPU with fewer than eight is smaller than what jobs' thousandths are counted in:
  // it has a seventh of that compute for each. Only the oracle's clusters have such.
  int slices = 8;
};

// A set of models: bit i is the i-th of the cluster's models. None set: any model will do.
using ModelSet = uint32_t;
inline constexpr int kMaxModels = 31;
// A model that the cluster does not have. A job that names only such fits nowhere.
inline constexpr ModelSet kAbsentModel = ModelSet{1} << 31;

// The models that are known by name, fastest last. Speeds are the vendors' peak rates of dense FP16
// arithmetic, over a T4's: a first guess, that a cluster file may correct.
[[nodiscard]] const std::vector<GpuModel>& KnownModels();

// The known model of that name, or one with speed 1 that cannot be divided.
[[nodiscard]] GpuModel ModelByName(std::string_view name);

// How MIG divides a GPU: eight memory slices, seven compute slices, and profiles that may only begin at
// certain memory slices. The same for A100, H100 and H200. Pure; thread-safe.

enum class Profile : uint8_t { k1g, k1gMem, k2g, k3g, k4g, k7g };  // k1gMem: 1g with double memory
inline constexpr int kProfiles = 6;

struct ProfileShape {
  const char* name;
  int compute;              // sevenths of the GPU
  int memory;               // memory slices, eighths
  std::vector<int> starts;  // where it may begin
};
[[nodiscard]] const ProfileShape& ShapeOf(Profile profile);
[[nodiscard]] std::optional<Profile> ProfileByName(std::string_view name);

// Bit s: memory slice s is taken.
using SliceMask = uint8_t;
inline constexpr int kSlices = 8;
[[nodiscard]] SliceMask MaskOf(Profile profile, int start);

// Where a profile should begin on a GPU of which `taken` is gone, so that the most remains possible, or -1.
// "The most" counts the placements that stay open, each by its compute: a 1g goes where no larger profile
// loses by it.
[[nodiscard]] int BestStart(Profile profile, SliceMask taken);

// By what a job's demand (thousandths of a GPU) becomes a profile. kCompute: the demand in sevenths of the
// compute, rounded up. kMemory: in eighths of the memory (500 becomes 3g, which has half the memory).
enum class SliceRule : uint8_t { kCompute, kMemory };
// The smallest profile that holds it, without the double-memory one. 1 <= milli <= 1000.
[[nodiscard]] Profile ProfileFor(int milli, SliceRule rule);

// One profile at one place.
struct SlicePlacement {
  Profile profile;
  int start;
};
// How many of each profile.
using ProfileCounts = std::array<int, kProfiles>;
[[nodiscard]] std::string ToText(const ProfileCounts& counts);  // "3g + 2g + 1g"

// What a GPU of which `taken` is gone can still be divided into, with or without the double-memory profile.
struct Geometry {
  std::vector<ProfileCounts> multisets;                 // non-empty, each once
  std::vector<ProfileCounts> maximal;                   // to which nothing can be added in any arrangement
  std::vector<std::vector<SlicePlacement>> placements;  // arrangements in which no profile fits any more
};
[[nodiscard]] Geometry Reachable(SliceMask taken, bool double_memory);

}  // namespace spillway::scheduler
