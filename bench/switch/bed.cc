// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/bed.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system_error.h"
#include "bench/switch/planned_maps.h"
#include "bench_wrapper.skel.h"
#include "core/flow_table.h"
#include "switch.skel.h"
#include "switch/data_plane.h"
#include "switch/ring_keeper.h"

namespace spillway::bench {
namespace {

constexpr uint32_t kUnitsPerServer = 2;
constexpr uint32_t kReplyLines = 8192;
constexpr uint16_t kFirstPort = 1001;  // services of one VIP differ by port

uint64_t CoarseNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

std::string PoolName(bool v6) { return v6 ? "v6" : "v4"; }

model::Pool MakePool(bool v6, uint32_t servers) {
  model::Pool pool;
  pool.name = PoolName(v6);
  for (uint32_t s = 0; s < servers; s++) {
    model::Server server;
    server.name = fmt::format("s{}", s);
    for (uint32_t u = 0; u < kUnitsPerServer; u++) {
      model::Unit unit;
      unit.name = u == 0 ? "nic" : "cpu";
      unit.kind = u == 0 ? SPW_KIND_SMARTNIC : SPW_KIND_CPU;
      unit.capacity = u == 0 ? 1 : 6;
      unit.address = *model::Address::Parse(v6 ? fmt::format("2001:db8:d::{:x}:{:x}", s, u + 1)
                                               : fmt::format("172.16.{}.{}", s / 100, s % 100 * 2 + u + 1));
      server.units.push_back(unit);
    }
    pool.servers.push_back(server);
  }
  return pool;
}

std::string ServiceName(bool v6, spw_mode mode, spw_unit_policy policy) {
  return fmt::format("{}-{}-{}", PoolName(v6), model::ToString(mode), model::ToString(policy));
}

// One service for every family, mode and policy, so that no row changes what another measures.
model::Config MakeConfig(uint32_t servers) {
  model::Config config;
  config.data_plane.report = model::ReportAddress{.address = *model::Address::Parse("192.0.2.1")};
  uint16_t port = kFirstPort;
  for (bool v6 : {false, true}) {
    config.pools.push_back(MakePool(v6, servers));
    for (spw_mode mode : {SPW_MODE_NAT, SPW_MODE_DSR_L2}) {
      for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++, port++) {
        model::Service service;
        service.name = ServiceName(v6, mode, static_cast<spw_unit_policy>(policy));
        service.vip = *model::Address::Parse(v6 ? "2001:db8::10" : "203.0.113.10");
        service.ports = {{model::Protocol::kTcp, port}, {model::Protocol::kUdp, port}};
        service.pool = PoolName(v6);
        service.mode = mode;
        service.unit_policy = static_cast<spw_unit_policy>(policy);
        service.idle_s = 3600;  // no entry ends while other rows are measured
        config.services.push_back(service);
      }
    }
  }
  return config;
}

}  // namespace

Result<std::unique_ptr<Bed>> Bed::Open(const BedOptions& options) {
  std::unique_ptr<Bed> bed(new Bed);
  SilenceLibbpf();
  return bed->Load(options)
      .and_then([&] { return bed->Fill(); })
      .and_then([&] { return bed->MakeReporters(); })
      .map([&] { return std::move(bed); });
}

Bed::~Bed() {
  bench_wrapper_bpf__destroy(wrapper_);
  switch_bpf__destroy(switch_);
}

Result<void> Bed::Load(const BedOptions& options) {
  const model::Config config = MakeConfig(options.servers);
  switching::Ledger ledger;
  const auto ring_capacity = static_cast<uint32_t>(switching::RingSlotsNeeded(config));
  auto plan = switching::MakePlan(config, ledger, ring_capacity);
  if (!plan) return tl::make_unexpected(plan.error());
  plan_ = std::move(*plan);

  switch_ = switch_bpf__open();
  wrapper_ = bench_wrapper_bpf__open();
  if (switch_ == nullptr || wrapper_ == nullptr) return FailSystem("opening the BPF objects", errno);
  if (getrandom(&seed_, sizeof(seed_), 0) != sizeof(seed_)) return FailSystem("getrandom", errno);
  const uint32_t buckets = options.flow_table_entries / SPW_BUCKET_ENTRIES;
  switching::SetSizes(switch_, {buckets, ring_capacity, kReplyLines}, seed_);
  const_cast<__u32&>(switch_->rodata->ignores_pressure) = 1;
  if (int error = switch_bpf__load(switch_); error != 0) return FailSystem(kLoadingSwitch, -error);
  if (int error = bench_wrapper_bpf__load(wrapper_); error != 0)
    return FailSystem("loading the benchmark's wrapper", -error);
  return {};
}

