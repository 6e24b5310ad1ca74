// SPDX-License-Identifier: Apache-2.0
#include "switch_program.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sched.h>
#include <time.h>

#include <cstring>
#include <stdexcept>

#include "checksums.h"
#include "switch.skel.h"
#include "switch/data_plane.h"
#include "switch/endpoint_table.h"
#include "switch/health_keeper.h"
#include "switch/ring_keeper.h"

namespace spillway::switching {
namespace {

constexpr uint32_t kFlowBuckets = 4096, kRingCapacity = 1 << 17, kReplyLines = 1024;
constexpr uint32_t kLoopback = 1;  // ingress of a test run in a namespace without other devices

uint64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <class T>
void MapOne(MappedArray<T>& array, bpf_map* map) {
  auto mapped = MappedArray<T>::Map(bpf_map__fd(map), bpf_map__max_entries(map), bpf_map__name(map));
  if (!mapped) throw std::runtime_error(mapped.error().message);
  array = std::move(*mapped);
}

template <class T>
void Clear(MappedArray<T>& array) {
  std::memset(static_cast<void*>(&array[0]), 0, array.size() * sizeof(T));
}

model::Service MakeService(const char* name, const char* vip, std::vector<model::ServicePort> ports,
                           const char* pool, spw_mode mode) {
  model::Service service;
  service.name = name;
  service.vip = *model::Address::Parse(vip);
  service.ports = std::move(ports);
  service.pool = pool;
  service.mode = mode;
  service.unit_policy = SPW_UNIT_P4MITE;  // the host by default, and by one bit elsewhere
  return service;
}

model::Pool MakePool(const char* name, const char* prefix) {
  model::Pool pool;
  pool.name = name;
  for (int s = 1; s <= 2; s++) {
    model::Server server;
    server.name = fmt::format("s{}", s);
    server.key = model::Key{};
    for (size_t i = 0; i < 16; i++) (*server.key)[i] = static_cast<uint8_t>(i + 16 * static_cast<size_t>(s));
    bool v6 = std::strchr(prefix, ':') != nullptr;
    for (int u = 1; u <= 2; u++) {
      model::Unit unit;
      unit.name = u == 1 ? "cpu" : "nic";
      unit.kind = u == 1 ? SPW_KIND_CPU : SPW_KIND_SMARTNIC;
      unit.capacity = u == 1 ? 6 : 1;
      unit.address = *model::Address::Parse(fmt::format("{}{}{}{}", prefix, s, v6 ? "::" : ".", u));
      server.units.push_back(unit);
    }
    pool.servers.push_back(server);
  }
  return pool;
}

}  // namespace

uint64_t NowNs() { return Now(CLOCK_MONOTONIC); }
uint32_t NowTick() { return spw_ticks(Now(CLOCK_MONOTONIC_COARSE)); }
uint32_t NowBeat() { return spw_beats(Now(CLOCK_MONOTONIC)); }

model::Config TestConfig() {
  using model::Protocol;
  model::Config config;
  config.data_plane.report = model::ReportAddress{*model::Address::Parse("192.0.2.1")};
  config.data_plane.report->silent_after_ms = 3'600'000;
  config.pools = {MakePool("four", "10.0."), MakePool("six", "2001:db8:")};
  std::vector<model::ServicePort> web = {{Protocol::kTcp, 80}, {Protocol::kUdp, 80}};
  std::vector<model::ServicePort> edge = {{Protocol::kTcp, 443}, {Protocol::kUdp, 443}};
  config.services = {MakeService("web", "203.0.113.10", web, "four", SPW_MODE_NAT),
                     MakeService("web6", "2001:db8:ff::10", web, "six", SPW_MODE_NAT),
                     MakeService("edge", "203.0.113.20", edge, "four", SPW_MODE_DSR_L2),
                     MakeService("edge6", "2001:db8:ff::20", edge, "six", SPW_MODE_DSR_L2),
                     MakeService("dns", "203.0.113.53", {{Protocol::kUdp, 53}}, "four", SPW_MODE_DSR_L2)};
  config.services.back().affinity = SPW_AFFINITY_NONE;
  return config;
}

SwitchProgram& SwitchProgram::Get() {
  static SwitchProgram* program = new SwitchProgram(0);  // lives as long as the process
  return *program;
}

SwitchProgram& SwitchProgram::AtStandingClock() {
  static SwitchProgram* program = new SwitchProgram(NowNs());
  return *program;
}

SwitchProgram::SwitchProgram(uint64_t given_now_ns) : given_now_ns_(given_now_ns) {
  if (unshare(CLONE_NEWNET) != 0) throw std::runtime_error("these tests need root (CAP_SYS_ADMIN, CAP_BPF)");
  skeleton_ = switch_bpf__open();
  if (skeleton_ == nullptr) throw std::runtime_error("opening the BPF object failed");
  for (size_t i = 0; i < 10; i++) seed_.key[i] = static_cast<uint32_t>(spw_be32(0x9e3779b1u * (i + 1)));
  seed_.mix = 0x0123456789abcdefULL;
  SetSizes(skeleton_, {kFlowBuckets, kRingCapacity, kReplyLines}, seed_);
  skeleton_->rodata->clock_is_given = given_now_ns != 0;
  if (int error = switch_bpf__load(skeleton_); error != 0) {
    throw std::runtime_error(fmt::format("loading the switch: {}", std::strerror(-error)));
  }
  skeleton_->bss->given_now_ns = given_now_ns;
  program_fd_ = bpf_program__fd(skeleton_->progs.spillway_switch);
  MapOne(services, skeleton_->maps.services);
  MapOne(replies, skeleton_->maps.replies);
  MapOne(ring_slots, skeleton_->maps.ring_slots);
  MapOne(units, skeleton_->maps.units);
  MapOne(servers, skeleton_->maps.servers);
  MapOne(pools, skeleton_->maps.pools);
  MapOne(flow_table, skeleton_->maps.flow_table);
  MapOne(flow_filter, skeleton_->maps.flow_filter);
  MapOne(half_open, skeleton_->maps.half_open);
  MapOne(refused, skeleton_->maps.refused);
}

uint32_t SwitchProgram::flow_buckets() const { return kFlowBuckets; }

void SwitchProgram::Reset() {
  Clear(services), Clear(replies), Clear(ring_slots), Clear(units), Clear(servers), Clear(pools);
  Clear(flow_table), Clear(flow_filter), Clear(half_open), Clear(refused);
  skeleton_->bss->insert_rate.tick = 0;
  skeleton_->bss->insert_rate.inserted = 0;
  // Long ago, also on a machine that was started a minute ago.
  skeleton_->bss->pressure = {.pressed_tick = spw_ticks(NowNs()) - 100'000, .displaced_tick = 0};
  spw_server_key none{};
  for (uint32_t code = 0; code < 64; code++) WriteKey(code, none);
  ledger_ = Ledger{};
  TakeCounts();
}

void SwitchProgram::MakePlacesFew() { skeleton_->bss->pressure.pressed_tick = spw_ticks(NowNs()); }

void SwitchProgram::Apply(const model::Config& config) {
  auto plan = MakePlan(config, ledger_, kRingCapacity);
  if (!plan) throw std::runtime_error(plan.error().message);
  plan_ = *plan;
  for (auto [table, wanted] : {std::pair{&services, &plan_.services}, std::pair{&replies, &plan_.replies}}) {
    auto writes = PlanLines(*table, *wanted, "test");
    if (!writes) throw std::runtime_error(writes.error().message);
    WriteLines(*table, *writes);
  }
  for (const PlannedRing& ring : plan_.rings) FillRing(&ring_slots[ring.piece.offset], ring.next);
  const uint32_t beat = Beat();
  for (const PlannedUnit& unit : plan_.units) {
    spw_unit& entry = units[unit.id];
    const uint8_t mac[6] = {
        0x02, 0xcc, 0, 0, static_cast<uint8_t>(unit.id >> 8), static_cast<uint8_t>(unit.id)};
    const uint8_t own[6] = {0x02, 0xdd, 0, 0, 0, 9};
    std::memcpy(entry.mac, mac, 6);
    std::memcpy(entry.own_mac, own, 6);
    entry.ifindex = kLoopback;
    auto words = unit.address.Words();
    std::copy(words.begin(), words.end(), entry.addr);
    entry.family = static_cast<uint8_t>(unit.address.family);
    entry.alive = unit.status == SPW_UNIT_UP || unit.status == SPW_UNIT_DRAINING;
    entry.resolved = 1;
    spw_server& server = servers[spw_unit_server(unit.id)];
    server.unit[spw_unit_index(unit.id)] = {static_cast<uint8_t>(unit.status),
                                            static_cast<uint8_t>(unit.kind), unit.weight};
    server.load[spw_unit_index(unit.id)].report_beat = beat;
    server.silent_beats = plan_.silent_beats;
  }
  for (const PlannedServer& server : plan_.servers) servers[server.code].pool = server.pool;
  HealthKeeper().Look(plan_, &servers[0], &pools[0], beat);
  for (const PlannedServer& server : plan_.servers) {
    if (!server.key) continue;
    spw_server_key key{};
    std::memcpy(&key.key, server.key->data(), 16);
    key.configured = server.units_mask;
    WriteKey(server.code, key);
  }
  skeleton_->bss->flow_limits = plan_.flow_limits;
}

uint32_t SwitchProgram::Beat() const {
  return spw_beats(given_now_ns_ != 0 ? given_now_ns_ : Now(CLOCK_MONOTONIC));
}

uint32_t SwitchProgram::displaced_tick() const { return skeleton_->bss->pressure.displaced_tick; }

void SwitchProgram::SetClock(uint64_t now_ns) {
  given_now_ns_ = now_ns;
  skeleton_->bss->given_now_ns = now_ns;
}

Outcome SwitchProgram::Run(const Bytes& packet, uint32_t ingress_ifindex) {
  out_.resize(packet.size() + 256);
  LIBBPF_OPTS(bpf_test_run_opts, options);
  xdp_md context{};
  options.data_in = packet.data();
  options.data_size_in = static_cast<uint32_t>(packet.size());
  options.data_out = out_.data();
  options.data_size_out = static_cast<uint32_t>(out_.size());
  if (ingress_ifindex != 0) {
    context.data_end = static_cast<uint32_t>(packet.size());
    context.ingress_ifindex = ingress_ifindex;
    options.ctx_in = &context;
    options.ctx_size_in = sizeof(context);
  }
  Outcome outcome;
  if (bpf_prog_test_run_opts(program_fd_, &options) != 0) return outcome;
  outcome.verdict = static_cast<int>(options.retval);
  outcome.bytes.assign(out_.begin(), out_.begin() + options.data_size_out);
  return outcome;
}

spw_counters SwitchProgram::CountersOn(int cpu) const {
  std::vector<spw_counters> each(static_cast<size_t>(libbpf_num_possible_cpus()));
  uint32_t zero = 0;
  bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.counters), &zero, each.data());
  return each.at(static_cast<size_t>(cpu));
}

