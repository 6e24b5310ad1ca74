// SPDX-License-Identifier: Apache-2.0
#include "sim/unit_agent.h"

#include <algorithm>

namespace spillway::sim {

UnitAgent::UnitAgent(Station& station, const AgentSetup& setup)
    : station_(station),
      setup_(setup),
      watches_answers_(setup.reports->period.count() == 0 || setup.busy_over > 0),
      random_(setup.seed) {
  const Reports& how = *setup_.reports;
  if (how.learned)
    learning_ = std::make_unique<Learning>(setup_.workers, how.Checks() ? how.check : how.period);
  // Agents do not start together.
  if (setup_.reports->period.count() > 0)
    next_tick_ = static_cast<Time>(random_.Uniform() * static_cast<double>(setup_.reports->period.count()));
}

bool UnitAgent::Step(Time now) {
  const Time own = std::min({next_tick_, next_check_, pulse_end_});
  Station::Sight sight;
  if (station_.Next(std::min(own, now), sight)) {
    See(sight);
    return true;
  }
  if (own > now) return false;
  if (own == pulse_end_) {
    pulse_end_ = kNever;
    if (setup_.second_report == 0 && station_.queue() > 0) return true;  // the next answer decides
    busy_ = false;
    Send(own);
    return true;
  }
  if (own < next_tick_) {
    Check(own);
    return true;
  }
  const Time period = setup_.reports->period.count();
  next_tick_ += period > 0 ? period : kHeartbeat;
  if (station_.FailedAt(own)) {
    was_down_ = true;
    return true;
  }
  if (was_down_) {
    was_down_ = false;
    boot_id_++;
    station_.Reboot();
  }
  Send(own);
  return true;
}

// Learns what has come and gone by now.
void UnitAgent::Look(Time now) {
  using std::chrono::nanoseconds;
  if (!learning_) return;
  learning_->Look(now, station_.queue(), station_.QuotaAt(now));
  view_.Advance(nanoseconds(now), learning_->arrivals(), station_.queue());
  if (setup_.reports->Checks()) next_check_ = view_.NextCheck(nanoseconds(setup_.reports->check)).count();
}

void UnitAgent::Check(Time now) {
  if (station_.FailedAt(now)) was_down_ = true;
  if (was_down_) {  // until the next report of the grid
    next_check_ = kNever;
    return;
  }
  Look(now);
  if (view_.IsWrong(learning_->learnt(), 0)) Send(now);
}

uint32_t UnitAgent::KnownBacklogUs(Time at) const {
  const Time slot = setup_.known.slot_ns;
  const Time waiting = std::max<Time>(station_.queue() * slot - setup_.fixed, 0);
  return static_cast<uint32_t>(std::clamp<Time>(std::max(drained_ - at, waiting) / 1000, 0, UINT32_MAX));
}

void UnitAgent::See(const Station::Sight& sight) {
  if (learning_)
    learning_->See(sight);
  else if (!sight.answered)
    drained_ = std::max(drained_, sight.at) + setup_.known.slot_ns;
  if (!sight.answered) return;
  latency_ += (sight.latency - latency_) / 8;
  const bool over = setup_.busy_over > 0 && sight.latency > setup_.busy_over;
  bool changed = false;
  if (over && !busy_) {
    busy_ = changed = true;
    if (setup_.second_report > 0)
      pulse_end_ = sight.at + setup_.second_report;
    else if (station_.queue() == 0)
      pulse_end_ = sight.at + kNextLook;  // no answer will come that could show it free
  } else if (busy_ && setup_.second_report == 0 && (!over || station_.queue() == 0)) {
    busy_ = false;
    changed = true;
    pulse_end_ = kNever;
  }
  if (setup_.reports->period.count() == 0) {
    Send(sight.at);
    next_tick_ = sight.at + kHeartbeat;
  } else if (changed) {
    Send(sight.at);
  }
}

void UnitAgent::Send(Time at) {
  const Reports& how = *setup_.reports;
  Look(at);
  if (learning_) view_.Reported(learning_->learnt());
  sent_++;
  sequence_++;
  if (how.loss > 0 && random_.Uniform() <= how.loss) {
    lost_++;
    return;
  }
  UnderWay packet{};
  packet.at = at + how.delay.count();
  if (how.jitter.count() > 0)
    packet.at += static_cast<Time>(random_.Uniform() * static_cast<double>(how.jitter.count()));
  spw_report& report = packet.report;
  report.boot_id = boot_id_;
  report.sequence = sequence_;
  report.server = setup_.server;
  report.unit = setup_.unit;
  report.level = busy_ ? 255 : 0;
  report.queue = static_cast<__u16>(std::min<uint32_t>(station_.queue(), 65535));
  report.latency_us = static_cast<__u32>(latency_ / 1000);
  report.completed = static_cast<__u32>(station_.completed());
  const agent::Learnt learnt = learning_ ? learning_->learnt() : setup_.known;
  report.flags =
      static_cast<__u8>((busy_ ? SPW_REPORT_BUSY : 0) | (learnt.slot_guessed ? SPW_REPORT_GUESSED : 0));
  report.base_us = learnt.base_us + learnt.price_us;  // what a request costs, others included
  report.knee_us = learnt.knee_us;
  report.tail_us = learnt.tail_us;
  report.slot_ns = learnt.slot_ns;
  report.backlog_us = learning_ ? learnt.backlog_us : KnownBacklogUs(at);
  report.age_us = static_cast<__u32>(std::min(how.delay.count(), kOwnDelay) / 1000);
  report.period_us = static_cast<__u32>(how.period.count() / 1000);
  under_way_.Push(packet);
}

}  // namespace spillway::sim
