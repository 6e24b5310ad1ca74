// SPDX-License-Identifier: Apache-2.0
#include "data_plane.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "base/system_error.h"
#include "clock.h"
#include "heard_file.h"
#include "program_barrier.h"
#include "switch.skel.h"

namespace spillway::switching {
namespace {

namespace fs = std::filesystem;

bool IsBpfFs(const std::string& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 && info.f_type == BPF_FS_MAGIC;
}

// Pin names are the map names; .data/.rodata belong to one program and are not pinned.
std::vector<bpf_map*> PinnedMaps(const switch_bpf* skeleton) {
  return {skeleton->maps.meta,        skeleton->maps.services,     skeleton->maps.replies,
          skeleton->maps.ring_slots,  skeleton->maps.units,        skeleton->maps.servers,
          skeleton->maps.pools,       skeleton->maps.server_keys,  skeleton->maps.flow_table,
          skeleton->maps.flow_filter, skeleton->maps.half_open,    skeleton->maps.refused,
          skeleton->maps.counters,    skeleton->maps.unit_traffic, skeleton->maps.service_traffic};
}

// libbpf's own words are for developers; our errors name operation, object and errno.
int Silence(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_WARN && getenv("SPILLWAY_LIBBPF_LOG") != nullptr)
    return vfprintf(stderr, format, arguments);
  return 0;
}

constexpr uint32_t kFillTicks = 64;          // that a flood needs at least to fill the flow table
constexpr uint32_t kMinInsertBudget = 4096;  // entries a tick

}  // namespace

void SetSizes(switch_bpf* skeleton, const Sizes& sizes, const spw_seed& seed) {
  const uint32_t filter_words = spw_filter_words(sizes.flow_buckets);
  // No-ops, and refused, for maps that were adopted: they have these sizes.
  (void)bpf_map__set_max_entries(skeleton->maps.flow_table, sizes.flow_buckets);
  (void)bpf_map__set_max_entries(skeleton->maps.flow_filter, filter_words);
  (void)bpf_map__set_max_entries(skeleton->maps.ring_slots, sizes.ring_capacity);
  (void)bpf_map__set_max_entries(skeleton->maps.replies, sizes.reply_lines);
  auto set = [](const volatile __u32& constant, uint32_t value) { const_cast<__u32&>(constant) = value; };
  std::memcpy(const_cast<spw_seed*>(&skeleton->rodata->hash_seed), &seed, sizeof(seed));
  set(skeleton->rodata->flow_bucket_mask, sizes.flow_buckets - 1);
  set(skeleton->rodata->flow_filter_mask, filter_words - 1);
  set(skeleton->rodata->reply_line_mask, sizes.reply_lines - 1);
  set(skeleton->rodata->flow_insert_budget,
      std::max(kMinInsertBudget, sizes.flow_buckets * SPW_BUCKET_ENTRIES / kFillTicks));
}

std::string PinFolder(const Options& options) { return options.bpffs + "/spillway/" + options.instance; }

Result<void> EnsureBpfFs(const Options& options) {
  if (IsBpfFs(options.bpffs)) return {};
  if (std::error_code error; !fs::is_directory(options.bpffs, error))
    return Fail(ErrorCode::kBadInput, fmt::format("--bpffs {}: expected a folder", options.bpffs));
  if (mount("bpf", options.bpffs.c_str(), "bpf", 0, "mode=0700") != 0) {
    return FailSystem("mount of the BPF file system at " + options.bpffs, errno);
  }
  return {};
}

Result<void> RemovePins(const Options& options) {
  std::error_code error;
  for (const auto& pin : fs::directory_iterator(PinFolder(options), error))
    if (pin.path().filename().string().starts_with(kLinkPin)) DetachPinnedLink(pin.path().c_str());
  fs::remove_all(PinFolder(options), error);
  if (error) return FailSystem("removal of " + PinFolder(options), error.value());
  fs::remove(options.bpffs + "/spillway", error);  // only if no other instance is there
  return {};
}

// What of the pinned `meta` every layout has in common.
std::optional<spw_meta> PinnedMeta(const Options& options) {
  const int fd = bpf_obj_get((PinFolder(options) + "/meta").c_str());
  if (fd < 0) return std::nullopt;
  std::array<char, 1024> value{};  // of an unknown layout
  bpf_map_info info{};
  uint32_t zero = 0, size = sizeof(info);
  const bool read = bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && info.value_size <= value.size() &&
                    info.value_size >= offsetof(spw_meta, birth) &&
                    bpf_map_lookup_elem(fd, &zero, value.data()) == 0;
  close(fd);
  if (!read) return std::nullopt;
  spw_meta meta{};
  std::memcpy(&meta, value.data(), std::min<size_t>(info.value_size, sizeof(meta)));
  return meta;
}

