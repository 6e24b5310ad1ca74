// SPDX-License-Identifier: Apache-2.0
#include "bench/flood/flood_bench.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "bench/flood/connection_bed.h"
#include "bench/flood/packet_bed.h"

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;

// A row, or what rows are compared with.
struct Game {
  FloodBed bed;
  FloodCase flood;
  bool is_stateless = false;
};

std::vector<spw_unit_policy> PoliciesOf(const FloodBenchOptions& options, FloodBed bed) {
  if (!options.policies.empty()) return options.policies;
  if (bed == FloodBed::kConnections) return {SPW_UNIT_HEADROOM};
  std::vector<spw_unit_policy> policies;
  for (int p = 0; p < SPW_UNIT_POLICIES; p++)
    if (p != kStatelessUnitPolicy) policies.push_back(static_cast<spw_unit_policy>(p));
  return policies;
}

// Each attack's stateless game comes before its others.
std::vector<Game> GamesOf(const FloodBenchOptions& options) {
  std::vector<Game> games;
  const auto add = [&](FloodBed bed, Attack attack, uint32_t rate) {
    FloodCase flood{attack, kStatelessServerPolicy, kStatelessUnitPolicy, options.table_times, rate};
    games.push_back({bed, flood, true});
    flood.server_policy = options.server_policy;
    for (const spw_unit_policy policy : PoliciesOf(options, bed)) {
      flood.unit_policy = policy;
      games.push_back({bed, flood});
    }
  };
  for (const FloodBed bed : options.beds)
    for (const Attack attack : options.attacks) {
      if (bed == FloodBed::kConnections) add(bed, attack, options.connection_rate);
      for (size_t i = 0; bed == FloodBed::kPackets && i < options.packet_rates.size(); i++)
        add(bed, attack, options.packet_rates[i]);
    }
  return games;
}

ordered_json MakeRow(const Game& game, const FloodOutcome& outcome, double stateless_pct) {
  ordered_json row;
  row["bed"] = Word(game.bed);
  row["attack"] = Word(game.flood.attack);
  row["policy"] = model::ToString(game.flood.unit_policy);
  row["server_policy"] = model::ToString(game.flood.server_policy);
  row["table_times"] = game.flood.table_times;
  row["packets"] = outcome.packets;
  row["packets_per_s"] = game.flood.packets_per_s;
  row["live_flows"] = outcome.live_flows;
  row["idle_flows"] = outcome.idle_flows;
  row["datagram_flows"] = outcome.datagram_flows;
  row["moved"] = outcome.moved;
  row["guessed"] = outcome.guessed;
  row["new_tried"] = outcome.new_tried;
  row["new_connected_pct"] = outcome.ConnectedPct();
  row["stateless_connected_pct"] = stateless_pct;
  for (size_t r = 0; r < kRoundTrips; r++) {
    const double tried = static_cast<double>(outcome.new_tried) / kRoundTrips;
    row[fmt::format("connected_{}ms_pct", kRoundTripsMs[r])] =
        outcome.connected_of && tried != 0
            ? ordered_json(100.0 * static_cast<double>((*outcome.connected_of)[r]) / tried)
            : ordered_json();
  }
  row["off_ring_pct"] = outcome.new_off_ring && outcome.new_tried != 0
                            ? ordered_json(100.0 * static_cast<double>(*outcome.new_off_ring) /
                                           static_cast<double>(outcome.new_tried))
                            : ordered_json();
  return row;
}

}  // namespace

const char* Word(FloodBed bed) { return bed == FloodBed::kPackets ? "packets" : "connections"; }

Result<report::Document> RunFloodBench(
    const FloodBenchOptions& options,
    const std::function<void(double fraction, const std::string& message)>& on_progress) {
  const std::vector<Game> games = GamesOf(options);
  report::Document document("flood");
  std::unique_ptr<PacketBed> packet_bed;
  double stateless_pct = 0;
  size_t done = 0;
  for (const Game& game : games) {
    const std::string message =
        fmt::format("{} beside {}, {}", Word(game.flood.attack), Word(game.bed),
                    game.is_stateless ? "stateless" : model::ToString(game.flood.unit_policy));
    const auto look = [&](double fraction) {
      on_progress((static_cast<double>(done) + std::min(fraction, 1.0)) / static_cast<double>(games.size()),
                  message);
      return !base::Interrupted();
    };
    (void)look(0);
    Result<FloodOutcome> outcome = FloodOutcome{};
    if (game.bed == FloodBed::kConnections) {
      outcome = PlayConnections({game.flood, options.connection_table_entries}, look);
    } else {
      if (packet_bed == nullptr) {
        auto opened = PacketBed::Open(options.flow_table_entries);
        if (!opened) return tl::make_unexpected(opened.error());
        packet_bed = std::move(*opened);
      }
      outcome = packet_bed->Play(game.flood, look);
    }
    if (!outcome) return tl::make_unexpected(outcome.error());
    done++;
    if (game.is_stateless)
      stateless_pct = outcome->ConnectedPct();
    else
      document.AddRow(MakeRow(game, *outcome, stateless_pct));
  }
  return document;
}

}  // namespace spillway::bench
