// SPDX-License-Identifier: Apache-2.0
// What the controller knows: GPU hosts, models that are to be served, and the instances that serve them.
// Plain values, and their text form, in which they outlive the program. Pure.
//
// An instance is one executor on one slice. Its moves:
//   starting -> ready      its executor joined the gateway and can serve
//   ready -> draining      it gets no new requests: its model left, or another instance took its place
//   draining -> ready      it is needed after all: the one that was to take its place is gone
//   any -> stopping        its host is to end it and give its slice back; it keeps its place until it has
//   stopping -> (erased)   the host says that nothing of it is left
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "scheduler/gpu_model.h"

namespace spillway::scheduler {

// Milliseconds of a clock that goes on while the program is away, such as since 1970.
using Millis = int64_t;

struct ServedModel {
  std::string name;
  std::string tenant;  // whose it is: which models may share a GPU under isolation `gpu`
  int replicas = 1;
  int milli = 1000;     // of a GPU's compute, for each replica
  int memory_mib = 0;   // of a GPU's memory, for each replica; 0: not said
  Millis slo_ms = 0;    // what a request may take; 0: not said. Prices moves, and forbids some
  std::string program;  // what its executors run, in words of theirs; opaque here
  // Instead: one of the programs that its host lists (GpuHost::programs) serves it. Empty: an executor.
  std::string host_program = {};
  bool operator==(const ServedModel&) const = default;
};
// Apart from what an instance need not be begun anew for: how many there are, and the SLO.
[[nodiscard]] bool IsSameService(ServedModel a, const ServedModel& b);
// The keys of a model's file in which two services differ: "tenant, share".
[[nodiscard]] std::string ServiceDifference(const ServedModel& a, const ServedModel& b);

struct Gpu {
  std::string id;  // one of its own on its host
  std::string model;
  int memory_mib = 0;       // 0: not known
  bool can_divide = false;  // into slices as MIG does
  std::string lost = {};    // why it cannot be used now, such as that it fell off the bus; empty: it can
  bool operator==(const Gpu&) const = default;
};

struct GpuHost {
  std::vector<Gpu> gpus;
  bool is_up = false;
  Millis since = 0;                     // up or not up
  std::set<std::string> programs = {};  // that it can start to serve models
  std::string agent = {};               // identity of the node agent that speaks for it
  // A node agent that is told to end says first that there are no GPUs any more.
  [[nodiscard]] bool HasEnded() const { return gpus.empty(); }
  bool operator==(const GpuHost&) const = default;
};

enum class Phase : uint8_t { kStarting, kReady, kDraining, kStopping };
[[nodiscard]] const char* ToString(Phase phase);

// The part of a GPU that an instance has.
struct SlicePlace {
  std::string host, gpu;
  int milli = 1000;
  std::optional<Profile> profile = {};  // under isolation `fraction`, where the GPU can be divided
  int start = -1;                       // its first memory slice, where it has a profile
  bool operator==(const SlicePlace&) const = default;
};

struct Instance {
  uint64_t id = 0;
  ServedModel model;  // as it was when this began
  SlicePlace place;
  Phase phase = Phase::kStarting;
  Millis since = 0;        // in this phase
  uint64_t replaces = 0;   // the instance whose place it takes once it is ready; 0: none's
  uint64_t dropped = 0;    // stopping: the revision from which on its host was not to have it
  bool is_unseen = false;  // was ready before the controller's restart, and has not joined again yet
  bool operator==(const Instance&) const = default;
};

// A move that was decided and waits for room where it goes.
struct PlannedMove {
  uint64_t instance = 0;
  SlicePlace to;
  bool operator==(const PlannedMove&) const = default;
};

// Its executor is there, and gets requests.
[[nodiscard]] inline bool IsServing(const Instance& one) {
  return one.phase == Phase::kReady && !one.is_unseen;
}

// What went wrong with a model or a GPU of late.
struct Trouble {
  int failures = 0;
  Millis not_before = 0;  // nothing new is tried until then
  std::string why;
  std::string where = {};  // of a model's last failure: HOST/GPU, tried again only if there is no other
  bool operator==(const Trouble&) const = default;
};

// What a request of a served model took on a model of GPU, and when that was last borne out.
struct ServiceTime {
  double ms = 0;
  Millis at = 0;
  bool operator==(const ServiceTime&) const = default;
};
using ServiceTimes = std::map<std::string, std::map<std::string, ServiceTime>>;  // by served model, by GPU's

struct Fleet {
  uint64_t revision = 0;  // counts changes of what hosts are to have
  uint64_t last_id = 0;
  std::map<std::string, ServedModel> models;
  std::map<std::string, GpuHost> hosts;
  std::map<uint64_t, Instance> instances;
  std::vector<PlannedMove> planned;
  std::map<std::string, Trouble> model_troubles, gpu_troubles;  // by name; by HOST/GPU
  std::map<std::string, Millis> downtime_ms;  // by model: what a move cost its requests, of late
  ServiceTimes service_times;                 // as learned_speeds.h learns them
  double moves_left = 0;                      // of the budget
  uint64_t moves_done = 0, moves_failed = 0;
  Millis gpu_ms = 0;      // GPUs with an instance, times time
  Millis now = 0;         // of the last event; every time here is of this clock, which is never set back
  Millis changed = 0;     // when models, hosts or instances' phases last did
  Millis considered = 0;  // when it was last asked whether moves would free a GPU
  bool operator==(const Fleet&) const = default;
};

// Whether it can start that program; an empty one is an executor, which each can.
[[nodiscard]] bool Lists(const GpuHost& host, const std::string& program);

// Why nothing can run there, as its host says: the GPU is lost, or the host has it no longer; empty: it can.
[[nodiscard]] std::string WhyLost(const Fleet& fleet, const SlicePlace& place);

// It was to end, and its host or its GPU is lost: nothing more may be known of it until that is back, which
// may be never.
[[nodiscard]] bool IsStranded(const Fleet& fleet, const Instance& one);

// The model of the GPU at that place; empty: its host says nothing of it.
[[nodiscard]] std::string GpuModelAt(const Fleet& fleet, const SlicePlace& place);

// JSON, one object. What is read back equals what was written.
[[nodiscard]] std::string ToText(const Fleet& fleet);
// kBadInput: "KEY: what was expected". Never half a fleet.
[[nodiscard]] Result<Fleet> ParseFleet(std::string_view text);

}  // namespace spillway::scheduler