Result<std::unique_ptr<DataPlane>> DataPlane::Open(const Options& options, const Sizes& sizes,
                                                   const spw_seed& seed, bool adopt) {
  libbpf_set_print(Silence);
  std::unique_ptr<DataPlane> plane(new DataPlane(options));
  plane->skeleton_ = switch_bpf__open();
  if (plane->skeleton_ == nullptr) return FailSystem("opening the BPF object", errno);
  if (adopt) {
    Result<bool> found = plane->FindPinned();
    if (!found) return tl::make_unexpected(found.error());
    plane->adopted_ = *found;
  }
  if (!plane->adopted_) {
    plane->meta_ = {};
    plane->meta_.layout = SPW_LAYOUT;
    plane->meta_.flow_buckets = sizes.flow_buckets;
    plane->meta_.ring_capacity = sizes.ring_capacity;
    plane->meta_.reply_lines = sizes.reply_lines;
    plane->meta_.seed = seed;
    if (getrandom(&plane->meta_.birth, sizeof(plane->meta_.birth), 0) != sizeof(plane->meta_.birth)) {
      return FailSystem("getrandom", errno);
    }
  }
  if (Result<void> loaded = plane->Load(); !loaded) return tl::make_unexpected(loaded.error());
  if (!plane->adopted_) {
    if (Result<void> removed = RemovePins(options); !removed) return tl::make_unexpected(removed.error());
    if (Result<void> pinned = plane->PinMaps(); !pinned) {
      (void)RemovePins(options);
      return tl::make_unexpected(pinned.error());
    }
  }
  if (Result<void> mapped = plane->MapArrays(); !mapped) return tl::make_unexpected(mapped.error());
  auto barrier = ProgramBarrier::Make();
  if (!barrier) return tl::make_unexpected(barrier.error());
  plane->barrier_ = std::move(*barrier);
  auto redirects = RedirectWatch::Open(bpf_map__fd(plane->skeleton_->maps.counters), plane->program_fd());
  if (redirects)
    plane->redirects_ = std::move(*redirects);
  else
    plane->uncounted_ = redirects.error().message;
  return plane;
}

DataPlane::~DataPlane() {
  for (const Attachment& attachment : attachments_) close(attachment.link_fd);
  switch_bpf__destroy(skeleton_);
}

int DataPlane::program_fd() const { return bpf_program__fd(skeleton_->progs.spillway_switch); }

Result<bool> DataPlane::FindPinned() {
  const std::optional<spw_meta> meta = PinnedMeta(options_);
  // Another layout: its flows cannot be carried over, so the data plane starts afresh.
  if (!meta || meta->layout != SPW_LAYOUT) return false;
  const auto path_of = [&](const bpf_map* map) { return PinFolder(options_) + "/" + bpf_map__name(map); };
  const std::vector<bpf_map*> maps = PinnedMaps(skeleton_);
  if (!std::all_of(maps.begin(), maps.end(),
                   [&](const bpf_map* map) { return access(path_of(map).c_str(), F_OK) == 0; }))
    return false;
  meta_ = *meta;
  for (bpf_map* map : maps) {
    int pinned = bpf_obj_get(path_of(map).c_str());
    int error = pinned < 0 ? -errno : bpf_map__reuse_fd(map, pinned);
    if (pinned >= 0) close(pinned);
    if (error != 0) return FailSystem(fmt::format("adopting map {}", bpf_map__name(map)), -error);
  }
  return true;
}

Result<void> DataPlane::Load() {
  SetSizes(skeleton_, {meta_.flow_buckets, meta_.ring_capacity, meta_.reply_lines}, meta_.seed);
  if (int error = switch_bpf__load(skeleton_); error != 0) {
    return FailSystem("loading the BPF program (needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and Linux 6.1)",
                      -error);
  }
  // Adopted tables may be full, and what the program before this one displaced is not known.
  skeleton_->bss->pressure.pressed_tick = NowTick();
  if (adopted_) skeleton_->bss->pressure.displaced_tick = NowTick();
  unit_traffic_fd_ = bpf_map__fd(skeleton_->maps.unit_traffic);
  service_traffic_fd_ = bpf_map__fd(skeleton_->maps.service_traffic);
  return {};
}

Result<void> DataPlane::PinMaps() {
  std::error_code error;
  fs::create_directories(PinFolder(options_), error);
  if (error) return FailSystem("creating " + PinFolder(options_), error.value());
  // `meta` comes last: a folder without it is half-made and is not adopted.
  std::vector<bpf_map*> maps = PinnedMaps(skeleton_);
  uint32_t zero = 0;
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.meta), &zero, &meta_, BPF_ANY) != 0) {
    return FailSystem("writing map meta", errno);
  }
  for (size_t i = maps.size(); i-- > 0;) {
    std::string path = PinFolder(options_) + "/" + bpf_map__name(maps[i]);
    if (int failed = bpf_map__pin(maps[i], path.c_str()); failed != 0) {
      return FailSystem("pinning " + path, -failed);
    }
  }
  return {};
}