spw_counters SwitchProgram::ReadCounters() const {
  spw_counters sum{};
  std::vector<spw_counters> each(static_cast<size_t>(libbpf_num_possible_cpus()));
  uint32_t zero = 0;
  bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.counters), &zero, each.data());
  for (const spw_counters& one : each) {
#define SPW_ADD(field, help) sum.field += one.field;
    SPW_COUNTERS(SPW_ADD)
#undef SPW_ADD
  }
  return sum;
}

Counts SwitchProgram::TakeCounts() {
  spw_counters now = ReadCounters();
  Counts counts;
#define SPW_TAKE(field, help) \
  if (now.field != last_.field) counts[#field] = now.field - last_.field;
  SPW_COUNTERS(SPW_TAKE)
#undef SPW_TAKE
  last_ = now;
  return counts;
}

namespace {
spw_traffic SumTraffic(bpf_map* map, uint32_t key) {
  spw_traffic sum{};
  std::vector<spw_traffic> each(static_cast<size_t>(libbpf_num_possible_cpus()));
  bpf_map_lookup_elem(bpf_map__fd(map), &key, each.data());
  for (const spw_traffic& one : each) {
    sum.packets += one.packets;
    sum.bytes += one.bytes;
    sum.new_flows += one.new_flows;
  }
  return sum;
}
}  // namespace

spw_traffic SwitchProgram::UnitTraffic(uint16_t id) const {
  return SumTraffic(skeleton_->maps.unit_traffic, id);
}
spw_traffic SwitchProgram::ServiceTraffic(uint32_t service) const {
  return SumTraffic(skeleton_->maps.service_traffic, service);
}

spw_server_key SwitchProgram::ReadKey(uint32_t server) const {
  spw_server_key key{};
  bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.server_keys), &server, &key);
  return key;
}

