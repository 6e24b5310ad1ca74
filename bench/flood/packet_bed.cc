// SPDX-License-Identifier: Apache-2.0
#include "bench/flood/packet_bed.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system_error.h"
#include "bench/switch/planned_maps.h"
#include "switch.skel.h"
#include "switch/data_plane.h"
#include "switch/health_keeper.h"
#include "switch/ring_keeper.h"

namespace spillway::bench {
namespace {

constexpr uint32_t kServers = 8, kReplyLines = 1024;
constexpr uint16_t kPort = 80;                                                              // of the service
constexpr uint32_t kVip = 0xcb00710a;                                                       // 203.0.113.10
constexpr uint32_t kClient = 0xc6336401;                                                    // 198.51.100.1
constexpr size_t kSource = 26, kDestination = 30, kSourcePort = 34, kDestinationPort = 36;  // in the frame
constexpr size_t kSequence = 38, kTcpFlags = 47;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kDatagramsEveryMs = 30'000;            // half of their idle time
constexpr uint32_t kPorts = 50'000, kFirstPort = 10'000;  // of each client
constexpr uint32_t kIdle = 600, kDatagrams = 200;
constexpr uint64_t kOpenEvery = 2048, kGoOnEvery = 500, kReportEvery = 2048, kLookEvery = 65'536;  // packets

void Put(std::vector<uint8_t>& frame, size_t at, uint32_t value, size_t bytes) {
  for (size_t b = 0; b < bytes; b++) frame[at + b] = static_cast<uint8_t>(value >> 8 * (bytes - 1 - b));
}

// Ethernet, IPv4 and what follows. Checksums are not looked at on the way in.
std::vector<uint8_t> MakeFrame(uint8_t protocol, size_t bytes) {
  std::vector<uint8_t> frame(bytes);
  frame[12] = 0x08;
  frame[14] = 0x45;
  Put(frame, 16, static_cast<uint32_t>(bytes - 14), 2);
  frame[22] = 64;
  frame[23] = protocol;
  Put(frame, kDestination, kVip, 4);
  Put(frame, kDestinationPort, kPort, 2);
  if (protocol == IPPROTO_TCP)
    frame[46] = 5 << 4;
  else
    Put(frame, 38, static_cast<uint32_t>(bytes - 34), 2);
  return frame;
}

model::Config MakeConfig(const FloodCase& one) {
  model::Config config;
  config.data_plane.report = model::ReportAddress{.address = *model::Address::Parse("192.0.2.1")};
  config.data_plane.report->silent_after_ms = 3'600'000;
  model::Pool pool;
  pool.name = "pool";
  for (uint32_t s = 0; s < kServers; s++) {
    model::Server server;
    server.name = fmt::format("s{}", s);
    for (uint32_t u = 0; u < 2; u++) {
      model::Unit unit;
      unit.name = u == 0 ? "cpu" : "nic";
      unit.kind = u == 0 ? SPW_KIND_CPU : SPW_KIND_SMARTNIC;
      unit.capacity = u == 0 ? 6 : 1;
      unit.address = *model::Address::Parse(fmt::format("10.0.{}.{}", s, u + 1));
      server.units.push_back(unit);
    }
    pool.servers.push_back(server);
  }
  config.pools = {pool};
  model::Service service;
  service.name = "flooded";
  service.vip = *model::Address::Parse("203.0.113.10");
  service.ports = {{model::Protocol::kTcp, kPort}, {model::Protocol::kUdp, kPort}};
  service.pool = pool.name;
  service.server_policy = one.server_policy;
  service.unit_policy = one.unit_policy;
  config.services = {service};
  return config;
}

template <class T>
void Clear(switching::MappedArray<T>& array) {
  std::memset(static_cast<void*>(&array[0]), 0, array.size() * sizeof(T));
}

}  // namespace

uint64_t PacketsOf(const FloodCase& one, uint32_t flow_table_entries) {
  constexpr uint64_t kHandshakes = uint64_t{SPW_HALF_OPEN_BUCKETS} * SPW_HALF_OPEN_WAYS;
  switch (one.attack) {
    case Attack::kForgedSyn:
      return one.table_times * std::max<uint64_t>(flow_table_entries, kHandshakes);
    case Attack::kSynAckTriples:
      return uint64_t{one.table_times} * flow_table_entries * 3;
    default:
      return uint64_t{one.table_times} * flow_table_entries;
  }
}

Result<std::unique_ptr<PacketBed>> PacketBed::Open(uint32_t flow_table_entries) {
  std::unique_ptr<PacketBed> bed(new PacketBed);
  SilenceLibbpf();
  return bed->Load(flow_table_entries).map([&] { return std::move(bed); });
}

PacketBed::~PacketBed() { switch_bpf__destroy(switch_); }

Result<void> PacketBed::Load(uint32_t flow_table_entries) {
  entries_ = flow_table_entries;
  tcp_ = MakeFrame(IPPROTO_TCP, 54);
  udp_ = MakeFrame(IPPROTO_UDP, 46);
  ring_capacity_ = static_cast<uint32_t>(switching::RingSlotsNeeded(MakeConfig({})));
  switch_ = switch_bpf__open();
  if (switch_ == nullptr) return FailSystem("opening the BPF object", errno);
  // The same in every run, so that runs can be compared: nothing attacks this hash.
  for (uint32_t i = 0; i < std::size(seed_.key); i++) seed_.key[i] = 0x9e3779b1u * (i + 1);
  seed_.mix = 0x0123456789abcdefULL;
  switching::SetSizes(switch_, {entries_ / SPW_BUCKET_ENTRIES, ring_capacity_, kReplyLines}, seed_);
  const_cast<__u32&>(switch_->rodata->clock_is_given) = 1;
  if (int error = switch_bpf__load(switch_); error != 0) return FailSystem(kLoadingSwitch, -error);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  // Long after the start: ticks of which none is before the clock's zero.
  now_ns_ = static_cast<uint64_t>(now.tv_sec) * kSecond + 100'000 * kSecond;
  return MapOne(services_, switch_->maps.services)
      .and_then([&] { return MapOne(replies_, switch_->maps.replies); })
      .and_then([&] { return MapOne(ring_slots_, switch_->maps.ring_slots); })
      .and_then([&] { return MapOne(units_, switch_->maps.units); })
      .and_then([&] { return MapOne(servers_, switch_->maps.servers); })
      .and_then([&] { return MapOne(pools_, switch_->maps.pools); })
      .and_then([&] { return MapOne(flow_table_, switch_->maps.flow_table); })
      .and_then([&] { return MapOne(flow_filter_, switch_->maps.flow_filter); })
      .and_then([&] { return MapOne(half_open_, switch_->maps.half_open); })
      .and_then([&] { return MapOne(refused_, switch_->maps.refused); });
}

void PacketBed::Forget() {
  Clear(services_), Clear(replies_), Clear(ring_slots_), Clear(units_), Clear(servers_), Clear(pools_);
  Clear(flow_table_), Clear(flow_filter_), Clear(half_open_), Clear(refused_);
  switch_->bss->insert_rate.tick = switch_->bss->insert_rate.inserted = 0;
  switch_->bss->pressure.pressed_tick = spw_ticks(now_ns_) - 100'000;
  switch_->bss->pressure.displaced_tick = 0;
  next_flow_ = 0;
}

Result<void> PacketBed::Lay(const FloodCase& one) {
  Forget();
  switching::Ledger ledger;
  auto plan = switching::MakePlan(MakeConfig(one), ledger, ring_capacity_);
  if (!plan) return tl::make_unexpected(plan.error());
  plan_ = std::move(*plan);
  for (const auto& written :
       {WriteTable(services_, plan_.services, "services"), WriteTable(replies_, plan_.replies, "replies")})
    if (!written) return written;
  for (const switching::PlannedRing& ring : plan_.rings)
    switching::FillRing(&ring_slots_[ring.piece.offset], ring.next);
  WriteUnits(plan_, units_, servers_);
  for (const switching::PlannedServer& server : plan_.servers) {
    servers_[server.code].silent_beats = plan_.silent_beats;
    servers_[server.code].pool = server.pool;
  }
  switching::HealthKeeper().Look(plan_, &servers_[0], &pools_[0], spw_beats(now_ns_));
  switch_->bss->flow_limits = plan_.flow_limits;
  Advance(0);
  return {};
}

void PacketBed::Advance(uint64_t ns) {
  now_ns_ += ns;
  switch_->bss->given_now_ns = now_ns_;
}

// Every unit reports, busy or not, with queues of any length: the policies leave the ring now and then.
void PacketBed::ReportAll(std::mt19937_64& random) {
  const uint32_t beat = spw_beats(now_ns_);
  for (const switching::PlannedUnit& unit : plan_.units) {
    spw_unit_load& load = servers_[spw_unit_server(unit.id)].load[spw_unit_index(unit.id)];
    const uint64_t draw = random();
    load.report_beat = beat;
    load.assigned = 0;
    load.flags = (draw & 1) != 0 ? SPW_REPORT_BUSY : 0;
    load.level = static_cast<__u8>(draw >> 8);
    load.queue = static_cast<__u16>(draw >> 16 & 31);
    // Known to `headroom`: P4Mite's DNS (ICNP 2022), unloaded latency and time per answer.
    load.base_us = 3000;
    load.slot_ns = unit.kind == SPW_KIND_CPU ? 436'000 : 2'182'000;
    load.knee_us = load.slot_ns / 1000;
    load.drained_ns = now_ns_ + uint64_t{load.queue} * load.slot_ns;
  }
}

uint16_t PacketBed::Send(const FloodPacket& packet) {
  std::vector<uint8_t>& frame = packet.is_udp ? udp_ : tcp_;
  Put(frame, kSource, packet.source, 4);
  Put(frame, kSourcePort, packet.port, 2);
  if (!packet.is_udp) {
    Put(frame, kSequence, packet.sequence, 4);
    frame[kTcpFlags] = packet.flags;
  }
  out_.resize(frame.size() + 256);
  LIBBPF_OPTS(bpf_test_run_opts, run);
  run.data_in = frame.data();
  run.data_size_in = static_cast<uint32_t>(frame.size());
  run.data_out = out_.data();
  run.data_size_out = static_cast<uint32_t>(out_.size());
  if (bpf_prog_test_run_opts(bpf_program__fd(switch_->progs.spillway_switch), &run) != 0 ||
      run.retval != XDP_TX || out_[0] != 2 || out_[1] != 1)
    return SPW_NO_UNIT;
  return static_cast<uint16_t>(out_[4] << 8 | out_[5]);
}

uint16_t PacketBed::SendTcp(const Flow& flow, uint8_t flags, uint32_t sequence) {
  return Send({flow.address, flow.port, false, flags, sequence});
}

uint16_t PacketBed::SendUdp(const Flow& flow) { return Send({flow.address, flow.port, true, 0, 0}); }

PacketBed::Flow PacketBed::NewFlow() {
  const uint32_t number = next_flow_++;
  return {.address = kClient + number / kPorts, .port = static_cast<uint16_t>(kFirstPort + number % kPorts)};
}

PacketBed::Flow PacketBed::Begin(std::mt19937_64& random) {
  Flow flow = NewFlow();
  flow.isn = static_cast<uint32_t>(random());
  flow.unit = SendTcp(flow, kSyn, flow.isn);
  return flow;
}

uint16_t PacketBed::RingUnit(const Flow& flow) const {
  const auto service = std::ranges::find_if(plan_.services, [](const spw_endpoint& endpoint) {
    return endpoint.kind == SPW_ENDPOINT_SERVICE && endpoint.proto == IPPROTO_TCP;
  });
  const uint32_t ports = htons(flow.port) | static_cast<uint32_t>(htons(kPort)) << 16;
  const uint64_t hash = spw_hash_v4(&seed_, htonl(flow.address), htonl(kVip), ports, IPPROTO_TCP);
  return ring_slots_[service->ring_offset + spw_ring_index(hash, service->ring_slots)].owner;
}

void PacketBed::Establish(Flows& flows, std::mt19937_64& random) {
  for (uint32_t i = 0; i < kIdle; i++) {
    if (i % 8 == 0) ReportAll(random);
    Flow flow = Begin(random);
    Follow(flow, SendTcp(flow, kAck, flow.isn + 1));
    if (i % 2 != 0) Follow(flow, SendTcp(flow, kAck | kPsh, flow.isn + 1));
    flows.idle.push_back(flow);
  }
  Advance(600 * kSecond);
  for (uint32_t i = 0; i < kDatagrams; i++) {
    if (i % 8 == 0) ReportAll(random);
    Flow flow = NewFlow();
    flow.unit = SendUdp(flow);
    Follow(flow, SendUdp(flow));
    flows.datagrams.push_back(flow);
  }
  Advance(kDatagramsEveryMs * kSecond / 1000);
}

// One flow of each round trip. `due_in`: by these, in packets of the flood.
void PacketBed::OpenNew(Flows& flows, uint64_t packet, const uint64_t* due_in, std::mt19937_64& random,
                        FloodOutcome& outcome) {
  for (size_t r = 0; r < kRoundTrips; r++) {
    flows.opening[r].push_back(Begin(random));
    Flow& flow = flows.opening[r].back();
    flow.due = packet + due_in[r];
    outcome.new_tried++;
    *outcome.new_off_ring += flow.unit != RingUnit(flow);
  }
}

// The ACK of each handshake whose time has come, and its first data. They are the handshake's that its unit
// answered; any other unit resets them.
void PacketBed::Complete(Flows& flows, uint64_t packet, FloodOutcome& outcome) {
  for (size_t r = 0; r < kRoundTrips; r++) {
    auto& opening = flows.opening[r];
    for (; !opening.empty() && opening.front().due <= packet; opening.pop_front()) {
      const Flow& flow = opening.front();
      if (flow.unit == SPW_NO_UNIT || SendTcp(flow, kAck, flow.isn + 1) != flow.unit ||
          SendTcp(flow, kAck | kPsh, flow.isn + 1) != flow.unit)
        continue;
      flows.live.push_back(flow);
      outcome.new_connected++;
      (*outcome.connected_of)[r]++;
    }
  }
}

// Whether packets that go on from the victim's handshake would be taken for ones that go on from this.
void PacketBed::Guess(std::vector<Flow>& victims, const FloodPacket& packet) {
  const uint64_t number = uint64_t{packet.source - kClient} * kPorts + packet.port - kFirstPort;
  if (packet.source < kClient || number >= victims.size()) return;
  Flow& victim = victims[number];
  const uint32_t ahead = (victim.isn >> 16) - (packet.sequence >> 16);
  victim.guessed |= (ahead & 0xffff) <= 1;
}

Result<FloodOutcome> PacketBed::Play(const FloodCase& one, const std::function<bool(double)>& on_progress) {
  if (auto laid = Lay(one); !laid) return tl::make_unexpected(laid.error());
  std::mt19937_64 random(one.seed);
  Flows flows;
  Establish(flows, random);
  std::vector<Flood::Victim> victims;
  for (const Flow& flow : flows.idle) victims.push_back({flow.address, flow.port});
  Flood flood(one.attack, one.seed, std::move(victims));

  FloodOutcome outcome;
  outcome.new_off_ring = 0;
  outcome.connected_of.emplace();
  outcome.packets = PacketsOf(one, entries_);
  const auto packets_in = [&](uint64_t ms) { return ms * one.packets_per_s / 1000; };
  uint64_t due_in[kRoundTrips];
  for (size_t r = 0; r < kRoundTrips; r++) due_in[r] = packets_in(kRoundTripsMs[r]);
  // Goes on until the last handshake is done.
  for (uint64_t i = 0; i < outcome.packets + due_in[kRoundTrips - 1] + 1; i++) {
    const bool floods = i < outcome.packets;
    if (i % kReportEvery == 0) ReportAll(random);
    if (floods && i % kOpenEvery == 0) OpenNew(flows, i, due_in, random, outcome);
    Complete(flows, i, outcome);
    if (i % kGoOnEvery == 0 && !flows.live.empty()) {
      Flow& flow = flows.live[random() % flows.live.size()];
      Follow(flow, SendTcp(flow, kAck | kPsh, flow.isn + 500));
    }
    if (i % packets_in(kDatagramsEveryMs) == 0)
      for (Flow& flow : flows.datagrams) Follow(flow, SendUdp(flow));
    Advance(kSecond / one.packets_per_s);
    if (floods) {
      const FloodPacket packet = flood.Next();
      if (packet.flags == kSyn) Guess(flows.idle, packet);
      (void)Send(packet);
    }
    if (i % kLookEvery == 0 && !on_progress(static_cast<double>(i) / static_cast<double>(outcome.packets)))
      return Fail(ErrorCode::kSystem, "interrupted");
  }
  for (Flow& flow : flows.live) Follow(flow, SendTcp(flow, kAck, flow.isn + 2));
  for (Flow& flow : flows.idle) Follow(flow, SendTcp(flow, kAck, flow.isn + 1));
  for (Flow& flow : flows.datagrams) Follow(flow, SendUdp(flow));
  for (const auto* some : {&flows.live, &flows.idle, &flows.datagrams})
    for (const Flow& flow : *some)
      (flow.guessed ? outcome.guessed : outcome.moved) += flow.guessed || flow.moved;
  outcome.live_flows = flows.live.size();
  outcome.idle_flows = flows.idle.size();
  outcome.datagram_flows = flows.datagrams.size();
  return outcome;
}

}  // namespace spillway::bench
