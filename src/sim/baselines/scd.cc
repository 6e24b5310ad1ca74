// SPDX-License-Identifier: Apache-2.0
// SCD (Goren, Vargaftik, Moses; PODC 2021): several dispatchers draw from the distribution that is best given
// that the others draw from it too, and so do not all run to the unit that looks idlest.
//
// The paper's rounds, in which every dispatcher knows all queues at the start and has several requests to
// place, are taken here to single requests: a queue is what the newest report says and what this switch has
// placed there since, and the requests that come unseen are those of the other switches, as many as this
// switch would place in the time that a report is the newest. With one switch none do, and the rule is the
// shortest expected delay.
#include "sim/baselines/scd.h"

#include <algorithm>
#include <numeric>

#include "sim/baselines/decider.h"
#include "sim/baselines/known_load.h"

namespace spillway::sim {

// With p the share of a queue q of rate mu, A arrivals and water level W, the expected sum is, but for
// constants and a factor A, the sum of ((A - 1) p^2 + x p) / mu, x = 2 (q - mu W) + 1. Its least under sum p
// = 1 has p = max(0, (mu K - (2q + 1)) / (2 (A - 1))) for some K: W is the same for all and goes into K. The
// queues with a share are a prefix of those sorted by (2q + 1) / mu.
std::vector<double> ScdShares(std::span<const ScdQueue> queues, double arrivals) {
  std::vector<double> shares(queues.size(), 0);
  std::vector<size_t> order(queues.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](size_t i) { return (2 * queues[i].length + 1) / queues[i].rate; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  const double others = 2 * (arrivals - 1);
  if (others <= 0) {
    shares[order.front()] = 1;
    return shares;
  }
  double level = 0, lengths = 0, rates = 0;
  size_t taking = 0;
  for (; taking < order.size() && (taking == 0 || key(order[taking]) < level); taking++) {
    lengths += 2 * queues[order[taking]].length + 1;
    rates += queues[order[taking]].rate;
    level = (others + lengths) / rates;
  }
  for (size_t i = 0; i < taking; i++) {
    const ScdQueue& queue = queues[order[i]];
    shares[order[i]] = std::max(0.0, (queue.rate * level - (2 * queue.length + 1)) / others);
  }
  return shares;
}

namespace {

constexpr double kNewestGap = 1.0 / 16;  // weight of the newest in smoothed gaps and spans

class Scd final : public Decider {
 public:
  explicit Scd(const DeciderSetup& setup)
      : Decider(UnitSet(setup.units), setup.seed, {.reports = true}),
        others_(setup.switches - 1.0),
        reported_(setup.units.size()),
        unreported_(setup.units.size(), setup.wire) {}

  void HearReport(const UnitLoad& load) override {
    Reported& unit = reported_[load.unit];
    // From when a report was true to when the next replaces it, what others place is unseen.
    const auto span = static_cast<double>(load.at - unit.made);
    span_ += kNewestGap * (span - span_);
    unit = {load.rif, load.made};
    unreported_.Report(load.unit, load.made);
  }

 private:
  struct Reported {
    uint32_t queue = 0;
    Time made = 0;
  };

  uint32_t Pick(Time now) override {
    const auto gap = static_cast<double>(now - last_);
    gap_ = gap_ == 0 ? gap : gap_ + kNewestGap * (gap - gap_);
    last_ = now;

    const std::span<const uint32_t> seen = units_.See(random_);
    queues_.clear();
    double rates = 0;
    for (uint32_t u : seen) {
      queues_.push_back({static_cast<double>(reported_[u].queue + unreported_.On(u)), units_.CapacityOf(u)});
      rates += queues_.back().rate;
    }
    const double unseen = gap_ > 0 ? others_ * span_ / gap_ * rates / units_.TotalCapacity() : 0;
    const std::vector<double> shares = ScdShares(queues_, 1 + unseen);
    double left = random_.Uniform();
    size_t drawn = 0;
    for (size_t i = 0; i < shares.size(); i++) {
      if (shares[i] == 0) continue;
      drawn = i;
      left -= shares[i];
      if (left <= 0) break;
    }
    unreported_.Place(seen[drawn], now);
    return seen[drawn];
  }

  const double others_;  // switches
  std::vector<Reported> reported_;
  Unreported unreported_;
  std::vector<ScdQueue> queues_;
  double gap_ = 0, span_ = 0;  // ns: between own requests; that a report stays the newest
  Time last_ = 0;
};

}  // namespace

std::unique_ptr<Decider> MakeScd(const DeciderSetup& setup) { return std::make_unique<Scd>(setup); }

}  // namespace spillway::sim