void SwitchProgram::WriteKey(uint32_t server, const spw_server_key& key) {
  bpf_map_update_elem(bpf_map__fd(skeleton_->maps.server_keys), &server, &key, BPF_ANY);
}

void SwitchTest::SetUp() {
  LetProbe();
  program_.Reset();
  program_.Apply(TestConfig());
}

uint16_t UnitByMac(const Bytes& frame) {
  if (frame[0] != 0x02 || frame[1] != 0xcc) return SPW_NO_UNIT;
  return static_cast<uint16_t>(frame[4] << 8 | frame[5]);
}

Outcome SwitchTest::Run(const Bytes& packet) {
  for (uint16_t id : without_probes_) HealthOfUnit(id).probe_beat = program_.Beat();
  return program_.Run(packet);
}

uint16_t SwitchTest::Sent(const Bytes& packet) {
  Outcome out = Run(packet);
  EXPECT_EQ(out.verdict, XDP_TX);
  EXPECT_EQ(out.bytes.size(), packet.size());
  EXPECT_EQ(WrongChecksums(out.bytes), "");
  return out.verdict == XDP_TX ? UnitByMac(out.bytes) : SPW_NO_UNIT;
}

uint16_t SwitchTest::Id(const std::string& pool, const std::string& server, const std::string& unit) const {
  for (const PlannedUnit& u : program_.plan().units) {
    if (u.pool == pool && u.server == server && u.unit == unit) return u.id;
  }
  throw std::out_of_range(unit);
}