Result<void> Bed::Fill() {
  if (Result<void> mapped = MapOne(services_, switch_->maps.services)
                                .and_then([&] { return MapOne(replies_, switch_->maps.replies); })
                                .and_then([&] { return MapOne(ring_slots_, switch_->maps.ring_slots); })
                                .and_then([&] { return MapOne(units_, switch_->maps.units); })
                                .and_then([&] { return MapOne(servers_, switch_->maps.servers); })
                                .and_then([&] { return MapOne(flow_table_, switch_->maps.flow_table); })
                                .and_then([&] { return MapOne(flow_filter_, switch_->maps.flow_filter); })
                                .and_then([&] { return MapOne(half_open_, switch_->maps.half_open); })
                                .and_then([&] { return WriteTable(services_, plan_.services, "services"); })
                                .and_then([&] { return WriteTable(replies_, plan_.replies, "replies"); });
      !mapped)
    return mapped;
  switch_->bss->flow_limits = plan_.flow_limits;
  WriteUnits(plan_, units_, servers_);
  for (const switching::PlannedServer& server : plan_.servers)
    servers_[server.code].silent_beats = plan_.silent_beats;
  for (const switching::PlannedRing& ring : plan_.rings)
    switching::FillRing(&ring_slots_[ring.piece.offset], ring.next);
  RefreshReports();
  return {};
}

Result<void> Bed::MakeReporters() {
  const uint32_t most = SPW_BENCH_REPORTS / SPW_BENCH_REPORT_LAPS;
  // In an order that is not that of the units in memory.
  spw_bench_walk walk = MakeWalk(0, std::min(most, static_cast<uint32_t>(plan_.units.size())));
  for (uint32_t i = 0; i < walk.flows; i++) {
    const switching::PlannedUnit& unit = plan_.units[spw_bench_step(&walk)];
    const uint32_t code = spw_unit_server(unit.id);
    spw_server_key key{};
    key.key = {0x0706050403020100ULL + code, 0x0f0e0d0c0b0a0908ULL};
    key.configured = (1u << kUnitsPerServer) - 1;
    if (bpf_map_update_elem(bpf_map__fd(switch_->maps.server_keys), &code, &key, BPF_ANY) != 0)
      return FailSystem("writing map server_keys", errno);
    reporters_.push_back({static_cast<__u16>(code), static_cast<__u8>(spw_unit_index(unit.id)), key.key});
  }
  return {};
}

void Bed::SignReports() {
  size_t next = 0;
  for (uint32_t lap = 0; lap < SPW_BENCH_REPORT_LAPS; lap++) {
    reported_++;
    for (const Reporter& unit : reporters_) {
      spw_report report{};
      report.boot_id = 1'700'000'000'000'000;
      report.sequence = reported_;
      report.server = unit.server;
      report.unit = unit.unit;
      report.level = static_cast<__u8>(lap * 16);
      report.latency_us = 100;
      spw_report_wire wire{};
      spw_report_encode(&wire, &report, &unit.key);
      std::memcpy(wrapper_->bss->reports[next++].words, &wire, sizeof(wire));
    }
  }
}

void Bed::RefreshReports(bool first_busy) {
  const uint32_t beat = std::max(1u, spw_beats(CoarseNow()));
  for (const switching::PlannedUnit& unit : plan_.units) {
    spw_unit_load& load = servers_[spw_unit_server(unit.id)].load[spw_unit_index(unit.id)];
    load.report_beat = beat;
    load.assigned = 0;
    load.flags = first_busy && spw_unit_index(unit.id) == 0 ? SPW_REPORT_BUSY : 0;
    // Known to `headroom`: P4Mite's DNS (ICNP 2022), unloaded latency and time per answer.
    load.base_us = 3000;
    load.slot_ns = spw_unit_index(unit.id) == 0 ? 2'182'000 : 436'000;
    load.knee_us = load.slot_ns / 1000;
    load.drained_ns = CoarseNow();
  }
}

