// SPDX-License-Identifier: Apache-2.0
#include "ledger.h"

namespace spillway::load {

Ledger::Ledger(std::size_t expected_requests, std::int64_t timeout_ns, bool check_flows)
    : timeout_ns_(timeout_ns), check_flows_(check_flows) {
  records_.reserve(expected_requests);  // growing in the middle of a run would stall it
}

std::uint32_t Ledger::Add(std::int64_t intended_ns, bool measured) {
  Record record;
  record.intended_ns = intended_ns;
  record.measured = measured;
  records_.push_back(record);
  return static_cast<std::uint32_t>(records_.size() - 1);
}

void Ledger::Sent(std::uint32_t id, std::uint32_t flow, std::int64_t at_ns) {
  records_[id].sent_ns = at_ns;
  records_[id].flow = flow;
  ++outstanding_;
}

void Ledger::Answered(std::uint32_t id, std::uint32_t flow, std::int64_t at_ns, std::string_view unit) {
  if (id >= records_.size() || records_[id].sent_ns == kNever || records_[id].flow != flow) {
    ++counters.foreign;
    return;
  }
  Record& record = records_[id];
  if (record.unit != kNoUnit) {
    ++counters.duplicates;
    return;
  }
  record.unit = UnitIndex(unit);
  --outstanding_;
  if (at_ns - record.intended_ns > timeout_ns_) {
    ++counters.late;
  } else {
    record.received_ns = at_ns;
  }
  if (!check_flows_) return;
  if (flow >= flow_units_.size()) flow_units_.resize(flow + 1, kNoUnit);
  if (flow_units_[flow] == kNoUnit) flow_units_[flow] = record.unit;
  // Each move counts once: the flow is then held to where it went.
  if (flow_units_[flow] != record.unit) ++counters.pcc_violations;
  flow_units_[flow] = record.unit;
}

void Ledger::FlowRestarts(std::uint32_t flow) {
  if (flow < flow_units_.size()) flow_units_[flow] = kNoUnit;
}

bool Ledger::Settled(std::int64_t now_ns) const {
  return outstanding_ == 0 || records_.empty() || now_ns > records_.back().intended_ns + timeout_ns_;
}

std::uint16_t Ledger::UnitIndex(std::string_view name) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i] == name) return static_cast<std::uint16_t>(i);
  }
  // A peer that invents names must not fill memory; beyond this they share the last.
  if (units_.size() == kNoUnit) return static_cast<std::uint16_t>(units_.size() - 1);
  units_.emplace_back(name);
  return static_cast<std::uint16_t>(units_.size() - 1);
}

}  // namespace spillway::load
