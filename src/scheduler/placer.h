// SPDX-License-Identifier: Apache-2.0
// Where a job should go: one decision after another on a cluster, each with its reasons. Pure; one thread.
//
// Cost of a decision: scores are kept per shape (jobs that ask for the same), and only nodes that changed
// since the shape was last seen are scored again; the best is found through blocks of nodes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "core/ring_build.h"
#include "scheduler/cluster.h"
#include "scheduler/fill_value.h"
#include "scheduler/fragmentation.h"

namespace spillway::scheduler {

// How nodes are compared.
//   spillway  with a look-ahead: the node whose free GPUs and CPU lose least of what they are worth to the
//   jobs
//             that are still to come (fill_value.h). Without: FGD's measure in steps of its own; of nodes in
//             one step the one whose GPUs are used most
//   fgd       FGD as published: its score in whole numbers 0..100, the first node of equals
//   best-fit, dot-product, gpu-clustering, gpu-packing
//             what FGD is compared with (peer_scores.h); then the fullest GPU that fits
//   first-fit the first node and GPU that fit
//   random    any node and GPU that fit
enum class Policy : uint8_t {
  kSpillway,
  kFgd,
  kBestFit,
  kDotProduct,
  kGpuClustering,
  kGpuPacking,
  kFirstFit,
  kRandom
};
inline constexpr Policy kPolicies[] = {Policy::kSpillway,   Policy::kFgd,           Policy::kBestFit,
                                       Policy::kDotProduct, Policy::kGpuClustering, Policy::kGpuPacking,
                                       Policy::kFirstFit,   Policy::kRandom};
[[nodiscard]] std::optional<Policy> PolicyByName(std::string_view name);
[[nodiscard]] const char* ToString(Policy policy);

// What comes before the policy's score.
//   fragmentation  nothing
//   fewest-gpus    a place that switches no GPU on
//   earliest       the fastest model: the job is done first there
enum class Objective : uint8_t { kFragmentation, kFewestGpus, kEarliest };
[[nodiscard]] std::optional<Objective> ObjectiveByName(std::string_view name);
[[nodiscard]] const char* ToString(Objective objective);

struct PlacerOptions {
  Policy policy = Policy::kSpillway;
  Objective objective = Objective::kFragmentation;
  uint64_t seed = 1;  // of policy `random`
};

// Why a job goes where it goes. `refused` counts the nodes that cannot take it, by the first thing missing.
struct Explanation {
  struct Candidate {
    Spot spot;
    double fragmentation = 0;  // milli that become useless by it; less than 0: that become useful
    int gpus_switched_on = 0;
    double speed = 1;
    double score = 0;  // the policy's, higher is better
  };
  // A GPU of the chosen node, for a part of one.
  struct GpuChoice {
    int gpu = 0, free_milli = 0, start = -1;  // start: of its slice, where the job would have one
    bool fits = false, on = false;
    double fragmentation = 0;
  };
  std::optional<Spot> chosen;
  std::vector<Candidate> best;  // the chosen first, a few more
  std::vector<GpuChoice> gpus;  // of the chosen node
  PlacerOptions how;
  bool looks_ahead = false;  // the score is by prices (fill_value.h)
  int nodes = 0, fitting = 0;
  struct {
    int model = 0, cpu = 0, memory = 0, gpu = 0, tenant = 0;
  } refused;
};

class Placer {
 public:
  // All must outlive it. `fill`: the look-ahead of policy `spillway`, under isolation `none`; without it that
  // policy goes by the mix alone. Ignored under the others.
  Placer(const Cluster& cluster, const JobMix& mix, PlacerOptions options = {},
         const FillValue* fill = nullptr);

  // From now on by these, which must outlive it. All nodes are rated anew, shape by shape, when they are
  // next asked about.
  void Learn(const JobMix& mix, const FillValue* fill);

  // Where the job should go now; nothing where it fits nowhere. The caller places it. Remembers scores only.
  [[nodiscard]] std::optional<Spot> Decide(const Job& job);

  // The same job on that node alone: its best GPU and what the policy gives it; nothing where it does not
  // fit. The node that Decide takes is the first of those that are rated highest (not under `random`).
  // Remembers nothing of the job.
  struct Rating {
    double score;
    Spot spot;
  };
  [[nodiscard]] std::optional<Rating> RateOn(const Job& job, int node);

  // The same decision, with all that was weighed. Slow.
  [[nodiscard]] Explanation Explain(const Job& job);

 private:
  static constexpr int kBlock = 32;           // nodes
  static constexpr size_t kMaxShapes = 2048;  // remembered; one costs 5 bytes per node
  struct Shape {
    std::vector<float> score;
    std::vector<int8_t> gpu;      // -1: does not fit
    std::vector<int> block_best;  // node; -1: none
    uint64_t seen = 0;            // changes of the cluster up to which it is right
    uint64_t used = 0;            // when, in decisions
    bool fresh = true;
  };
  struct ShapeHash {
    size_t operator()(const Job& job) const;
  };
  struct Rated {
    float score;
    int8_t gpu;
  };

  Job ShapeOfJob(Job job) const;
  Shape& ShapeFor(const Job& job);
  void Refresh(Shape& shape, const Job& job);
  Rated Rate(const Job& job, int node);
  double Fragmentation(const Node& node) const;
  std::array<int16_t, kMaxGpus> FreeAfter(const Job& job, const Node& node, int gpu) const;
  double Lost(const Job& job, const Node& node, int gpu, double before) const;
  double WorthAfter(const Job& job, const Node& node, int gpu) const;
  double Before(int node);
  void BestOfBlock(Shape& shape, int block) const;
  std::optional<Spot> Best(const Shape& shape) const;
  std::optional<Spot> AnyOf(const Shape& shape, const Job& job);

  const Cluster& cluster_;
  const JobMix* mix_;
  PlacerOptions options_;
  const FillValue* fill_;
  std::unordered_map<Job, std::unique_ptr<Shape>, ShapeHash> shapes_;
  std::vector<double> before_;  // each node's fragmentation as it stands, or what it is worth
  uint64_t before_seen_ = 0;
  uint64_t decisions_ = 0;
  base::SplitMix64 random_;
};

}  // namespace spillway::scheduler
