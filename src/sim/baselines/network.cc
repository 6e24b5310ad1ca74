// SPDX-License-Identifier: Apache-2.0
#include "sim/baselines/network.h"

#include <algorithm>

#include "sim/unit_agent.h"

namespace spillway::sim {

BaselineNetwork::BaselineNetwork(const RunSetup& setup, const Layout& layout, uint64_t seed,
                                 std::function<bool(uint32_t, Time)> failed)
    : reports_(*setup.reports),
      wire_(setup.wire.count()),
      give_up_after_(setup.silent_after.count()),
      failed_(std::move(failed)),
      within_server_(setup.policy->baseline.within_server),
      random_(seed) {
  groups_.resize(within_server_ ? layout.servers() : 1);
  DeciderSetup decider;
  std::vector<std::vector<DeciderUnit>> known(groups_.size());
  for (const Layout::Unit& unit : layout.units) {
    Unit& own = units_.emplace_back();
    own.fixed = std::max(unit.profile->fixed, setup.wire).count();
    own.workers = unit.profile->workers;
    own.group = within_server_ ? unit.server : 0;
    own.in_group = static_cast<uint32_t>(groups_[own.group].size());
    groups_[own.group].push_back(static_cast<uint32_t>(units_.size()) - 1);
    known[own.group].push_back({unit.server, unit.profile->capacity});
  }
  decider.switches = setup.switches;
  decider.wire = wire_;
  decider.silent_after = setup.silent_after.count();
  decider.choice = setup.policy->baseline;
  deciders_.resize(setup.switches);
  for (auto& of_switch : deciders_) {
    for (const std::vector<DeciderUnit>& units : known) {
      decider.units = units;
      decider.seed = random_.Bits();
      of_switch.push_back(MakeDecider(setup.policy->decider, decider));
    }
  }
  messages_ = deciders_.front().front()->messages();

  for (uint32_t u = 0; u < units_.size(); u++) {
    if (messages_.idle) {  // all workers are, and each is known to one switch
      units_[u].idle_notes = units_[u].workers;
      for (uint32_t s = 0; s < setup.switches; s++) {
        const uint32_t extra = (s + u) % setup.switches < units_[u].workers % setup.switches ? 1 : 0;
        DeciderOf(s, u).HearIdle(units_[u].in_group, units_[u].workers / setup.switches + extra);
      }
    }
    if (messages_.reports) {  // agents do not start together
      const Time period = reports_.period.count();
      const auto first = static_cast<Time>(random_.Uniform() * static_cast<double>(period));
      Schedule({.at = first, .order = 0, .kind = Kind::kTick, .unit = u});
    }
  }
}

int BaselineNetwork::Choose(size_t at_switch, uint32_t first, uint32_t second, Time now) {
  CatchUp(now);
  uint32_t group = within_server_ ? first : 0;
  std::optional<uint32_t> unit = deciders_[at_switch][group]->Choose(now);
  if (!unit && within_server_) {  // all of the server is down
    group = second;
    unit = deciders_[at_switch][group]->Choose(now);
  }
  if (!unit) return -1;
  chosen_at_ = at_switch;
  chosen_ = groups_[group][*unit];
  return static_cast<int>(chosen_);
}

void BaselineNetwork::Placed(Time now, std::optional<Time> latency, Time waited) {
  const Unit& unit = units_[chosen_];
  Event event{.at = now + wire_, .order = 0, .kind = Kind::kArrives, .unit = chosen_};
  event.at_switch = static_cast<uint32_t>(chosen_at_);
  event.placed = now;
  event.lost = !latency;
  event.used_idle = DeciderOf(chosen_at_, chosen_).UsedIdle();
  if (latency) {
    event.done = now + *latency;
    event.waited = waited;
    event.service = std::max<Time>(1, *latency - waited - unit.fixed);
  }
  Schedule(event);
  if (messages_.idle && latency) {
    event.at = now + unit.fixed;
    event.kind = Kind::kEnters;
    Schedule(event);
  }
  for (uint32_t probed : DeciderOf(chosen_at_, chosen_).Probes()) {
    event = {.at = now + wire_, .order = 0, .kind = Kind::kProbed, .unit = groups_[unit.group][probed]};
    event.at_switch = static_cast<uint32_t>(chosen_at_);
    Schedule(event);
  }
}

void BaselineNetwork::SetDown(uint32_t unit, bool down) {
  for (size_t s = 0; s < deciders_.size(); s++) DeciderOf(s, unit).SetDown(units_[unit].in_group, down);
}

void BaselineNetwork::CatchUp(Time now) {
  while (!events_.empty() && events_.top().at <= now) {
    const Event event = events_.top();
    events_.pop();
    Handle(event);
  }
}

void BaselineNetwork::Handle(const Event& event) {
  Unit& unit = units_[event.unit];
  Decider& one = DeciderOf(event.at_switch, event.unit);
  switch (event.kind) {
    case Kind::kArrives:
      return Arrive(event);
    case Kind::kEnters:
      unit.at_workers++;
      return;
    case Kind::kDone:
      return Finish(event);
    case Kind::kSeen:
      return one.SeeAnswer({.unit = unit.in_group,
                            .at = event.at,
                            .latency = event.at - event.placed,
                            .lost = event.lost,
                            .queue = event.rif,
                            .waited = event.waited,
                            .service = event.service});
    case Kind::kProbed: {
      if (failed_(event.unit, event.at)) return;
      Event answer{.at = event.at + wire_, .order = 0, .kind = Kind::kProbeAnswer, .unit = event.unit};
      answer.at_switch = event.at_switch;
      answer.rif = unit.history.rif();
      answer.latency = unit.history.LatencyAt(answer.rif);
      answer.made = event.at;
      return Schedule(answer);
    }
    case Kind::kProbeAnswer:
      return one.HearProbe({unit.in_group, event.at, event.made, event.rif, event.latency, nullptr});
    case Kind::kIdle:
      return one.HearIdle(unit.in_group, 1);
    case Kind::kTick:
      return Tick(event);
    case Kind::kReport:
      if (event.sequence <= unit.heard) return;  // overtaken by a newer one
      unit.heard = event.sequence;
      for (size_t s = 0; s < deciders_.size(); s++)
        DeciderOf(s, event.unit)
            .HearReport({unit.in_group, event.at, event.made, event.rif, 0, event.history.get()});
      return;
  }
}

// Requests lost with their unit are not counted in it: it either never has them, or forgets them when it
// fails.
void BaselineNetwork::Arrive(const Event& event) {
  Unit& unit = units_[event.unit];
  if (event.used_idle) unit.idle_notes--;
  Event next = event;
  if (event.lost) {
    next.at = event.placed + give_up_after_;
    next.kind = Kind::kSeen;
    if (messages_.answers) Schedule(next);
    return;
  }
  next.rif = unit.history.Come();
  next.at = event.done;
  next.kind = Kind::kDone;
  Schedule(next);
}

void BaselineNetwork::Finish(const Event& event) {
  Unit& unit = units_[event.unit];
  unit.history.Answer(event.rif, event.done - event.placed - wire_);
  if (messages_.answers) {
    Event seen = event;
    seen.at = event.done + wire_;
    seen.kind = Kind::kSeen;
    seen.rif = unit.history.rif();
    Schedule(seen);
  }
  if (messages_.idle) {
    unit.at_workers--;
    if (unit.at_workers + unit.idle_notes < unit.workers) {
      unit.idle_notes++;
      Event note{.at = event.at + wire_, .order = 0, .kind = Kind::kIdle, .unit = event.unit};
      note.at_switch = static_cast<uint32_t>(random_.Bits() % deciders_.size());
      Schedule(note);
    }
  }
  if (messages_.reports && reports_.period.count() == 0) Report(event.unit, event.at);
}

void BaselineNetwork::Tick(const Event& event) {
  const Time period = reports_.period.count();
  Event next = event;
  if (period > 0) {
    next.at = event.at + period;
    if (!failed_(event.unit, event.at)) Report(event.unit, event.at);
  } else {
    Unit& unit = units_[event.unit];
    if (event.at >= unit.reported + kHeartbeat || event.at == 0) {
      if (!failed_(event.unit, event.at)) Report(event.unit, event.at);
      unit.reported = event.at;
    }
    next.at = unit.reported + kHeartbeat;
  }
  Schedule(next);
}

void BaselineNetwork::Report(uint32_t u, Time now) {
  Unit& unit = units_[u];
  unit.reported = now;
  unit.sequence++;
  reports_sent_++;
  if (reports_.loss > 0 && random_.Uniform() <= reports_.loss) {
    reports_lost_++;
    return;
  }
  const Time delay = reports_.delay.count();
  Event report{.at = now + delay, .order = 0, .kind = Kind::kReport, .unit = u};
  if (reports_.jitter.count() > 0)
    report.at += static_cast<Time>(random_.Uniform() * static_cast<double>(reports_.jitter.count()));
  report.sequence = unit.sequence;
  report.rif = unit.history.rif();
  if (messages_.histories) report.history = std::make_shared<UnitHistory>(unit.history);
  report.made = report.at - std::min(delay, kOwnDelay);  // the rest of its age nobody tells
  Schedule(report);
}

}  // namespace spillway::sim