spw_endpoint& SwitchTest::Service(const std::string& vip, uint16_t port, uint8_t proto) {
  auto words = model::Address::Parse(vip)->Words();
  for (uint32_t line = 0; line < program_.services.size(); line++) {
    spw_endpoint& e = program_.services[line];
    if (e.kind == SPW_ENDPOINT_SERVICE && e.port == htons(port) && e.proto == proto &&
        std::equal(words.begin(), words.end(), e.addr)) {
      return e;
    }
  }
  throw std::out_of_range(vip);
}

void SwitchTest::Report(uint16_t id, bool busy, uint16_t queue) {
  spw_unit_load& load = program_.servers[spw_unit_server(id)].load[spw_unit_index(id)];
  load.flags = busy ? SPW_REPORT_BUSY : 0;
  load.queue = queue;
  load.assigned = 0;
  load.report_beat = program_.Beat();
}

void SwitchTest::TakeOut(uint16_t id) {
  Report(id, false);
  constexpr uint32_t kLongAgo = 1 << 20;  // beats: probes are as rare as they get
  spw_server& server = ServerOf(id);
  server.load[spw_unit_index(id)].flags = SPW_REPORT_FAILING;
  server.health[spw_unit_index(id)] = {program_.Beat() - kLongAgo, program_.Beat()};
  server.failing |= 1u << spw_unit_index(id);
  WithoutProbes(id);
}

void SwitchTest::AllCpusBusy(bool busy) {
  for (const PlannedUnit& u : program_.plan().units) {
    if (u.kind == SPW_KIND_CPU) Report(u.id, busy);
  }
}

void SwitchTest::SetStatus(uint16_t id, spw_unit_status status) {
  program_.servers[spw_unit_server(id)].unit[spw_unit_index(id)].status = static_cast<uint8_t>(status);
  program_.units[id].alive = status == SPW_UNIT_UP || status == SPW_UNIT_DRAINING;
}

spw_ring_slot& SwitchTest::SlotOf(const spw_endpoint& service, uint64_t hash) {
  return program_.ring_slots[service.ring_offset + spw_ring_index(hash, service.ring_slots)];
}

uint64_t SwitchTest::Hash(const std::string& source, const std::string& destination, uint16_t sport,
                          uint16_t dport, uint8_t proto) const {
  auto src = model::Address::Parse(source), dst = model::Address::Parse(destination);
  auto s = src->Words(), d = dst->Words();
  uint32_t ports = htons(sport) | static_cast<uint32_t>(htons(dport)) << 16;
  return src->family == 4 ? spw_hash_v4(&program_.seed(), s[0], d[0], ports, proto)
                          : spw_hash_v6(&program_.seed(), s.data(), d.data(), ports, proto);
}

size_t SwitchTest::FlowEntries() const {
  size_t live = 0;
  for (uint32_t b = 0; b < program_.flow_table.size(); b++) {
    for (__u64 entry : program_.flow_table[b].entry) live += spw_entry_state(entry) != SPW_FLOW_FREE;
  }
  return live;
}

const __u64* SwitchTest::FlowEntry(uint64_t hash) const {
  uint32_t mask = program_.flow_buckets() - 1, tag = spw_flow_tag(hash);
  uint32_t primary = spw_flow_primary(hash, mask);
  for (uint32_t bucket : {primary, spw_flow_other(primary, tag, mask)}) {
    int at = spw_flow_find(&program_.flow_table[bucket], tag);
    if (at >= 0) return &program_.flow_table[bucket].entry[at];
  }
  return nullptr;
}

void SwitchTest::AgeFlows(uint32_t ticks) {
  for (uint32_t b = 0; b < program_.flow_table.size(); b++) {
    for (__u64& entry : program_.flow_table[b].entry) {
      if (spw_entry_state(entry) != SPW_FLOW_FREE)
        entry = spw_entry_seen(entry, static_cast<uint32_t>(entry) - ticks);
    }
  }
}

void SwitchTest::AgeRefusedMarks(uint32_t ticks) {
  for (uint32_t i = 0; i < program_.refused.size(); i++) {
    for (__u16& tick : program_.refused[i].tick) {
      if (tick != 0) tick = static_cast<__u16>(tick - ticks);
    }
  }
}

void SwitchTest::AgeHalfOpen(uint32_t stamps) {
  for (uint32_t i = 0; i < program_.half_open.size(); i++) {
    for (__u64& word : program_.half_open[i].word) {
      constexpr __u64 kStamp = SPW_HALF_OPEN_STAMP_MASK;
      if (word != 0) word = (word & ~kStamp) | ((word - stamps) & kStamp);
    }
  }
}

}  // namespace spillway::switching
