// SPDX-License-Identifier: Apache-2.0
// One record per request, and the checks on every answer. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::load {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
inline constexpr std::uint16_t kNoUnit = 0xffff;

// Times in ns since the start of the run.
struct Record {
  std::int64_t intended_ns = kNever;
  std::int64_t sent_ns = kNever;      // handed to the kernel (TCP per request: connect() called)
  std::int64_t received_ns = kNever;  // its answer came, in time
  std::uint32_t flow = 0;             // index of the socket or connection
  std::uint16_t unit = kNoUnit;       // index into Ledger::units
  bool measured = true;               // false: belongs to the warm-up
};

struct Counters {
  std::uint64_t late = 0;            // answered after the time-out; counted as unanswered
  std::uint64_t duplicates = 0;      // second answers
  std::uint64_t foreign = 0;         // answers to nothing that was asked, or on another flow
  std::uint64_t send_failed = 0;     // the kernel refused, or no connection was there
  std::uint64_t refused = 0;         // ICMP errors (UDP)
  std::uint64_t connect_failed = 0;  // TCP connections that never came about
  std::uint64_t broken = 0;          // TCP connections reset or closed by the other side while in use
  std::uint64_t pcc_violations = 0;  // answers from another unit than the flow's first
  std::uint64_t connections = 0;     // TCP connections established
};

class Ledger {
 public:
  // timeout_ns: from the intended time. check_flows: a flow's answers must come from one unit.
  Ledger(std::size_t expected_requests, std::int64_t timeout_ns, bool check_flows);

  // Opens the record of the next request; ids count from 0.
  std::uint32_t Add(std::int64_t intended_ns, bool measured);
  // The request left on this flow.
  void Sent(std::uint32_t id, std::uint32_t flow, std::int64_t at_ns);
  // An answer came on `flow`.
  void Answered(std::uint32_t id, std::uint32_t flow, std::int64_t at_ns, std::string_view unit);
  // The flow is a new connection from here on and may meet another unit.
  void FlowRestarts(std::uint32_t flow);

  // No answer that could still count is outstanding at now_ns.
  [[nodiscard]] bool Settled(std::int64_t now_ns) const;
  [[nodiscard]] std::int64_t timeout_ns() const { return timeout_ns_; }
  [[nodiscard]] const std::vector<Record>& records() const { return records_; }
  [[nodiscard]] const std::vector<std::string>& units() const { return units_; }

  Counters counters;

 private:
  std::uint16_t UnitIndex(std::string_view name);

  std::int64_t timeout_ns_;
  bool check_flows_;
  std::uint64_t outstanding_ = 0;  // sent and unanswered, overdue ones included
  std::vector<Record> records_;
  std::vector<std::string> units_;
  std::vector<std::uint16_t> flow_units_;
};

}  // namespace spillway::load
