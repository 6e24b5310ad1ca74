// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/rounds.h"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace spillway::bench {
namespace {

constexpr uint32_t kCheckedPackets = 4096;  // each traced to the unit it belongs to
constexpr uint32_t kReports = 4096;         // at a time: they are signed between the kernel's runs
constexpr uint32_t kHandshakes = 4096;      // at a time: the half-open table has a place for each
constexpr uint32_t kMaxWarmUp = 2'000'000;  // packets; by then caches hold what they can

struct CounterField {
  const char* name;
  __u64 spw_counters::*field;
};

constexpr CounterField kCounterFields[] = {
#define SPW_FIELD(field, help) {#field, &spw_counters::field},
    SPW_COUNTERS(SPW_FIELD)
#undef SPW_FIELD
};

tl::unexpected<Error> Wrong(const Row& row, const std::string& what) {
  return Fail(ErrorCode::kSystem,
              fmt::format("{}: the data plane answered wrongly: {}", Describe(row), what));
}

spw_counters ExpectedCounters(const Row& row, uint64_t packets) {
  spw_counters expected{};
  if (row.row_class == Class::kReport) {
    expected.reports_accepted = packets;
    return expected;
  }
  expected.packets_forwarded = packets;
  if (row.row_class == Class::kNew) {
    expected.new_flows = packets;
  } else if (row.row_class == Class::kFirstAck) {
    expected.placed_by_entry = expected.flows_inserted = packets;
  } else if (row.row_class == Class::kTcpDefault) {
    expected.placed_on_ring = packets;
  } else {
    expected.placed_by_entry = packets;
  }
  return expected;
}

// Packets that may have gone otherwise: those of flows that a crowded table did not keep; and SYNs that were
// taken for a repetition, as two flows of a half-open bucket share a tag of 24 bits, one in two millions.
uint64_t Tolerated(const Row& row, uint64_t packets, uint32_t evicted) {
  if (row.row_class == Class::kNew || row.row_class == Class::kFirstAck) return packets / 200'000 + 3;
  if (evicted == 0 || row.flows == 0) return 0;
  return packets / 100 + 1;
}

Result<void> CheckCounters(const Row& row, const spw_counters& before, const spw_counters& after,
                           uint64_t packets, uint64_t tolerated) {
  const spw_counters expected = ExpectedCounters(row, packets);
  // Which new flows leave the ring is the policy's choice, and how many of these find a place depends on the
  // rows before.
  const bool is_new = row.row_class == Class::kNew;
  std::string differences;
  for (const CounterField& counter : kCounterFields) {
    const uint64_t grown = after.*counter.field - before.*counter.field, wanted = expected.*counter.field;
    if (is_new && (counter.field == &spw_counters::flows_inserted ||
                   counter.field == &spw_counters::flows_kept_on_ring))
      continue;
    if (std::max(grown, wanted) - std::min(grown, wanted) > tolerated)
      differences += fmt::format(", {} grew by {} instead of {}", counter.name, grown, wanted);
  }
  if (differences.empty()) return {};
  return Wrong(row, fmt::format("over {} packets{}", packets, differences));
}

// The last packet left whole, towards a unit, rewritten as the mode says.
Result<void> CheckFrame(const Bed& bed, const Row& row, const RunResult& result) {
  const uint32_t verdict = row.row_class == Class::kReport ? XDP_DROP : XDP_TX;
  if (result.verdict != verdict)
    return Wrong(row, fmt::format("verdict {} instead of {}", result.verdict, verdict));
  if (result.frame.size() != FrameBytes(row.packet))
    return Wrong(
        row, fmt::format("a frame of {} bytes came out as {}", FrameBytes(row.packet), result.frame.size()));
  if (row.row_class == Class::kReport) return {};
  for (uint16_t id : bed.UnitIds()) {
    const spw_unit& unit = bed.UnitEntry(id);
    if (std::memcmp(unit.mac, result.frame.data(), sizeof(unit.mac)) != 0) continue;
    const bool rewritten =
        std::memcmp(unit.addr, &result.frame[AddressOffset(row.packet)], AddressBytes(row.packet)) == 0;
    if (rewritten == (row.mode == SPW_MODE_NAT)) return {};
    return Wrong(row, "the destination address does not fit the mode");
  }
  return Wrong(row, "the frame is addressed to no unit");
}

// Chosen units compare exactly where the row fixes them, else by server.
uint16_t Comparable(const Row& row, uint16_t unit) {
  const bool free_choice = row.row_class == Class::kNew && row.policy != SPW_UNIT_P4MITE;
  return free_choice ? spw_unit_id(spw_unit_server(unit), 0) : unit;
}

// ACKs that are to complete handshakes need their SYNs before.
Result<void> BeginHandshakes(Bed& bed, const Row& row, const spw_bench_walk& walk, uint32_t packets) {
  if (row.row_class != Class::kFirstAck) return {};
  bed.AimSyns(row, walk);
  if (auto run = bed.Run(Target::kSwitch, packets); !run) return tl::make_unexpected(run.error());
  return {};
}

// Follows a few thousand flows to their units.
Result<void> CheckUnits(Bed& bed, const Row& row, spw_bench_walk& walk) {
  bed.RefreshReports(row.row_class == Class::kFirstAck);
  if (Result<void> begun = BeginHandshakes(bed, row, walk, kCheckedPackets); !begun) return begun;
  const std::vector<uint64_t> before = bed.UnitPackets();
  bed.Aim(row, walk);
  if (auto result = bed.Run(Target::kSwitch, kCheckedPackets); !result)
    return tl::make_unexpected(result.error());
  const std::vector<uint64_t> after = bed.UnitPackets();
  std::vector<int64_t> missing(after.size());
  for (uint16_t id : bed.UnitIds())
    missing[Comparable(row, id)] -= static_cast<int64_t>(after[id] - before[id]);
  for (uint32_t i = 0; i < kCheckedPackets && row.row_class != Class::kReport; i++)
    missing[Comparable(row, bed.ExpectedUnit(row, spw_bench_step(&walk)))]++;
  for (size_t id = 0; id < missing.size(); id++) {
    if (static_cast<uint64_t>(std::abs(missing[id])) > Tolerated(row, kCheckedPackets, bed.evicted()))
      return Wrong(row, fmt::format("unit {} lacks {} of {} packets", id, missing[id], kCheckedPackets));
  }
  walk = bed.Walk();
  return {};
}

class Runner {
 public:
  Runner(Bed& bed, const RoundOptions& options, RowResult& result, spw_bench_walk& walk)
      : bed_(bed), options_(options), row_(result.row), result_(result), walk_(walk) {}

