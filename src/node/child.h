// SPDX-License-Identifier: Apache-2.0
// Programs that run for the node agent and outlive it: begun so that none runs of which nobody knows, found
// again by number and start time, so that nobody else's program is taken for one. When they are
// told to end, and how hard: node_agent.cc. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace spillway::node {

struct ProcessId {
  int pid = 0;            // 0: none
  uint64_t start = 0;     // in clock ticks since `boot`
  std::string boot = {};  // of the machine
  bool operator==(const ProcessId&) const = default;
};

class Child {
 public:
  // Runs `words`, its output appended to `log`. The program begins only once `remember` has succeeded:
  // were this one killed between the two, nothing would have begun.
  [[nodiscard]] static Result<Child> Start(const std::vector<std::string>& words, const std::string& log,
                                           const std::function<Result<void>(const ProcessId&)>& remember);
  // The one that was remembered; nullopt: it has ended.
  [[nodiscard]] static std::optional<Child> Find(const ProcessId& id);
  // This user's process whose command line ends with `words`, of which nobody remembers more; its pid is 0 if
  // there is none.
  [[nodiscard]] static ProcessId IdOf(const std::vector<std::string>& words);

  [[nodiscard]] const ProcessId& id() const { return id_; }
  // How it ended ("exit code 1", "signal 9"; "it ended" of one that another program began); nullopt: it runs.
  [[nodiscard]] std::optional<std::string> Ended();
  void Signal(int number) const;
  // Readable once it has ended.
  [[nodiscard]] int fd() const { return handle_.get(); }

 private:
  Child(ProcessId id, base::Fd handle, bool is_ours)
      : id_(std::move(id)), handle_(std::move(handle)), is_ours_(is_ours) {}

  ProcessId id_;
  base::Fd handle_;  // of pidfd_open
  bool is_ours_;
};

}  // namespace spillway::node
