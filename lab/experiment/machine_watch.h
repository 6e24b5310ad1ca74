// SPDX-License-Identifier: Apache-2.0
// Whether the machine kept a testbed's CPUs from running while something was measured. On each of them a
// thread sleeps to an absolute deadline every millisecond, before all ordinary work (SCHED_FIFO) where that
// is permitted, and counts the times that it woke late; beside that, the time that a hypervisor took (steal
// in /proc/stat). What the testbed itself does, and other programs of ordinary priority, does not delay these
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway::lab {

struct Disturbance {
  uint64_t late_wakes = 0;  // later than kLateWakeMs
  double worst_ms = 0;      // the latest of all
  double stolen_pct = 0;    // of their time

  static constexpr double kLateWakeMs = 3;
  // Three of the kernel's ticks in a slice of 1.5 s on two CPUs; what matters more in one place delays a
  // wake-up.
  static constexpr double kMaxStolenPct = 1;
  [[nodiscard]] bool disturbed() const { return late_wakes > 0 || stolen_pct > kMaxStolenPct; }
};

// Time of these CPUs since boot, in the kernel's ticks, from /proc/stat. Zeros if it has none of them.
struct CpuTicks {
  uint64_t total = 0, stolen = 0;
};
[[nodiscard]] CpuTicks ParseCpuTicks(std::string_view proc_stat, const std::vector<int>& cpus);

// Of a testbed whose client and units are pinned: their CPUs, so that on a machine of many others' bad
// moments do not count. Empty, all CPUs, where one of them may run anywhere.
[[nodiscard]] std::vector<int> CpusToWatch(const std::vector<int>& client, const std::vector<int>& units);

// The threads run from construction to destruction. One user at a time.
class MachineWatch {
 public:
  // Empty: all CPUs that this program may use.
  explicit MachineWatch(std::vector<int> cpus);
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  void Begin();
  // What happened since Begin.
  [[nodiscard]] Disturbance End();
  // False: without SCHED_FIFO, so that the testbed's own work delays the threads too.
  [[nodiscard]] bool realtime() const;

 private:
  struct Threads;
  std::vector<int> cpus_;
  std::unique_ptr<Threads> threads_;
  CpuTicks began_;
};

// What the machine disturbed is played again so many times, then kept.
inline constexpr int kMaxReplays = 2;

template <typename T>
struct Played {
  T result;
  Disturbance disturbance;  // of the machine, as it was last played
  int replays = 0;
};

// Makes ready (unwatched) and plays, and again both while the machine disturbed the play. watch: a
// MachineWatch. ready: Result<void>(). play: Result<T>(). Errors: of those two, at once.
template <typename Watch, typename Ready, typename Play>
auto PlayUndisturbed(Watch& watch, const Ready& ready, const Play& play)
    -> Result<Played<typename std::invoke_result_t<const Play&>::value_type>> {
  for (int replays = 0;; replays++) {
    if (auto is_ready = ready(); !is_ready) return tl::make_unexpected(is_ready.error());
    watch.Begin();
    auto result = play();
    const Disturbance disturbance = watch.End();
    if (!result) return tl::make_unexpected(result.error());
    if (!disturbance.disturbed() || replays == kMaxReplays)
      return Played<typename std::invoke_result_t<const Play&>::value_type>{std::move(*result), disturbance,
                                                                            replays};
  }
}

}  // namespace spillway::lab
