// SPDX-License-Identifier: Apache-2.0
#include "sim/run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

#include "core/ring.h"
#include "sim/balancer.h"
#include "sim/baselines/network.h"
#include "sim/layout.h"
#include "sim/random.h"
#include "sim/station.h"
#include "sim/unit_agent.h"
#include "sim/workload.h"

namespace spillway::sim {
namespace {

// Streams drawn from a run's seed, so that one never shifts another.
enum Stream : uint64_t {
  kArrivalStream = 1,
  kServiceStream,
  kHashStream,
  kAgentStream,              // + unit
  kUnitStream = 1ull << 24,  // + unit
  kBaselineStream = 2ull << 24,
};
uint64_t StreamSeed(uint64_t seed, uint64_t stream) { return spw_mix64(seed) + spw_mix64(stream << 32); }

// What the operator tells the switch about failures, in the order of time.
struct Notice {
  Time at;
  uint32_t unit;  // of the layout
  bool down;
};

class Cluster {
 public:
  explicit Cluster(const RunSetup& setup)
      : setup_(setup),
        layout_(MakeLayout(*setup.app, setup.policy->units_as_servers)),
        service_times_(setup.app->spread, setup.app->cv, setup.app->bimodal),
        reads_reports_(setup.policy->decider == DeciderKind::kSwitch &&
                       (spw_unit_policy_reads_reports(setup.policy->unit_policy) ||
                        setup.policy->server_policy == SPW_SERVER_P2C)),
        front_free_(layout_.servers(), 0),
        seen_(layout_.units.size()) {
    if (setup.app->shared_cpus > 0) shared_.emplace(setup.app->shared_cpus);
    for (uint32_t u = 0; u < layout_.units.size(); u++) {
      const UnitProfile& profile = *layout_.units[u].profile;
      stations_.emplace_back(profile, setup.work, setup.wire, StreamSeed(setup.seed, kUnitStream + u),
                             shared_ && profile.shares_cpus ? &*shared_ : nullptr);
    }
    AddFailures();
    for (uint32_t u = 0; u < layout_.units.size(); u++) {
      agents_.emplace_back(stations_[u], AgentOf(u));
      due_.push_back(agents_[u].Due());
    }
    for (uint32_t s = 0; s < setup.switches; s++)
      balancers_.emplace_back(layout_, *setup.policy, setup.silent_after);
    if (IsBaseline(setup.policy->decider))
      baseline_.emplace(setup, layout_, StreamSeed(setup.seed, kBaselineStream),
                        [this](uint32_t u, Time at) { return stations_[u].FailedAt(at); });
  }

  ServiceTimes& service_times() { return service_times_; }

  // The two steps before Decide, some requests ahead of it: which servers will be asked depends on the hash
  // alone, and fetching their state early is half of the simulator's speed.
  void Announce(uint64_t hash) const { BalancerOf(hash).Announce(hash); }
  Balancer::Candidates Ask(uint64_t hash) const {
    const Balancer& balancer = BalancerOf(hash);
    const Balancer::Candidates ask = balancer.Ask(hash);
    Fetch(balancer, ask.first);
    if (setup_.policy->server_policy == SPW_SERVER_P2C) Fetch(balancer, ask.second);
    return ask;
  }

  // The unit for a request of this hash, and when it is sent there; -1: none.
  int Decide(uint64_t hash, const Balancer::Candidates& ask, Time& now) {
    while (next_notice_ < notices_.size() && notices_[next_notice_].at <= now) Tell(notices_[next_notice_++]);
    if (setup_.policy->decider == DeciderKind::kOmniscient) return Soonest(now);
    if (baseline_) return baseline_->Choose(IndexOf(hash), ask.first, ask.second, now);
    Balancer& balancer = balancers_[IndexOf(hash)];
    if (setup_.policy->front.service.count() > 0 && !PassFront(ask.first, now)) return -1;
    if (reads_reports_) {
      CatchUp(ask.first, now);
      if (ask.second != ask.first && setup_.policy->server_policy == SPW_SERVER_P2C) CatchUp(ask.second, now);
    }
    return balancer.Choose(ask, hash, now);
  }

