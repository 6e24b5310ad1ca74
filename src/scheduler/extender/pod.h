// SPDX-License-Identifier: Apache-2.0
// A pod as the scheduler sees it: what it asks of GPUs, and where it is. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/job.h"

namespace spillway::scheduler {

inline constexpr const char* kPluginResource = "nvidia.com/gpu";  // the device plugin's: whole GPUs
inline constexpr const char* kMilliResource = "spillway.io/gpu-milli";
inline constexpr const char* kModelsAnnotation = "spillway.io/gpu-models";
inline constexpr const char* kTenantLabel = "spillway.io/tenant";     // of a namespace
inline constexpr const char* kGpuAnnotation = "spillway.io/gpu";      // written at bind: "2" or "0,3"
inline constexpr const char* kSliceAnnotation = "spillway.io/slice";  // written at bind: "3g@4"

// Who hands the GPUs out on the node: we, by the annotations, or NVIDIA's device plugin, which chooses
// itself.
enum class Giver : uint8_t { kNobody, kSpillway, kDevicePlugin };

struct PodAsk {
  std::string space, name, uid;  // its namespace, ...
  Giver giver = Giver::kNobody;  // kNobody: asks for no GPU
  Job job;                       // `models`, `tenant` and `profile` are the cluster's to fill in
  std::string mig;               // "3g.40gb": that slice, of whatever GPU has it
  std::vector<std::string> models;
};

struct BoundPod {
  PodAsk ask;
  std::string node;        // empty: not yet on one
  std::string gpu, slice;  // the annotations
  bool finished = false;   // holds nothing any more
};

// Whoever may make pods writes their annotations: they choose among models, and that is all that is believed
// of them. kBadInput: what is asked for cannot be, with the resource and what was expected.
[[nodiscard]] Result<PodAsk> ReadPodAsk(const nlohmann::json& pod);
// Of a pod on a node, also one that asks by annotation, which has no say there.
[[nodiscard]] Result<BoundPod> ReadBoundPod(const nlohmann::json& pod);

// Of a pod that those refuse: it may hold GPUs all the same.
struct UnreadablePod {
  std::string node;           // empty: it holds nothing
  std::vector<Giver> givers;  // who may have given it GPUs
};
[[nodiscard]] UnreadablePod ReadUnreadablePod(const nlohmann::json& pod);

// The profile that "Cg.Mgb" is on a GPU of that model; nullopt where it has none such.
[[nodiscard]] std::optional<Profile> ProfileOn(const GpuModel& model, const std::string& mig);

}  // namespace spillway::scheduler