Result<void> DataPlane::MapArrays() {
  auto map_one = [](auto& array, bpf_map* map) -> Result<void> {
    using Array = std::remove_reference_t<decltype(array)>;
    Result<Array> mapped = Array::Map(bpf_map__fd(map), bpf_map__max_entries(map), bpf_map__name(map));
    if (!mapped) return tl::make_unexpected(mapped.error());
    array = std::move(*mapped);
    return {};
  };
  return map_one(services, skeleton_->maps.services)
      .and_then([&] { return map_one(replies, skeleton_->maps.replies); })
      .and_then([&] { return map_one(ring_slots, skeleton_->maps.ring_slots); })
      .and_then([&] { return map_one(units, skeleton_->maps.units); })
      .and_then([&] { return map_one(servers, skeleton_->maps.servers); })
      .and_then([&] { return map_one(pools, skeleton_->maps.pools); })
      .and_then([&] { return map_one(flow_table, skeleton_->maps.flow_table); })
      .and_then([&] { return map_one(flow_filter, skeleton_->maps.flow_filter); })
      .and_then([&] { return map_one(server_keys, skeleton_->maps.server_keys); });
}

Result<void> DataPlane::AwaitPrograms() { return barrier_->Await(); }

namespace {

spw_siphash_key WordsOf(const std::optional<model::Key>& key) {
  return key ? spw_siphash_key_of(key->data()) : spw_siphash_key{};
}

bool SameKey(const spw_siphash_key& a, const spw_siphash_key& b) { return a.k0 == b.k0 && a.k1 == b.k1; }

}  // namespace

bool DataPlane::Mute(uint32_t server, const std::optional<model::Key>& key, uint8_t units) {
  spw_server_key& entry = server_keys[server];
  const __u8 may = switching::Load(entry.configured);
  const __u8 keep = key && SameKey(entry.key, WordsOf(key)) ? may & units : __u8{0};
  if (keep != may) Store(entry.configured, keep);
  return keep != may;
}

void DataPlane::WriteKey(uint32_t server, const std::optional<model::Key>& key, uint8_t units,
                         const Seen& heard) {
  spw_server_key& entry = server_keys[server];
  const __u8 wanted = key ? units : __u8{0}, may = switching::Load(entry.configured);
  if (may == 0 && !SameKey(entry.key, WordsOf(key))) {
    // In this order: whoever is killed here leaves no number of the old key beside the new one.
    PutBytes(entry.seen, Seen{}.data(), sizeof(entry.seen));
    std::atomic_signal_fence(std::memory_order_seq_cst);
    Put(entry.key, WordsOf(key));
  }
  // What a unit that may report was heard with is the program's to write.
  for (size_t u = 0; u < SPW_UNITS_PER_SERVER; u++)
    if ((may >> u & 1) == 0) Put(entry.seen[u], (wanted >> u & 1) != 0 ? heard[u] : spw_report_seen{});
  Store(entry.configured, wanted);
}

DataPlane::Heard DataPlane::ReadHeard(uint32_t server) const {
  const spw_server_key& entry = server_keys[server];
  Heard heard{KeyTag(entry.key), {}};
  std::copy(std::begin(entry.seen), std::end(entry.seen), heard.seen.begin());
  return heard;
}

void DataPlane::SetFlowLimits(spw_flow_limits limits) { Store(skeleton_->bss->flow_limits, limits); }

uint32_t DataPlane::displaced_tick() const {
  return switching::Load(skeleton_->bss->pressure.displaced_tick);
}

spw_counters DataPlane::ReadCounters() const {
  spw_counters sum{};
  std::vector<spw_counters> each(static_cast<size_t>(libbpf_num_possible_cpus()));
  uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.counters), &zero, each.data()) != 0) return sum;
  for (const spw_counters& one : each) {
#define SPW_ADD(field, help) sum.field += one.field;
    SPW_COUNTERS(SPW_ADD)
#undef SPW_ADD
  }
  return sum;
}

spw_traffic DataPlane::ReadTraffic(int fd, uint32_t key) const {
  spw_traffic sum{};
  std::vector<spw_traffic> each(static_cast<size_t>(libbpf_num_possible_cpus()));
  if (bpf_map_lookup_elem(fd, &key, each.data()) != 0) return sum;
  for (const spw_traffic& one : each) {
    sum.packets += one.packets;
    sum.bytes += one.bytes;
    sum.new_flows += one.new_flows;
  }
  return sum;
}

}  // namespace spillway::switching
