// SPDX-License-Identifier: Apache-2.0
// What a run of the dispatch benchmark drives: one producer, one consumer, and an engine between them. Put
// and Get are called by one thread each.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dispatch/domain.h"

namespace spillway::bench {

class Rig {
 public:
  virtual ~Rig() = default;
  // Fills in, once, what the engine wants of the producer's events; flow and user stay the caller's.
  virtual void Prepare(std::span<dispatch::Event>) {}
  // How many were taken.
  virtual size_t Put(std::span<dispatch::Event> events) = 0;
  // Up to a burst, after it has ended or passed on what it gave before; `events` that are at their last
  // stage.
  virtual size_t Get(std::span<dispatch::Event> events) = 0;
  // The producer has nothing more to put for now.
  virtual void Flush() {}
};

// engine: native, event_sw, event_dsw, rte_ring, moodycamel, tbb. kind: of domains atomic, ordered,
// unordered, directed, two-stage (atomic, then forwarded to a second atomic queue, by the same worker), and
// of native also remote-shm (into an atomic queue by a window, as another process would); of rings spsc,
// mpmc, distributor (rings of two workers, by flow; one thread serves both); of queues mpmc.
struct RigKind {
  std::string engine, kind;
};

// Those that this build has.
[[nodiscard]] std::vector<RigKind> RigKinds();

// Errors: kUnavailable where the machine lacks what the engine needs.
[[nodiscard]] Result<std::unique_ptr<Rig>> MakeRig(const RigKind& kind);

// A domain with what a guideline asks for.
struct DomainRigOptions {
  dispatch::QueueOptions queue;
  dispatch::Wait wait = dispatch::Wait::kPoll;
  int priorities = 1;     // the producer spreads its bursts over so many
  bool deadline = false;  // watched for hung workers
};
[[nodiscard]] Result<std::unique_ptr<Rig>> MakeDomainRig(const std::string& engine,
                                                         const DomainRigOptions& options,
                                                         bool two_stage = false);
[[nodiscard]] Result<std::unique_ptr<Rig>> MakeRemoteRig();

}  // namespace spillway::bench