  Result<void> Run(bool first_round) {
    Prepare();
    result_.evicted = bed_.evicted();
    if (first_round) {
      if (Result<void> checked = CheckUnits(bed_, row_, walk_); !checked) return checked;
    }
    bed_.Aim(row_, walk_);
    if (Result<void> warm = Measure(Target::kSwitch, WarmUp(), nullptr); !warm) return warm;
    for (int i = 0; i < options_.chunks; i++) {
      if (Result<void> floor = Measure(Target::kFloor, ChunkPackets(), &result_.floor_ns); !floor)
        return floor;
      if (Result<void> total = Measure(Target::kSwitch, ChunkPackets(), &result_.total_ns); !total)
        return total;
    }
    walk_ = bed_.Walk();
    return {};
  }

 private:
  void Prepare() {
    if (row_.entries == 0) {
      bed_.ForgetAll();
      return;
    }
    const Class row_class = row_.packet == Packet::kV4Udp ? Class::kUdpAffinity : Class::kTcpDeviating;
    bed_.Remember(row_class, row_.packet, row_.entries);
  }

  uint32_t ChunkPackets() const {
    const uint32_t most = row_.row_class == Class::kFirstAck ? kHandshakes
                          : row_.row_class == Class::kReport ? kReports
                                                             : options_.chunk_packets;
    return std::min(most, options_.chunk_packets);
  }

  uint32_t WarmUp() const {
    if (row_.row_class == Class::kFirstAck || row_.row_class == Class::kReport) return ChunkPackets();
    return std::clamp(row_.flows, options_.chunk_packets, std::max(kMaxWarmUp, options_.chunk_packets));
  }

  Result<void> Measure(Target target, uint32_t packets, std::vector<double>* samples) {
    bed_.RefreshReports(row_.row_class == Class::kFirstAck);
    const spw_bench_walk start = bed_.Walk();
    if (target == Target::kSwitch) {
      if (Result<void> begun = BeginHandshakes(bed_, row_, start, packets); !begun) return begun;
      bed_.Aim(row_, start);
    }
    const spw_counters before = bed_.Counters();
    auto run = bed_.Run(target, packets);
    if (!run) return tl::make_unexpected(run.error());
    if (samples != nullptr) samples->push_back(run->ns_per_packet);
    if (target == Target::kFloor) {
      bed_.Aim(row_, start);  // the switch walks the same flows
      return {};
    }
    return CheckFrame(bed_, row_, *run).and_then([&] {
      return CheckCounters(row_, before, bed_.Counters(), packets, Tolerated(row_, packets, bed_.evicted()));
    });
  }

  Bed& bed_;
  const RoundOptions& options_;
  const Row& row_;
  RowResult& result_;
  spw_bench_walk& walk_;
};

spw_bench_walk FirstWalk(const Row& row, uint32_t& new_rows) {
  switch (row.row_class) {
    case Class::kTcpDefault:
      return MakeWalk(kFirstDefault, row.flows);
    case Class::kNew:
    case Class::kFirstAck:
      return MakeWalk(kFirstNew + new_rows++ * kNewFlows, kNewFlows);
    case Class::kReport: {
      spw_bench_walk walk = MakeWalk(0, row.flows * SPW_BENCH_REPORT_LAPS);
      walk.stride = 1;  // the wrapper's reports are in an order already
      return walk;
    }
    default:
      return MakeWalk(kFirstRemembered, row.flows);
  }
}

}  // namespace

Result<std::vector<RowResult>> RunRounds(const RoundOptions& options, const OnProgress& on_progress) {
  on_progress(0, "loading");
  auto bed = Bed::Open(options.bed);
  if (!bed) return tl::make_unexpected(bed.error());
  std::vector<RowResult> results;
  std::vector<spw_bench_walk> walks;
  uint32_t new_rows = 0;
  for (const Row& row : MakeRows(options.flow_counts, (*bed)->reporting_units())) {
    if (std::ranges::find(options.classes, ToString(row.row_class)) == options.classes.end()) continue;
    walks.push_back(FirstWalk(row, new_rows));
    results.push_back({row, 0, {}, {}});
  }
  for (int round = 0; round < options.rounds; round++) {
    for (size_t i = 0; i < results.size(); i++) {
      const double done =
          static_cast<double>(round) * static_cast<double>(results.size()) + static_cast<double>(i);
      on_progress(done / (static_cast<double>(options.rounds) * static_cast<double>(results.size())),
                  fmt::format("round {}: {}", round + 1, Describe(results[i].row)));
      if (Result<void> ran = Runner(**bed, options, results[i], walks[i]).Run(round == 0); !ran)
        return tl::make_unexpected(ran.error());
    }
  }
  return results;
}

}  // namespace spillway::bench
