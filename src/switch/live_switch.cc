// SPDX-License-Identifier: Apache-2.0
#include "live_switch.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "clock.h"
#include "device_check.h"
#include "endpoint_table.h"
#include "ledger_file.h"
#include "model/diff.h"
#include "model/secret_files.h"
#include "plan_notes.h"
#include "ring_keeper.h"

namespace spillway::switching {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSweepParts = 64;       // a full sweep of a large table in about a minute
constexpr uint32_t kSweepAtLeast = 65536;  // buckets: 4 MiB, a few milliseconds
// Slots, 8 bytes each: at the least 255 rings of the default size, so that a switch may get services while it
// runs.
constexpr uint32_t kRingCapacityMin = 1u << 22, kRingCapacityMax = 1u << 26;
static_assert(uint64_t{SPW_MAX_SERVICES} * SPW_RING_SLOTS <= kRingCapacityMax);
constexpr uint32_t kReplyLinesMin = 1u << 12;
// Ticks. After a power cut, older reports of so much time are taken again, until an agent's next one comes.
constexpr uint32_t kSaveHeardEvery = 10;
constexpr uint32_t kFollowEvery = 10;  // ticks between attempts to attach to an interface that refused it

std::string LedgerPath(const Options& options) {
  return options.run_dir + "/" + options.instance + ".ledger";
}

std::string SeedPath(const model::Config& config, const Options& options) {
  if (!config.data_plane.seed_file.empty()) return config.data_plane.seed_file;
  return options.state_dir + "/" + options.instance + ".seed";
}

bool SameSeed(const spw_seed& a, const spw_seed& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

Error SeedError(const Error& error) { return {error.code, "switch.seed_file: " + error.message}; }

uint64_t ReplyLinesNeeded(const model::Config& config) {
  uint64_t lines = 0;
  for (const auto& service : config.services) {
    if (service.mode != SPW_MODE_NAT) continue;
    for (const auto& server : config.FindPool(service.pool)->servers) {
      lines += server.units.size() * (service.ports.size() + 2);  // and one for each protocol's fragments
    }
  }
  return lines;
}

// Room to grow: what the configuration needs, fourfold.
Sizes SizesFor(const model::Config& config) {
  Sizes sizes;
  sizes.flow_buckets = static_cast<uint32_t>(config.data_plane.flow_table_entries / SPW_BUCKET_ENTRIES);
  uint64_t ring = std::bit_ceil(RingSlotsNeeded(config) * 4);
  sizes.ring_capacity = static_cast<uint32_t>(std::clamp<uint64_t>(ring, kRingCapacityMin, kRingCapacityMax));
  sizes.reply_lines =
      std::max(kReplyLinesMin, static_cast<uint32_t>(std::bit_ceil(ReplyLinesNeeded(config) * 4)));
  return sizes;
}

}  // namespace

Result<std::unique_ptr<Switch>> Switch::Start(const model::Config& config, const Options& options) {
  return LiveSwitch::Start(config, options);
}

Result<bool> Switch::RemoveLeftovers(const Options& options) {
  if (Result<void> mounted = EnsureBpfFs(options); !mounted) return tl::make_unexpected(mounted.error());
  Result<std::unique_ptr<InstanceLock>> lock = InstanceLock::Take(options);
  if (!lock) return tl::make_unexpected(lock.error());
  std::error_code ignored;
  const bool had_ledger = fs::remove(LedgerPath(options), ignored);
  const bool had_pins = PinnedMeta(options).has_value();
  if (Result<void> removed = RemovePins(options); !removed) return tl::make_unexpected(removed.error());
  return had_ledger || had_pins;
}

Result<std::unique_ptr<Switch>> LiveSwitch::Start(const model::Config& config, const Options& options) {
  if (Result<void> mounted = EnsureBpfFs(options); !mounted) return tl::make_unexpected(mounted.error());
  Result<std::unique_ptr<InstanceLock>> lock = InstanceLock::Take(options);
  if (!lock) return tl::make_unexpected(lock.error());
  std::unique_ptr<LiveSwitch> self(new LiveSwitch(options, std::move(*lock)));

  std::error_code ignored;
  fs::create_directories(options.state_dir, ignored);
  // Pins of a time without the file, or of another layout, hand their seed on.
  const std::string seed_path = SeedPath(config, options);
  const std::optional<spw_meta> pinned = PinnedMeta(options);
  Result<spw_seed> seed =
      model::ReadOrMakeSeedFile(seed_path, pinned ? std::optional(pinned->seed) : std::nullopt);
  if (!seed && seed.error().code == ErrorCode::kSystem && config.data_plane.seed_file.empty()) {
    // Nobody asked for the file: a machine without a place for it is balanced all the same.
    self->start_warnings_.push_back(
        seed.error().message +
        ": the seed of the flow hash cannot be saved. After a reboot, flows without a table "
        "entry may move to other units (spillwayd --state-dir)");
    seed = pinned ? Result<spw_seed>(pinned->seed) : model::RandomSeed();
  }
  if (!seed) return tl::make_unexpected(SeedError(seed.error()));

  std::optional<Ledger> ledger = LoadLedger(LedgerPath(options));
  // Pins whose codes nobody knows are of no use.
  const bool known =
      ledger.has_value() && pinned && pinned->layout == SPW_LAYOUT && ledger->maps == pinned->birth;
  if (known) {
    self->ledger_ = std::move(*ledger);
  } else {
    // What can be known to fail does so before what is there is given up.
    for (const std::string& interface : config.data_plane.interfaces)
      if (auto index = InterfaceIndex(interface); !index) return tl::make_unexpected(index.error());
    Ledger afresh;
    if (auto plan = MakePlan(config, afresh, SizesFor(config).ring_capacity); !plan)
      return tl::make_unexpected(plan.error());
  }
  Result<std::unique_ptr<DataPlane>> plane = DataPlane::Open(options, SizesFor(config), *seed, known);
  if (plane && (*plane)->adopted() && !RingsFit(self->ledger_, (*plane)->meta().ring_capacity)) {
    plane->reset();  // a damaged ledger: its flows cannot be told apart
    plane = DataPlane::Open(options, SizesFor(config), *seed, false);
  }
  if (!plane) return tl::make_unexpected(plane.error());
  self->plane_ = std::move(*plane);
  if (!self->adopted()) self->ledger_ = Ledger{};
  if (pinned && !self->adopted())
    self->start_warnings_.push_back(
        (pinned->layout != SPW_LAYOUT
             ? fmt::format("the existing data plane has layout {}, and this spillwayd's is {}",
                           pinned->layout, SPW_LAYOUT)
             : "the existing data plane is incomplete, or does not match its saved state") +
        ": it was replaced, and flows that had entries in it are placed anew");
  self->ledger_.maps = self->plane_->meta().birth;
  if (!SameSeed(self->plane_->meta().seed, *seed))
    self->start_warnings_.push_back(
        fmt::format("{} holds a seed other than the adopted data plane's, which keeps its own for existing "
                    "flows: to change it, stop spillwayd, run spillwayd --remove, and start it",
                    seed_path));

  self->LoadHeardReports();
  Result<std::unique_ptr<Neighbours>> neighbours = Neighbours::Open();
  Result<ApplyReport> applied = [&]() -> Result<ApplyReport> {
    if (!neighbours) return tl::make_unexpected(neighbours.error());
    self->neighbours_ = std::move(*neighbours);
    return self->Apply(config);
  }();
  if (!applied) {
    if (!self->adopted()) (void)self->Remove();
    return tl::make_unexpected(applied.error());
  }
  self->AwaitNextHops();
  self->CheckDevices();
  for (std::string& note : applied->notes) self->start_warnings_.push_back(std::move(note));
  return self;
}

void LiveSwitch::CheckDevices() {
  if (!plane_->uncounted().empty())
    start_warnings_.push_back("packets that drivers lose after the switch sent them are not counted: " +
                              plane_->uncounted());
  const auto warn = [this](std::vector<std::string> problems) {
    for (std::string& problem : problems) start_warnings_.push_back(std::move(problem));
  };
  std::set<uint32_t> ways_in;
  for (const InterfaceView& view : plane_->interfaces()) {
    ways_in.insert(static_cast<uint32_t>(view.ifindex));
    if (!view.native) continue;
    if (const auto device = ReadDevice(view.name)) warn(IngressProblems(*device));
  }
  std::set<uint32_t> ways_out;  // that some packets are redirected to
  for (const auto& [unit, hop] : hops_)
    if (ways_in != std::set<uint32_t>{hop.ifindex}) ways_out.insert(hop.ifindex);
  // Replies leave towards their clients, by any interface.
  const auto& services = plan_.config.services;
  const auto rewrites_of = [&services](int family) {
    return std::any_of(services.begin(), services.end(), [family](const model::Service& service) {
      return service.mode == SPW_MODE_NAT && service.vip.family == family;
    });
  };
  const bool v4 = rewrites_of(4), v6 = rewrites_of(6), rewrites = v4 || v6;
  std::set<uint32_t> replies;  // that come in where the way out to their units leads
  for (const auto& [unit, hop] : hops_) replies.insert(hop.ifindex);
  for (const InterfaceView& view : plane_->interfaces())
    if (replies.count(static_cast<uint32_t>(view.ifindex)) > 0)
      if (const auto device = ReadDevice(view.name)) warn(ReplyProblems(*device, v4, v6));
  for (const InterfaceView& from : plane_->interfaces())
    for (const InterfaceView& to : plane_->interfaces())
      if (rewrites && from.native && from.ifindex != to.ifindex)
        ways_out.insert(static_cast<uint32_t>(to.ifindex));
  char name[IF_NAMESIZE];
  for (const uint32_t ifindex : ways_out)
    if (if_indextoname(ifindex, name) != nullptr)
      if (const auto device = ReadDevice(name)) warn(EgressProblems(*device));
}

Result<ApplyReport> LiveSwitch::Check(const model::Config& config) const {
  const auto& attached = plan_.config.data_plane.interfaces;
  for (const std::string& interface : config.data_plane.interfaces)
    if (auto index = InterfaceIndex(interface); !index && std::ranges::count(attached, interface) == 0)
      return tl::make_unexpected(index.error());
  Ledger ledger = ledger_;
  Result<Plan> plan = PlanOf(config, ledger);
  if (!plan) return tl::make_unexpected(plan.error());
  ApplyReport report;
  report.changes = model::Diff(plan_.config, config);
  report.notes = NotesOf(*plan, ledger, OwnAddresses());
  return report;
}

Result<ApplyReport> LiveSwitch::Apply(const model::Config& config) {
  Ledger ledger = ledger_;
  Result<Plan> plan = PlanOf(config, ledger);
  if (!plan) return tl::make_unexpected(plan.error());
  return Commit(std::move(*plan), std::move(ledger));
}

// At the start a file that differs is a warning only: flows must go on. Later it is a mistake in the edit.
Result<void> LiveSwitch::CheckSeedFile(const model::Config& config) const {
  const model::SwitchConfig& running = plan_.config.data_plane;
  const bool starts = running.interfaces.empty();  // nothing was applied yet
  if (starts || config.data_plane.seed_file == running.seed_file) return {};
  const std::string path = SeedPath(config, options_);
  const auto seed = model::ReadSeedFile(path);
  if (!seed) return tl::make_unexpected(SeedError(seed.error()));
  if (*seed && SameSeed(**seed, plane_->meta().seed)) return {};
  return Fail(
      ErrorCode::kBadInput,
      fmt::format("switch.seed_file: expected a file with the seed in use, by which flows are placed, got {} "
                  "{}: to change the seed, run spillwayd --remove and start afresh",
                  path, *seed ? "with another" : "which does not exist"));
}

Result<Plan> LiveSwitch::PlanOf(const model::Config& config, Ledger& ledger) const {
  if (Result<void> same = CheckSeedFile(config); !same) return tl::make_unexpected(same.error());
  uint32_t buckets = plane_->meta().flow_buckets;
  if (config.data_plane.flow_table_entries != uint64_t{buckets} * SPW_BUCKET_ENTRIES) {
    return Fail(
        ErrorCode::kBadInput,
        fmt::format("switch.flow_table.entries: {} while the running table has {}: its size is fixed; "
                    "run spillwayd --remove and start afresh",
                    config.data_plane.flow_table_entries, uint64_t{buckets} * SPW_BUCKET_ENTRIES));
  }
  return MakePlan(config, ledger, plane_->meta().ring_capacity);
}

// Everything that can fail comes first: lines planned, interfaces attached, ledger saved. Then units,
// rings and endpoints in an order in which each step finds what it points to. The ledger on disk is right for
// the maps at every moment, as this process may die at any: new rings are filled before it names them, codes
// and rings that are given up leave it when nothing in the maps names them any more.
Result<ApplyReport> LiveSwitch::Commit(Plan plan, Ledger ledger) {
  KeepOutages(plan);
  auto replies = PlanLines(plane_->replies, plan.replies, "replies");
  if (!replies) return tl::make_unexpected(replies.error());
  auto services = PlanLines(plane_->services, plan.services, "services");
  if (!services) return tl::make_unexpected(services.error());
  FillNewRings(plan);
  if (Result<void> saved = SaveLedger(BothOf(ledger_, ledger), LedgerPath(options_)); !saved) {
    return tl::make_unexpected(saved.error());
  }
  // Before a program runs by them: without limits, all entries would be old to it.
  plane_->SetFlowLimits(plan.flow_limits);
  const model::SwitchConfig& wanted = plan.config.data_plane;
  if (Result<void> attached = plane_->AttachTo(wanted.interfaces, wanted.attach); !attached) {
    (void)SaveLedger(ledger_, LedgerPath(options_));
    if (!plan_.services.empty()) plane_->SetFlowLimits(plan_.flow_limits);
    return tl::make_unexpected(attached.error());
  }
  // Before a code or a key of now becomes another's. In maps that were found running names have their codes.
  const Result<bool> muted = MuteForChange(plan);
  NoteHeard(plan_.servers.empty() ? plan : plan_);
  if (!muted) {
    for (const PlannedServer& server : plan_.servers) WriteKeyOf(plan_, server);
    return tl::make_unexpected(muted.error());
  }
  // The maps may forget it now: whoever is killed before the next save would take old reports again.
  if (*muted) WriteHeardReports();
  for (const PlannedServer& server : plan.servers) WriteKeyOf(plan, server);
  ApplyReport report;
  report.changes = model::Diff(plan_.config, plan.config);
  report.notes = NotesOf(plan, ledger, OwnAddresses());
  WriteServers(plan);
  WriteUnits(plan);
  RingTally tally = MoveKnownRings(plan);
  WriteLines(plane_->replies, *replies);
  WriteLines(plane_->services, *services);
  RetireUnits(plan);
  if (Result<void> saved = SaveLedger(ledger, LedgerPath(options_)); !saved)
    check_news_.push_back(
        {saved.error().message + "; removed names keep their codes until the file can be written"});
  for (const PlannedRing& ring : plan.rings) report.slots_total += ring.piece.slots;
  report.slots_moved = tally.changed;
  plan_ = std::move(plan);
  ledger_ = std::move(ledger);
  CountRings();
  UpdateEjections();
  health_.Look(plan_, &plane_->servers[0], &plane_->pools[0], NowBeat());  // of units as now written
  return report;
}

void LiveSwitch::Tick() {
  tick_count_++;
  health_.Look(plan_, &plane_->servers[0], &plane_->pools[0], NowBeat());
  uint32_t tick = NowTick();
  auto is_alive = [this](uint16_t unit) { return IsAlive(unit); };
  uint32_t entry_idle = spw_flow_limit(plan_.flow_limits, SPW_FLOW_OPEN);
  entry_idle = std::max(entry_idle, spw_flow_limit(plan_.flow_limits, SPW_FLOW_DATAGRAM));
  for (const PlannedRing& ring : plan_.rings) {
    const RingTally tally =
        SettleRing(&plane_->ring_slots[ring.piece.offset], ring.piece.slots, ring_moves_[ring.service], tick,
                   {ring.idle_ticks, entry_idle, plane_->displaced_tick()}, is_alive);
    slots_moved_[ring.service] = tally.moved;
  }
  uint32_t buckets = plane_->flow_table.size();
  sweeper_.Sweep({&plane_->flow_table[0], buckets, &plane_->flow_filter[0], plane_->flow_filter.size()},
                 std::max(kSweepAtLeast, buckets / kSweepParts), tick, plan_.flow_limits, is_alive);
  if (sweeper_.rounds() != rounds_seen_) {
    rounds_seen_ = sweeper_.rounds();
    last_round_ = std::chrono::steady_clock::now();
  }
  LookAtHops();
  if (tick_count_ % kFollowEvery == 0) FollowInterfaces();  // to which it could not be attached at once
  if (tick_count_ % kSaveHeardEvery == 0) SaveHeardReports();
}

std::vector<HealthNews> LiveSwitch::TakeHealthNews() {
  return health_.TakeNews(plan_, &plane_->servers[0], &plane_->pools[0], NowBeat());
}

bool LiveSwitch::IsAlive(uint16_t unit) const {
  return unit < plane_->units.size() && Load(plane_->units[unit].alive) != 0;
}

const PlannedUnit* LiveSwitch::FindUnit(const std::string& pool, const std::string& server,
                                        const std::string& unit) const {
  auto found = std::find_if(plan_.units.begin(), plan_.units.end(), [&](const PlannedUnit& u) {
    return u.pool == pool && u.server == server && u.unit == unit;
  });
  return found == plan_.units.end() ? nullptr : &*found;
}

Result<std::vector<std::string>> LiveSwitch::SetUnitStatus(const std::string& pool, const std::string& server,
                                                           const std::string& unit, spw_unit_status status) {
  std::string name = UnitName(pool, server, unit);
  if (FindUnit(pool, server, unit) == nullptr) return Fail(ErrorCode::kBadInput, "no unit " + name);
  if (status == SPW_UNIT_ABSENT) return Fail(ErrorCode::kBadInput, "status: expected up, draining or down");
  Ledger ledger = ledger_;
  if (status == StatusInFile(plan_.config, pool, server, unit))
    ledger.status.erase(name);
  else
    ledger.status[name] = status;
  Result<Plan> plan = MakePlan(plan_.config, ledger, plane_->meta().ring_capacity);
  if (!plan) return tl::make_unexpected(plan.error());
  return Commit(std::move(*plan), std::move(ledger)).map([this](const ApplyReport&) {
    return UnservedNotes(plan_);
  });
}

Result<void> LiveSwitch::ForgetReports(const std::string& pool, const std::string& server,
                                       const std::string& unit) {
  const PlannedUnit* found = FindUnit(pool, server, unit);
  if (found == nullptr) return Fail(ErrorCode::kBadInput, "no unit " + UnitName(pool, server, unit));
  uint32_t code = spw_unit_server(found->id);
  for (const PlannedServer& planned : plan_.servers) {
    if (planned.code != code || !planned.key) continue;
    const auto others = static_cast<uint8_t>(planned.units_mask & ~(1u << spw_unit_index(found->id)));
    if (plane_->Mute(code, planned.key, others)) {
      if (Result<void> ended = plane_->AwaitPrograms(); !ended) {
        NoteHeard(plan_);
        WriteKeyOf(plan_, planned);
        return ended;
      }
    }
    for (const std::string& name : {UnitName(pool, server, unit), WireName(found->id)})
      heard_[name].Forget(KeyTag(spw_siphash_key_of(planned.key->data())));
    WriteKeyOf(plan_, planned);
    SaveHeardReports();
  }
  return {};
}

LiveSwitch::~LiveSwitch() {
  if (plane_) SaveHeardReports();
}

Result<void> LiveSwitch::Remove() {
  std::vector<InterfaceView> views = plane_->interfaces();
  for (const InterfaceView& view : views) (void)plane_->Detach(view.name);
  std::error_code ignored;
  fs::remove(LedgerPath(options_), ignored);
  return RemovePins(options_);
}

}  // namespace spillway::switching