const spw_endpoint& Bed::EndpointOf(const Row& row) const {
  const bool v6 = row.packet == Packet::kV6Tcp;
  const std::string name = ServiceName(v6, row.mode, row.policy);
  const __u8 proto = row.packet == Packet::kV4Udp ? IPPROTO_UDP : IPPROTO_TCP;
  size_t index = 0;
  while (plan_.config.services[index].name != name) index++;
  const auto port = htons(static_cast<uint16_t>(kFirstPort + index));
  return *std::find_if(plan_.services.begin(), plan_.services.end(), [&](const spw_endpoint& e) {
    return row.packet == Packet::kReport
               ? e.kind == SPW_ENDPOINT_REPORT
               : e.kind == SPW_ENDPOINT_SERVICE && e.port == port && e.proto == proto;
  });
}

// A deviating flow is on the server's other unit.
uint16_t Bed::EntryUnit(Class row_class, uint16_t owner) const {
  return row_class == Class::kTcpDeviating || row_class == Class::kFirstAck ? owner ^ 1 : owner;
}

uint16_t Bed::ExpectedUnit(const Row& row, uint32_t flow) const {
  const spw_endpoint& service = EndpointOf(row);
  const uint64_t hash = FlowHash(seed_, row.packet, service, flow);
  const uint16_t owner = ring_slots_[service.ring_offset + spw_ring_index(hash, service.ring_slots)].owner;
  return EntryUnit(row.row_class, owner);
}

void Bed::ForgetAll() {
  std::memset(&flow_table_[0], 0, sizeof(spw_bucket) * flow_table_.size());
  std::memset(&flow_filter_[0], 0, sizeof(spw_filter_word) * flow_filter_.size());
  std::memset(&half_open_[0], 0, sizeof(spw_half_open) * half_open_.size());
  for (uint32_t i = 0; i < ring_slots_.size(); i++) ring_slots_[i].deviating_tick = 0;
  remembered_ = evicted_ = 0;
}

void Bed::Remember(Class row_class, Packet packet, uint32_t count) {
  const bool same = row_class == remembered_class_ && packet == remembered_packet_;
  if (!same || count < remembered_) ForgetAll();
  remembered_class_ = row_class;
  remembered_packet_ = packet;
  const spw_endpoint& service = EndpointOf(Row{.row_class = row_class, .packet = packet, .aim_ns = {}});
  const spw_flow_state state = packet == Packet::kV4Udp ? SPW_FLOW_DATAGRAM : SPW_FLOW_OPEN;
  const uint32_t tick = spw_ticks(CoarseNow()), mask = flow_table_.size() - 1;
  for (; remembered_ < count; remembered_++) {
    const uint64_t hash = FlowHash(seed_, packet, service, kFirstRemembered + remembered_);
    const uint32_t tag = spw_flow_tag(hash), primary = spw_flow_primary(hash, mask);
    spw_ring_slot& slot = SlotOf(service, hash);
    slot.deviating_tick = spw_slot_tick(tick);
    if (state != SPW_FLOW_DATAGRAM)
      spw_filter_add(&flow_filter_[spw_filter_index(tag, flow_filter_.size() - 1)], tag);
    const uint64_t entry = spw_flow_entry(tag, EntryUnit(row_class, slot.owner), state, tick);
    if (spw_flow_insert(&flow_table_[primary], &flow_table_[spw_flow_other(primary, tag, mask)], entry, tick,
                        plan_.flow_limits, SPW_BUCKET_ENTRIES) == SPW_INSERT_FULL)
      evicted_++;
  }
}

void Bed::AimFrames(const Row& row, TcpKind kind, const spw_bench_walk& walk) {
  aimed_ = row.packet;
  wrapper_->bss->frame = MakeFrame(row.packet, EndpointOf(row), kind);
  wrapper_->bss->walk = walk;
}

