// SPDX-License-Identifier: Apache-2.0
// The loaded BPF program, its pinned maps and its attachments. Knows nothing of pools.
//
//   /sys/fs/bpf/spillway/<instance>/<map>        the maps
//                                  /link-<dev>   the program on an interface
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bpf/switch.h"
#include "mapped_array.h"
#include "model/pool.h"
#include "program_barrier.h"
#include "redirect_watch.h"
#include "switch.h"

struct switch_bpf;

namespace spillway::switching {

struct Sizes {
  uint32_t flow_buckets = 0;   // power of two
  uint32_t ring_capacity = 0;  // slots
  uint32_t reply_lines = 0;    // power of two
};

// Sets what the program and its maps must know before they are loaded: for whoever loads it.
void SetSizes(switch_bpf* skeleton, const Sizes& sizes, const spw_seed& seed);

// Errors: kBadInput, no such interface.
[[nodiscard]] Result<unsigned> InterfaceIndex(const std::string& interface);

// Pin folder of an instance. Links' pins begin with kLinkPin, the interface's name follows.
std::string PinFolder(const Options& options);
inline constexpr char kLinkPin[] = "link-";

// Mounts the BPF file system at options.bpffs, a folder that exists, unless it is there. Errors:
// kBadInput, kSystem.
[[nodiscard]] Result<void> EnsureBpfFs(const Options& options);

// Removes the pins, and with them the programs. No error if there are none.
[[nodiscard]] Result<void> RemovePins(const Options& options);

// Of pinned maps, whatever their layout; nullopt: there are none. Of another layout than this build's only
// `layout` and `seed` mean something.
std::optional<spw_meta> PinnedMeta(const Options& options);

class DataPlane {
 public:
  // Adopts the pinned maps, their sizes and seed included, if `adopt` and they have this layout; else creates
  // new ones of `sizes` and `seed`, and pins them in their place once the program is loaded: what forwards is
  // not given up for one that the kernel refuses. The program is this build's in both cases.
  [[nodiscard]] static Result<std::unique_ptr<DataPlane>> Open(const Options& options, const Sizes& sizes,
                                                               const spw_seed& seed, bool adopt);
  ~DataPlane();

  bool adopted() const { return adopted_; }
  const spw_meta& meta() const { return meta_; }
  int program_fd() const;

  // Attaches to all of these interfaces, or swaps the program where an attachment is adopted, and then
  // detaches from all others, those of an earlier run included. Where an attachment has another mode it is
  // made anew: for that moment packets pass by the program. On error packets are treated as before: what
  // this call attached is detached, what was adopted stays, what was made anew gets its mode back.
  [[nodiscard]] Result<void> AttachTo(const std::vector<std::string>& interfaces, model::AttachMode mode);
  // Attaches anew to interfaces that were removed and made again, those where it failed before included. What
  // is new of them, in words.
  std::vector<std::string> FollowInterfaces(model::AttachMode mode);
  [[nodiscard]] Result<void> Detach(const std::string& interface);
  const std::vector<InterfaceView>& interfaces() const { return interfaces_; }

  // Keys of servers and what was heard of their units. What a unit may report under is changed in three
  // steps, so that a report which the program is accepting at that moment counts for the key that sealed it:
  //
  //   Mute the units ──► AwaitPrograms ──► (ReadHeard) ──► WriteKey
  //
  // Takes the right to report from those units that have it and shall not have it further with this key.
  // True: some had.
  bool Mute(uint32_t server, const std::optional<model::Key>& key, uint8_t units);
  // Until every packet that the program met before this call is done. Errors: kSystem.
  [[nodiscard]] Result<void> AwaitPrograms();
  using Seen = std::array<spw_report_seen, SPW_UNITS_PER_SERVER>;
  // Lets these units report; those that could not before go on from `heard`.
  void WriteKey(uint32_t server, const std::optional<model::Key>& key, uint8_t units, const Seen& heard);
  struct Heard {
    uint64_t key_tag = 0;  // of the key under which it was heard
    Seen seen{};
  };
  Heard ReadHeard(uint32_t server) const;
  // Why packets that drivers lose are not counted; empty: they are.
  const std::string& uncounted() const { return uncounted_; }

  void SetFlowLimits(spw_flow_limits limits);
  // Last tick in which an unproven flow lost its entry to another; 0: never, since the program was loaded.
  uint32_t displaced_tick() const;

  spw_counters ReadCounters() const;
  spw_traffic ReadUnitTraffic(uint16_t unit) const { return ReadTraffic(unit_traffic_fd_, unit); }
  spw_traffic ReadServiceTraffic(uint32_t service) const { return ReadTraffic(service_traffic_fd_, service); }

  MappedArray<spw_endpoint> services, replies;
  MappedArray<spw_ring_slot> ring_slots;
  MappedArray<spw_unit> units;
  MappedArray<spw_server> servers;
  MappedArray<spw_pool> pools;
  MappedArray<spw_bucket> flow_table;
  MappedArray<spw_filter_word> flow_filter;
  MappedArray<spw_server_key> server_keys;

 private:
  DataPlane(Options options) : options_(std::move(options)) {}
  [[nodiscard]] Result<bool> FindPinned();
  [[nodiscard]] Result<void> Load();
  [[nodiscard]] Result<void> PinMaps();
  [[nodiscard]] Result<void> MapArrays();
  spw_traffic ReadTraffic(int fd, uint32_t key) const;

  [[nodiscard]] Result<bool> Attach(const std::string& interface, model::AttachMode mode);
  [[nodiscard]] Result<bool> AttachAnew(const std::string& interface, model::AttachMode mode);
  void AttachAsBefore(const InterfaceView& before);
  [[nodiscard]] Result<void> DetachFromOthers(const std::vector<std::string>& interfaces);
  void WatchRedirects();
  struct Attachment {
    std::string interface;
    int link_fd = -1;
  };

  Options options_;
  switch_bpf* skeleton_ = nullptr;
  spw_meta meta_{};
  bool adopted_ = false;
  int unit_traffic_fd_ = -1, service_traffic_fd_ = -1;
  std::optional<ProgramBarrier> barrier_;
  std::vector<InterfaceView> interfaces_;
  std::vector<Attachment> attachments_;
  std::unique_ptr<RedirectWatch> redirects_;
  std::string uncounted_;
};

}  // namespace spillway::switching
