// SPDX-License-Identifier: Apache-2.0
// Child processes in a namespace, a control group and on chosen CPUs; and processes known by (pid, start
// time), so that a reused pid is never taken for one of ours. Start() is to be called from the program's
// main thread: a tied child dies with the thread that started it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace spillway::lab {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start = 0;  // field 22 of /proc/PID/stat: clock ticks since boot
  bool operator==(const ProcessId&) const = default;
};

// nullopt-like {0, 0} when there is no such process.
ProcessId Identify(pid_t pid);
bool IsAlive(const ProcessId& id);  // a zombie is not
// SIGTERM, up to `patience`, then SIGKILL; reaps its own children.
void Stop(const std::vector<ProcessId>& ids, std::chrono::milliseconds patience);

struct StartOptions {
  std::vector<std::string> argv;          // argv[0] is looked up in PATH
  std::string netns;                      // a name under /run/netns, or a file; empty: ours
  std::vector<std::string> cgroup_procs;  // cgroup.procs files, of a hierarchy each; empty: ours
  std::vector<int> cpus;
  std::string stdout_file, stderr_file;  // truncated; empty: /dev/null. Equal names share one file
  bool tied = true;                      // SIGKILLed when this program ends, however it ends
};
[[nodiscard]] Result<ProcessId> Start(const StartOptions& options);

// Exit status (128 + signal if killed), polling `interrupted` (see signals.h) all the while: then the
// child is stopped and kSystem "interrupted" returned.
// With `heed_interrupt` false it waits on: for short work that a clean-up needs done.
[[nodiscard]] Result<int> Wait(const ProcessId& id, bool heed_interrupt = true);

// Runs to completion, ignoring interrupts; an exit other than 0 is kSystem, with the first line the
// program complained. `input` is put into a file whose name replaces the word "-" of argv.
[[nodiscard]] Result<void> Run(const std::vector<std::string>& argv, const std::string& input = "");

// Of what a process wrote into a file, the last line that is not empty.
std::string LastLine(const std::string& path);

// CPU time of the processes of a control group (its cgroup.procs file) so far, all threads. 0: none there.
std::chrono::nanoseconds CpuTime(const std::string& cgroup_procs);
// Of one process. 0: it is not there.
std::chrono::nanoseconds CpuTime(pid_t pid);

// Every process whose network namespace is /run/netns/NAME.
std::vector<ProcessId> ProcessesIn(const std::string& netns);

}  // namespace spillway::lab
