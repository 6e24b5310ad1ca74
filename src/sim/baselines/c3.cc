// SPDX-License-Identifier: Apache-2.0
// C3 (Suresh, Canini, Schmid, Feldmann; NSDI 2015): replicas ranked by network time and a cubic estimate of
// the queue. Its rate control, which delays requests at the client, is left out: a switch holds none back.
#include "sim/baselines/decider.h"

namespace spillway::sim {
namespace {

constexpr double kNewestAnswer = 0.9;  // weight of the newest answer in the averages

class C3 final : public Decider {
 public:
  explicit C3(const DeciderSetup& setup)
      : Decider(UnitSet(setup.units), setup.seed, {.answers = true}),
        switches_(setup.switches),
        replicas_(setup.units.size()) {}

  void SeeAnswer(const SeenAnswer& answer) override {
    Replica& replica = replicas_[answer.unit];
    replica.pending--;
    if (answer.lost) return;
    const auto service = static_cast<double>(answer.service), queue = static_cast<double>(answer.queue);
    const double network = static_cast<double>(answer.latency - answer.waited) - service;
    const double weight = replica.known ? kNewestAnswer : 1;
    replica.network += weight * (network - replica.network);
    replica.service += weight * (service - replica.service);
    replica.queue += weight * (queue - replica.queue);
    replica.known = true;
  }

 private:
  struct Replica {
    double network = 0, service = 0, queue = 0;  // ns, ns, requests: moving averages
    uint32_t pending = 0;                        // own requests without an answer
    bool known = false;
  };

  double Score(const Replica& r) const {
    if (!r.known) return 0;  // asked first
    const double queue = 1 + switches_ * r.pending + r.queue;
    return r.network + queue * queue * queue * r.service;
  }

  uint32_t Pick(Time) override {
    const std::span<const uint32_t> seen = units_.See(random_);
    // From a random one on, so that equal units share.
    const size_t start = random_.Bits() % seen.size();
    uint32_t best = seen[start];
    double least = Score(replicas_[best]);
    for (size_t i = 1; i < seen.size(); i++) {
      const uint32_t u = seen[(start + i) % seen.size()];
      const double score = Score(replicas_[u]);
      if (score < least) best = u, least = score;
    }
    replicas_[best].pending++;
    return best;
  }

  const double switches_;
  std::vector<Replica> replicas_;
};

}  // namespace

std::unique_ptr<Decider> MakeC3(const DeciderSetup& setup) { return std::make_unique<C3>(setup); }

}  // namespace spillway::sim
