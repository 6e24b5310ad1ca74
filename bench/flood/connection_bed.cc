// SPDX-License-Identifier: Apache-2.0
#include "bench/flood/connection_bed.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/client.h"
#include "base/signals.h"
#include "bench/flood/clients.h"
#include "bench/flood/generator.h"
#include "lab/testbed/netns.h"
#include "lab/testbed/testbed.h"

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr uint16_t kServicePort = 7000;
constexpr size_t kLiveConnections = 100, kIdleConnections = 100;
constexpr auto kOpenInterval = 10ms;
constexpr auto kReadyWithin = 20s, kAnsweredWithin = 10s;

lab::TestbedSpec Spec(const ConnectionCase& one) {
  lab::TestbedSpec spec;
  spec.name = fmt::format("flood{}", getpid());
  spec.flow_table_entries = one.flow_table_entries;
  lab::ServiceSpec service;
  service.name = "flooded";
  service.ports = {{model::Protocol::kTcp, kServicePort}, {model::Protocol::kUdp, kServicePort}};
  service.server_policy = one.flood.server_policy;
  service.unit_policy = one.flood.unit_policy;
  spec.services = {service};
  for (const char* name : {"s1", "s2"}) {
    lab::ServerSpec server{name, {}};
    for (const auto& [unit_name, kind, capacity] :
         {std::tuple{"cpu", SPW_KIND_CPU, 6.0}, {"nic", SPW_KIND_SMARTNIC, 1.0}}) {
      lab::UnitSpec unit;
      unit.name = unit_name;
      unit.kind = kind;
      unit.capacity = capacity;
      unit.runs = lab::Workload::kEmulated;
      unit.emulated = {.workers = 8, .service = lab::Micros{500}, .cv = 0.2, .latency = lab::Micros{0}};
      server.units.push_back(unit);
    }
    spec.servers.push_back(server);
  }
  return spec;
}

tl::unexpected<Error> FailInterrupted() { return Fail(ErrorCode::kSystem, "interrupted"); }

// Until the switch has heard all units.
Result<void> AwaitUnits(const std::string& socket) {
  api::Client client(socket);
  const auto is_well = [&] {
    const auto text = api::Client::Accept(client.Get("/v1/units"));
    const auto units = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
    return units.is_array() && !units.empty() && std::ranges::all_of(units, [](const auto& unit) {
             return unit.at("resolved") == true && unit.at("silent") == false;
           });
  };
  for (const auto end = Clock::now() + kReadyWithin; !is_well();) {
    if (Clock::now() > end) return Fail(ErrorCode::kSystem, "the switch has not heard all units within 20 s");
    if (!base::SleepUnlessInterrupted(10ms)) return FailInterrupted();
  }
  return {};
}

// In the clients' namespace.
Result<FloodOutcome> Play(const ConnectionCase& one, const lab::Plan& plan,
                          const std::function<bool(double)>& on_progress) {
  const model::Address& vip = plan.config.services.front().vip;
  Clients clients(vip, kServicePort);
  for (const auto& [habit, count] :
       {std::pair{Clients::Habit::kLive, kLiveConnections}, {Clients::Habit::kIdle, kIdleConnections}})
    for (size_t i = 0; i < count; i++) {
      if (auto opened = clients.Open(habit); !opened) return tl::make_unexpected(opened.error());
      clients.Turn();
    }
  for (const auto end = Clock::now() + kReadyWithin; !clients.AllAnswered(); clients.Turn())
    if (Clock::now() > end) return Fail(ErrorCode::kSystem, "connections are not answered before the flood");
  if (const size_t moved = clients.Moved(); moved != 0)
    return Fail(ErrorCode::kSystem, fmt::format("{} connections broke before the flood", moved));

  FloodOutcome outcome;
  outcome.packets = PacketsOf(one.flood, one.flow_table_entries);
  std::atomic<bool> stops = false, ended = false;
  std::atomic<uint64_t> sent = 0;
  Result<void> flooded;
  Flood flood(one.flood.attack, one.flood.seed, clients.Addresses());
  std::thread generator([&, flood = std::move(flood)]() mutable {  // of this thread's namespace
    flooded =
        SendFlood(std::move(flood), outcome.packets, vip, kServicePort, one.flood.packets_per_s, stops, sent);
    ended = true;
  });
  Result<void> opened;
  for (auto next = Clock::now(); !ended && opened;) {
    if (Clock::now() >= next) {
      next = std::max(next + kOpenInterval, Clock::now() - kOpenInterval);
      opened = clients.Open(Clients::Habit::kOnce);
    }
    clients.Turn();
    if (!stops && !on_progress(static_cast<double>(sent) / static_cast<double>(outcome.packets)))
      stops = true;
  }
  const bool interrupted = stops;
  stops = true;
  generator.join();
  if (interrupted) return FailInterrupted();
  for (const auto& done : {flooded, opened})
    if (!done) return tl::make_unexpected(done.error());
  while (clients.HasOpening()) clients.Turn();
  clients.AskAll();
  for (const auto end = Clock::now() + kAnsweredWithin; !clients.AllAnswered() && Clock::now() < end;)
    clients.Turn();
  outcome.live_flows = clients.Count(Clients::Habit::kLive);
  outcome.idle_flows = clients.Count(Clients::Habit::kIdle);
  outcome.moved = clients.Moved();
  outcome.new_tried = clients.Count(Clients::Habit::kOnce);
  outcome.new_connected = clients.Connected();
  return outcome;
}

}  // namespace

Result<FloodOutcome> PlayConnections(const ConnectionCase& one,
                                     const std::function<bool(double)>& on_progress) {
  auto testbed = lab::Testbed::Up(Spec(one), {});
  if (!testbed) return tl::make_unexpected(testbed.error());
  const lab::Plan& plan = (*testbed)->plan();
  if (auto heard = AwaitUnits(plan.api_socket); !heard) return tl::make_unexpected(heard.error());
  Result<FloodOutcome> outcome = FloodOutcome{};
  const auto played = lab::Inside(plan.client_netns, [&]() -> Result<void> {
    outcome = Play(one, plan, on_progress);
    return {};
  });
  if (!played) return tl::make_unexpected(played.error());
  return outcome;
}

}  // namespace spillway::bench