  std::optional<Time> Place(int unit, Time now, double multiplier) {
    const auto u = static_cast<uint32_t>(unit);
    Station& station = stations_[u];
    if (!reads_reports_) {
      station.Forget(now);
    } else if (station.IsFull()) {
      CatchUpUnit(u, now);  // what has been answered by now makes room
    }
    const Time waits = baseline_ ? station.WaitAt(now) : 0;
    const std::optional<Time> latency = station.Place(now, multiplier);
    if (baseline_) baseline_->Placed(now, latency, waits);
    due_[u] = agents_[u].Due();
    return latency;
  }

  uint32_t ColumnOf(int unit) const { return layout_.units[static_cast<size_t>(unit)].column; }
  // The latency of the first unit, idle: what loss is measured by.
  Time Unloaded() const { return stations_.front().unloaded(); }
  void CountReports(RunResult& result) const {
    for (const UnitAgent& agent : agents_) {
      result.reports_sent += agent.sent();
      result.reports_lost += agent.lost();
    }
    if (!baseline_) return;
    result.reports_sent += baseline_->reports_sent();
    result.reports_lost += baseline_->reports_lost();
  }

 private:
  // Routers spread requests over the switches.
  size_t IndexOf(uint64_t hash) const {
    return balancers_.size() == 1 ? 0 : spw_mix64(hash ^ 0x5bd1e995) % balancers_.size();
  }
  const Balancer& BalancerOf(uint64_t hash) const { return balancers_[IndexOf(hash)]; }
  void Fetch(const Balancer& balancer, uint32_t server) const {
    balancer.Fetch(server);
    for (uint32_t u = layout_.first_unit[server]; u < layout_.first_unit[server + 1]; u++)
      stations_[u].Fetch();
  }

  AgentSetup AgentOf(uint32_t u) {
    const Layout::Unit& unit = layout_.units[u];
    const Station& station = stations_[u];
    const BusyTrigger& trigger = setup_.policy->trigger;
    AgentSetup agent;
    agent.reports = setup_.reports;
    const double base = static_cast<double>(station.unloaded()) +
                        1.5 * service_times_.MeanDeviation() * static_cast<double>(station.service());
    agent.known.base_us = static_cast<uint32_t>(std::max(1.0, std::round(base / 1000)));
    agent.known.knee_us = static_cast<uint32_t>(std::max<Time>(1, station.service() / 1000));
    agent.fixed = station.unloaded() - station.service();
    agent.workers = static_cast<uint16_t>(unit.profile->workers_known ? unit.profile->workers : 0);
    agent.known.slot_ns = static_cast<uint32_t>(std::clamp<Time>(station.slot(), 1, UINT32_MAX));
    const Time threshold =
        trigger.of_unloaded ? station.unloaded() : trigger.threshold.value_or(setup_.app->threshold).count();
    if (setup_.policy->unit_policy == SPW_UNIT_P4MITE)
      agent.busy_over = static_cast<Time>(setup_.threshold_try * static_cast<double>(threshold));
    agent.second_report = trigger.second_report.count();
    agent.seed = StreamSeed(setup_.seed, kAgentStream + u);
    agent.server = static_cast<uint16_t>(unit.server % SPW_MAX_SERVERS);
    agent.unit = static_cast<uint8_t>(unit.index);
    return agent;
  }

  void AddFailures() {
    for (const Failure& failure : setup_.app->failures) {
      uint32_t u = 0;  // the scenario's server and unit, found in the layout whichever way it was laid
      for (uint32_t server = 0; u < layout_.units.size(); u++) {
        if (u > 0 && layout_.units[u].column == 0) server++;
        if (server == failure.server && layout_.units[u].column == failure.unit) break;
      }
      if (u == layout_.units.size()) continue;
      stations_[u].FailDuring(failure.at.count(), failure.until.count());
      if (!failure.noticed) continue;
      notices_.push_back({failure.at.count() + failure.noticed->count(), u, true});
      notices_.push_back({failure.until.count() + failure.noticed->count(), u, false});
    }
    std::stable_sort(notices_.begin(), notices_.end(), [](auto& a, auto& b) { return a.at < b.at; });
  }