void Bed::Aim(const Row& row, const spw_bench_walk& walk) {
  AimFrames(row,
            row.row_class == Class::kNew        ? TcpKind::kSyn
            : row.row_class == Class::kFirstAck ? TcpKind::kFirstAck
                                                : TcpKind::kAck,
            walk);
}

void Bed::AimSyns(const Row& row, const spw_bench_walk& walk) { AimFrames(row, TcpKind::kSyn, walk); }

spw_bench_walk Bed::Walk() const { return wrapper_->bss->walk; }

Result<RunResult> Bed::Run(Target target, uint32_t packets) {
  if (aimed_ != Packet::kReport) return RunOnce(target, packets);
  const uint32_t signed_at_once = reporting_units() * SPW_BENCH_REPORT_LAPS;
  RunResult all;
  uint64_t ns = 0;
  for (uint32_t left = packets; left > 0;) {
    const uint32_t now = std::min(left, signed_at_once);
    SignReports();
    wrapper_->bss->walk.at = 0;
    Result<RunResult> run = RunOnce(target, now);
    if (!run) return run;
    ns += uint64_t{run->ns_per_packet} * now;
    left -= now;
    all = std::move(*run);
  }
  all.ns_per_packet = static_cast<uint32_t>((ns + packets / 2) / packets);
  return all;
}

Result<RunResult> Bed::RunOnce(Target target, uint32_t packets) {
  const uint32_t zero = 0;
  const int measured =
      bpf_program__fd(target == Target::kSwitch ? switch_->progs.spillway_switch : wrapper_->progs.floor_tx);
  if (bpf_map_update_elem(bpf_map__fd(wrapper_->maps.target), &zero, &measured, BPF_ANY) != 0)
    return FailSystem("writing map target", errno);
  const bpf_program* program = aimed_ == Packet::kV4Tcp   ? wrapper_->progs.wrap_v4tcp
                               : aimed_ == Packet::kV6Tcp ? wrapper_->progs.wrap_v6tcp
                               : aimed_ == Packet::kV4Udp ? wrapper_->progs.wrap_v4udp
                                                          : wrapper_->progs.wrap_report;
  std::vector<uint8_t> in(FrameBytes(aimed_)), out(in.size() + 256);
  LIBBPF_OPTS(bpf_test_run_opts, run);
  run.data_in = in.data();
  run.data_size_in = static_cast<uint32_t>(in.size());
  run.data_out = out.data();
  run.data_size_out = static_cast<uint32_t>(out.size());
  run.repeat = static_cast<int>(packets);
  if (int error = bpf_prog_test_run_opts(bpf_program__fd(program), &run); error != 0)
    return FailSystem("BPF_PROG_TEST_RUN", -error);
  out.resize(run.data_size_out);
  return RunResult{run.duration, run.retval, std::move(out)};
}

std::vector<uint16_t> Bed::UnitIds() const {
  std::vector<uint16_t> ids;
  for (const switching::PlannedUnit& unit : plan_.units) ids.push_back(unit.id);
  return ids;
}

spw_counters Bed::Counters() const {
  spw_counters sum{};
  std::vector<spw_counters> each(static_cast<size_t>(libbpf_num_possible_cpus()));
  const uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(switch_->maps.counters), &zero, each.data()) != 0) return sum;
  for (const spw_counters& one : each) {
#define SPW_ADD(field, help) sum.field += one.field;
    SPW_COUNTERS(SPW_ADD)
#undef SPW_ADD
  }
  return sum;
}

std::vector<uint64_t> Bed::UnitPackets() const {
  std::vector<uint64_t> packets;
  std::vector<spw_traffic> each(static_cast<size_t>(libbpf_num_possible_cpus()));
  for (const switching::PlannedUnit& unit : plan_.units) {
    const uint32_t key = unit.id;
    packets.resize(std::max<size_t>(packets.size(), key + 1));
    if (bpf_map_lookup_elem(bpf_map__fd(switch_->maps.unit_traffic), &key, each.data()) != 0) continue;
    for (const spw_traffic& one : each) packets[key] += one.packets;
  }
  return packets;
}

}  // namespace spillway::bench
