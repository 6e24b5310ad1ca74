// SPDX-License-Identifier: Apache-2.0
#include "scheduler/gpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace spillway::scheduler {

const std::vector<GpuModel>& KnownModels() {
  // Beside each: dense FP16 TFLOP/s, here over the T4's 65, and the document of NVIDIA's that says so. Where
  // forms of a model differ, the one that is named. Memory slices: an eighth of 40, 80 and 144 GB.
  static const std::vector<GpuModel> models = {
      {"P100", 0.29, false, 0},     // PCIe 18.7 (SXM2 21.2): Tesla P100 PCIe data sheet
      {"T4", 1, false, 0},          // 65: T4 Tensor Core GPU data sheet, 951643
      {"V100M16", 1.72, false, 0},  // PCIe 112 (SXM2 125): V100 data sheet, 1165301 r5
      {"V100M32", 1.72, false, 0},  // the same
      {"A10", 1.92, false, 0},      // 125 (250 with sparsity): A10 data sheet
      {"A100-40", 4.8, true, 5},    // 312 (624 with sparsity): A100 data sheet, 1758950 r4
      {"A100-80", 4.8, true, 10},   // the same
      {"H100-80", 15.2, true, 10},  // SXM 989.5, of 1,979 with sparsity (PCIe 756.5): H100 data sheet
      {"H200", 15.2, true, 18},     // SXM 989.5, of 1,979 with sparsity: H200 data sheet
  };
  return models;
}

GpuModel ModelByName(std::string_view name) {
  const auto& known = KnownModels();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const GpuModel& model) { return model.name == name; });
  return found == known.end() ? GpuModel{std::string(name)} : *found;
}

namespace {

const std::array<ProfileShape, kProfiles> kShapes = {{{"1g", 1, 1, {0, 1, 2, 3, 4, 5, 6}},
                                                      {"1g+me", 1, 2, {0, 2, 4, 6}},
                                                      {"2g", 2, 2, {0, 2, 4}},
                                                      {"3g", 3, 4, {0, 4}},
                                                      {"4g", 4, 4, {0}},
                                                      {"7g", 7, 8, {0}}}};

Profile At(int index) { return static_cast<Profile>(index); }

int PlacementsLeft(SliceMask taken) {
  int left = 0;
  for (int p = 0; p < kProfiles; ++p) {
    if (At(p) == Profile::k1gMem) continue;
    for (const int start : kShapes[p].starts)
      if ((taken & MaskOf(At(p), start)) == 0) left += kShapes[p].compute;
  }
  return left;
}

using StartTable = std::array<std::array<int8_t, 256>, kProfiles>;

StartTable MakeStarts() {
  StartTable table;
  for (int p = 0; p < kProfiles; ++p)
    for (int taken = 0; taken < 256; ++taken) {
      int best = -1, most = -1;
      for (const int start : kShapes[p].starts) {
        const SliceMask mask = MaskOf(At(p), start);
        if ((taken & mask) != 0) continue;
        // Of equals, the last: the low slices are where most profiles may begin.
        const int left = PlacementsLeft(static_cast<SliceMask>(taken | mask));
        if (left >= most) most = left, best = start;
      }
      table[p][taken] = static_cast<int8_t>(best);
    }
  return table;
}

// Every arrangement from `slice` on, in the order of their starts. Memory is what runs out: no arrangement
// that fits the eight memory slices needs more than seven sevenths of the compute.
struct Walk {
  bool double_memory;
  std::vector<SlicePlacement> chosen = {};
  Geometry& found;
  std::set<ProfileCounts> seen = {};

  bool Allowed(int p) const { return double_memory || At(p) != Profile::k1gMem; }

  bool AnyFits(SliceMask taken) const {
    for (int p = 0; p < kProfiles; ++p)
      for (const int start : kShapes[p].starts)
        if (Allowed(p) && (taken & MaskOf(At(p), start)) == 0) return true;
    return false;
  }

  void From(int slice, SliceMask taken) {
    if (slice == kSlices) {
      ProfileCounts counts{};
      for (const SlicePlacement& placement : chosen) ++counts[static_cast<int>(placement.profile)];
      if (!chosen.empty()) seen.insert(counts);
      if (!chosen.empty() && !AnyFits(taken)) found.placements.push_back(chosen);
      return;
    }
    From(slice + 1, taken);
    for (int p = 0; p < kProfiles; ++p) {
      const auto& starts = kShapes[p].starts;
      if (!Allowed(p) || std::find(starts.begin(), starts.end(), slice) == starts.end()) continue;
      const SliceMask mask = MaskOf(At(p), slice);
      if ((taken & mask) != 0) continue;
      chosen.push_back({At(p), slice});
      From(slice + 1, static_cast<SliceMask>(taken | mask));
      chosen.pop_back();
    }
  }
};

}  // namespace

const ProfileShape& ShapeOf(Profile profile) { return kShapes[static_cast<int>(profile)]; }

std::optional<Profile> ProfileByName(std::string_view name) {
  for (int p = 0; p < kProfiles; ++p)
    if (name == kShapes[p].name) return At(p);
  return std::nullopt;
}

SliceMask MaskOf(Profile profile, int start) {
  return static_cast<SliceMask>(((1 << ShapeOf(profile).memory) - 1) << start);
}

int BestStart(Profile profile, SliceMask taken) {
  static const StartTable table = MakeStarts();
  return table[static_cast<int>(profile)][taken];
}

Profile ProfileFor(int milli, SliceRule rule) {
  for (const Profile profile : {Profile::k1g, Profile::k2g, Profile::k3g, Profile::k4g}) {
    const ProfileShape& shape = ShapeOf(profile);
    if (rule == SliceRule::kCompute ? milli * 7 <= shape.compute * 1000 : milli * 8 <= shape.memory * 1000)
      return profile;
  }
  return Profile::k7g;
}

std::string ToText(const ProfileCounts& counts) {
  std::string text;
  for (int p = kProfiles - 1; p >= 0; --p)
    for (int n = 0; n < counts[p]; ++n) text += (text.empty() ? "" : " + ") + std::string(kShapes[p].name);
  return text;
}

Geometry Reachable(SliceMask taken, bool double_memory) {
  Geometry geometry;
  Walk walk{double_memory, {}, geometry, {}};
  walk.From(0, taken);
  geometry.multisets.assign(walk.seen.begin(), walk.seen.end());
  for (const ProfileCounts& one : geometry.multisets) {
    bool maximal = true;
    for (int p = 0; p < kProfiles && maximal; ++p) {
      ProfileCounts more = one;
      ++more[p];
      maximal = !walk.seen.contains(more);
    }
    if (maximal) geometry.maximal.push_back(one);
  }
  return geometry;
}

}  // namespace spillway::scheduler
