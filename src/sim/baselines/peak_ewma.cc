// SPDX-License-Identifier: Apache-2.0
// Peak EWMA as Finagle and linkerd have it: two at random, the one with the lower latency * (active + 1).
// The average takes a higher latency at once and a lower one slowly, by the time since it last changed.
#include <cmath>

#include "sim/baselines/decider.h"

namespace spillway::sim {
namespace {

class PeakEwma final : public Decider {
 public:
  explicit PeakEwma(const DeciderSetup& setup)
      : Decider(UnitSet(setup.units), setup.seed, {.answers = true}),
        decay_(static_cast<double>(setup.choice.decay.count())),
        peers_(setup.units.size()) {}

  void SeeAnswer(const SeenAnswer& answer) override {
    Peer& peer = peers_[answer.unit];
    peer.active--;
    Observe(peer, answer.at, static_cast<double>(answer.latency));  // of one given up on: how long it took
  }

 private:
  struct Peer {
    double latency = 0;  // ns
    Time changed = 0;
    uint32_t active = 0;
  };

  void Observe(Peer& peer, Time now, double latency) const {
    const double kept = std::exp(-static_cast<double>(now - peer.changed) / decay_);
    peer.latency = latency > peer.latency ? latency : peer.latency * kept + latency * (1 - kept);
    peer.changed = now;
  }

  double Cost(Peer& peer, Time now) const {
    Observe(peer, now, 0);  // looking at it lets it decay: a unit once slow is tried again
    // Not yet answered, and asked: no second request before the first answer, if anyone else can take it.
    if (peer.latency == 0 && peer.active > 0) return 1e18 + peer.active;
    return peer.latency * (peer.active + 1.0);
  }

  uint32_t Pick(Time now) override {
    units_.DrawDistinct(random_, 2, drawn_);
    uint32_t best = drawn_.front();
    if (drawn_.size() == 2 && Cost(peers_[drawn_[1]], now) < Cost(peers_[best], now)) best = drawn_[1];
    peers_[best].active++;
    return best;
  }

  const double decay_;  // ns
  std::vector<Peer> peers_;
  std::vector<uint32_t> drawn_;
};

}  // namespace

std::unique_ptr<Decider> MakePeakEwma(const DeciderSetup& setup) { return std::make_unique<PeakEwma>(setup); }

}  // namespace spillway::sim
