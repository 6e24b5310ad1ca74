// SPDX-License-Identifier: Apache-2.0
// Prequal (Wydrowski, Kleinberg, Rumble, Archer; NSDI 2024): asynchronous probes into a small pool, "hot" by
// requests in flight, latency among the cold. In a server of few units the pool is every unit, by its
// reports.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/baselines/decider.h"
#include "sim/baselines/known_load.h"

namespace spillway::sim {
namespace {

// The publication's, but for the count of RIFs that the quantile is taken of, which it leaves open.
constexpr size_t kPool = 16, kProbes = 3, kRecentRifs = 128;
constexpr Time kFresh = 1'000'000'000;
constexpr double kDelta = 1;

// The RIF up to which a unit is cold.
class Threshold {
 public:
  explicit Threshold(double quantile) : quantile_(quantile) {}
  void Add(uint32_t rif) {
    if (recent_.size() < kRecentRifs)
      recent_.push_back(rif);
    else
      recent_[next_++ % kRecentRifs] = rif;
    stale_ = true;
  }
  uint32_t Get() {
    if (stale_ && !recent_.empty()) {
      sorted_ = recent_;
      const auto rank = static_cast<size_t>(std::ceil(quantile_ * static_cast<double>(sorted_.size())));
      const auto at = sorted_.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
      std::nth_element(sorted_.begin(), at, sorted_.end());
      value_ = *at;
      stale_ = false;
    }
    return value_;
  }

 private:
  const double quantile_;
  std::vector<uint32_t> recent_, sorted_;
  size_t next_ = 0;
  uint32_t value_ = 0;
  bool stale_ = false;
};

// Position of the best of `entries`, which is not empty: the lowest latency among the cold; if all are hot,
// the lowest RIF. Equal ones are told apart by the other figure.
template <class Entries>
size_t BestOf(const Entries& entries, uint32_t threshold) {
  const auto before = [&](const auto& a, const auto& b) {
    const bool a_cold = a.rif <= threshold, b_cold = b.rif <= threshold;
    if (a_cold != b_cold) return a_cold;
    if (a_cold) return a.latency != b.latency ? a.latency < b.latency : a.rif < b.rif;
    return a.rif != b.rif ? a.rif < b.rif : a.latency < b.latency;
  };
  return static_cast<size_t>(std::min_element(entries.begin(), entries.end(), before) - entries.begin());
}

class ProbingPrequal final : public Decider {
 public:
  explicit ProbingPrequal(const DeciderSetup& setup)
      : Decider(UnitSet(setup.units), setup.seed, {}), threshold_(setup.choice.quantile) {
    const double spare =
        (1 - static_cast<double>(kPool) / static_cast<double>(setup.units.size())) * kProbes - 1;
    uses_ = spare <= 0 ? kPool : std::clamp((1 + kDelta) / spare, 1.0, static_cast<double>(kPool));
  }

  std::span<const uint32_t> Probes() const override { return probes_; }

  void HearProbe(const UnitLoad& load) override {
    threshold_.Add(load.rif);
    std::erase_if(pool_, [&](const Entry& entry) { return entry.unit == load.unit; });
    if (pool_.size() == kPool) pool_.erase(pool_.begin());
    const double whole = std::floor(uses_);
    const auto uses = static_cast<uint32_t>(whole) + (random_.Uniform() <= uses_ - whole ? 1 : 0);
    pool_.push_back({load.unit, load.rif, load.latency, load.at, uses});
  }

 private:
  struct Entry {
    uint32_t unit, rif;
    Time latency, came;
    uint32_t uses;
  };

  uint32_t Pick(Time now) override {
    std::erase_if(pool_, [&](const Entry& e) { return now - e.came > kFresh || !units_.IsUp(e.unit); });
    const uint32_t unit = pool_.size() < 2 ? units_.Draw(random_) : PickFromPool();
    RemoveOne();
    units_.DrawDistinct(random_, kProbes, probes_);
    return unit;
  }

  uint32_t PickFromPool() {
    const size_t best = BestOf(pool_, threshold_.Get());
    Entry& entry = pool_[best];
    const uint32_t unit = entry.unit;
    entry.rif++;
    if (--entry.uses == 0) pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(best));
    return unit;
  }

  // In turns the oldest, which stands first, and the worst.
  void RemoveOne() {
    oldest_next_ = !oldest_next_;
    if (pool_.empty()) return;
    auto removed = pool_.begin();
    if (oldest_next_) {
      const uint32_t threshold = threshold_.Get();
      const auto better = [&](const Entry& a, const Entry& b) {
        const bool a_hot = a.rif > threshold, b_hot = b.rif > threshold;
        if (a_hot != b_hot) return b_hot;
        return a_hot ? a.rif < b.rif : a.latency < b.latency;
      };
      removed = std::max_element(pool_.begin(), pool_.end(), better);
    }
    pool_.erase(removed);
  }

  Threshold threshold_;
  double uses_;
  std::vector<Entry> pool_;  // the oldest first
  std::vector<uint32_t> probes_;
  bool oldest_next_ = true;
};

class ReportedPrequal final : public Decider {
 public:
  explicit ReportedPrequal(const DeciderSetup& setup)
      : Decider(UnitSet(setup.units), setup.seed, {.reports = true, .histories = true}),
        silent_after_(setup.silent_after),
        threshold_(setup.choice.quantile),
        reported_(setup.units.size()),
        unreported_(setup.units.size(), setup.wire) {}

  void HearReport(const UnitLoad& load) override {
    unreported_.Report(load.unit, load.made);
    reported_[load.unit] = {load.rif, load.at, *load.history, true};
  }

 private:
  struct Reported {
    uint32_t rif = 0;
    Time came = 0;
    UnitHistory history;
    bool known = false;
  };
  struct Entry {
    uint32_t unit, rif;
    Time latency;
  };

  uint32_t Pick(Time now) override {
    pool_.clear();
    for (uint32_t u : units_.Up()) {
      const Reported& unit = reported_[u];
      if (!unit.known || now - unit.came > silent_after_) continue;
      const uint32_t rif = unit.rif + unreported_.On(u);
      threshold_.Add(rif);  // as they are judged: reports know nothing of what was sent since
      pool_.push_back({u, rif, unit.history.LatencyAt(rif)});
    }
    const uint32_t best =
        pool_.size() < 2 ? units_.Draw(random_) : pool_[BestOf(pool_, threshold_.Get())].unit;
    unreported_.Place(best, now);
    return best;
  }

  const Time silent_after_;
  Threshold threshold_;
  std::vector<Reported> reported_;
  Unreported unreported_;
  std::vector<Entry> pool_;
};

}  // namespace

std::unique_ptr<Decider> MakePrequal(const DeciderSetup& setup) {
  const bool probes = setup.choice.probes.value_or(setup.units.size() > kMaxReportedPrequalUnits);
  if (probes) return std::make_unique<ProbingPrequal>(setup);
  return std::make_unique<ReportedPrequal>(setup);
}

}  // namespace spillway::sim
