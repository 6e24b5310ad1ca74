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
#include <vector>

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

}  // namespace spillway::lab