  void Tell(const Notice& notice) {
    for (Balancer& balancer : balancers_)
      balancer.SetDown(layout_.units[notice.unit].server, layout_.units[notice.unit].index, notice.down);
    if (baseline_) baseline_->SetDown(notice.unit, notice.down);
  }

  void CatchUp(uint32_t server, Time now) {
    for (uint32_t u = layout_.first_unit[server]; u < layout_.first_unit[server + 1]; u++) {
      if (due_[u] <= now) CatchUpUnit(u, now);
    }
  }

  void CatchUpUnit(uint32_t u, Time now) {
    const Layout::Unit& unit = layout_.units[u];
    agents_[u].CatchUp(now, [&](const spw_report& report, Time at) {
      if (!spw_report_is_newer(&report, &seen_[u])) return;
      const bool reborn = report.boot_id != seen_[u].boot_id;
      seen_[u] = {report.boot_id, report.sequence, 0};
      for (Balancer& balancer : balancers_) balancer.Accept(unit.server, unit.index, report, reborn, at);
    });
    due_[u] = agents_[u].Due();
  }

  // Through the balancer on a unit's core; false: its receive queue (1,024 packets) was full.
  bool PassFront(uint32_t server, Time& now) {
    const Time service = setup_.policy->front.service.count();
    if (front_free_[server] - now > 1024 * service) return false;
    now = front_free_[server] = std::max(front_free_[server], now) + service;
    return true;
  }

  // Least unloaded latency + weighted wait + weighted work ahead, all of them known exactly.
  int Soonest(Time now) {
    int best = -1;
    double least = 0;
    for (size_t u = 0; u < stations_.size(); u++) {
      const Station& station = stations_[u];
      const double cost = static_cast<double>(station.unloaded()) +
                          setup_.wait_weight * static_cast<double>(station.WaitAt(now)) +
                          setup_.work_weight * static_cast<double>(station.WorkAheadAt(now) + station.slot());
      if (best < 0 || cost < least) best = static_cast<int>(u), least = cost;
    }
    return best;
  }

  const RunSetup& setup_;
  const Layout layout_;
  ServiceTimes service_times_;
  const bool reads_reports_;
  std::optional<SharedCpus> shared_;
  std::deque<Station> stations_;  // deque: agents keep references
  std::deque<UnitAgent> agents_;
  std::vector<Balancer> balancers_;
  std::optional<BaselineNetwork> baseline_;
  std::vector<Time> front_free_;
  std::vector<spw_report_seen> seen_;
  std::vector<Time> due_;  // per unit: UnitAgent::Due, side by side
  std::vector<Notice> notices_;
  size_t next_notice_ = 0;
};

// Whether it is to stop is asked each so many requests, and where those are rare, in simulated time.
constexpr uint64_t kLookEvery = 4096;
constexpr Time kLookAfter = 10'000'000'000;

void Summarize(const Latencies& latencies, RunResult& result) {
  result.p50_ms = latencies.QuantileNs(0.5) / 1e6;
  result.p99_ms = latencies.QuantileNs(0.99) / 1e6;
  result.p999_ms = latencies.QuantileNs(0.999) / 1e6;
  result.mean_ms = latencies.MeanNs() / 1e6;
}

}  // namespace

RunResult Run(const RunSetup& setup, Latencies* pool) {
  Cluster cluster(setup);
  ArrivalTimes arrivals(*setup.arrivals, setup.rate_rps, StreamSeed(setup.seed, kArrivalStream));
  Random service(StreamSeed(setup.seed, kServiceStream)), hashes(StreamSeed(setup.seed, kHashStream));
  const double limit = setup.loss_over_unloaded * static_cast<double>(cluster.Unloaded());

  RunResult result;
  Latencies latencies;
  uint64_t late = 0, placed[SPW_UNITS_PER_SERVER] = {};
  Time begin = 0, came = 0;
  // Request i + kAnnounced is announced and i + kAsked asked for while i is decided.
  constexpr uint64_t kAnnounced = 8, kAsked = 4;
  std::vector<uint64_t> flows(setup.flows);
  for (uint64_t& flow : flows) flow = hashes.Bits();
  size_t turn = 0;
  uint32_t draws = 0;
  const auto next_hash = [&]() -> uint64_t {
    if (flows.empty()) return hashes.Bits();
    const uint64_t flow = flows[(setup.flows_in_turn ? turn++ : hashes.Bits()) % flows.size()];
    return setup.flows_are_spread ? spw_spread(flow, draws++) : flow;
  };
  Time look_at = 0;
  std::array<uint64_t, kAnnounced> hash;
  std::array<Balancer::Candidates, kAnnounced> ask;
  for (uint64_t& h : hash) cluster.Announce(h = next_hash());
  for (uint64_t i = 0; i < kAsked; i++) ask[i] = cluster.Ask(hash[i]);
  for (uint64_t i = 0; i < setup.warm_up + setup.requests; i++) {
    const uint64_t here = i % kAnnounced, asked = (i + kAsked) % kAnnounced;
    ask[asked] = cluster.Ask(hash[asked]);
    came = arrivals.Next() + (i < setup.warm_up ? 0 : setup.rest.count());
    if (i == setup.warm_up) {
      begin = came;
      cluster.service_times().FixHeavyAmong(setup.requests);
    }
    if (setup.stop && (i % kLookEvery == 0 || came >= look_at)) {
      look_at = came + kLookAfter;
      result.interrupted = setup.stop();
      if (result.interrupted) return result;
    }
    const double multiplier = cluster.service_times().Draw(service);
    Time now = came;
    const int unit = cluster.Decide(hash[here], ask[here], now);
    const std::optional<Time> latency = unit < 0 ? std::nullopt : cluster.Place(unit, now, multiplier);
    cluster.Announce(hash[here] = next_hash());
    if (i < setup.warm_up) continue;
    if (unit >= 0) placed[cluster.ColumnOf(unit)]++;
    if (!latency) {
      result.dropped++;
      continue;
    }
    const Time whole = *latency + (now - came);
    latencies.Add(static_cast<uint64_t>(whole));
    if (pool != nullptr) pool->Add(static_cast<uint64_t>(whole));
    late += static_cast<double>(whole) > limit;
  }
  result.requests = setup.requests;
  result.limit_ms = limit / 1e6;
  result.simulated_s = static_cast<double>(came - begin) / 1e9;
  Summarize(latencies, result);
  const auto all = static_cast<double>(std::max<uint64_t>(setup.requests, 1));
  result.loss = static_cast<double>(result.dropped + late) / all;
  size_t columns = 0;
  for (const ServerGroup& group : setup.app->groups) columns = std::max(columns, group.units.size());
  for (size_t u = 0; u < columns; u++) result.share.push_back(static_cast<double>(placed[u]) / all);
  cluster.CountReports(result);
  return result;
}

RunResult RunSeveral(const RunSetup& setup, uint32_t runs) {
  if (runs == 1) return Run(setup);
  Latencies latencies;
  RunResult all;
  for (uint32_t r = 0; r < runs; r++) {
    RunSetup own = setup;
    own.seed += uint64_t{r} << 32;  // a sweep's points have neighbouring seeds
    const RunResult one = Run(own, &latencies);
    if (one.interrupted) return one;
    all.loss += one.loss / runs;
    all.limit_ms = one.limit_ms;
    all.requests += one.requests;
    all.dropped += one.dropped;
    all.simulated_s += one.simulated_s;
    all.share.resize(one.share.size());
    for (size_t u = 0; u < one.share.size(); u++) all.share[u] += one.share[u] / runs;
    all.reports_sent += one.reports_sent;
    all.reports_lost += one.reports_lost;
  }
  Summarize(latencies, all);
  return all;
}

}  // namespace spillway::sim
