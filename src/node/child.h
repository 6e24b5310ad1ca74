// SPDX-License-Identifier: Apache-2.0
// Processes that run for the node agent and outlive it. None runs without being on record; the next node
// agent finds them by process id and start time, so that it takes no other process for one. When they are
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
  struct Command {
    std::vector<std::string> words;
    std::vector<std::string> environment = {};  // NAME=VALUE each, beside this program's own
    std::string log;                            // to which its output is appended
  };
  // The program begins only once `remember` has succeeded: were this one killed between the two, nothing
  // would have begun.
  [[nodiscard]] static Result<Child> Start(const Command& command,
                                           const std::function<Result<void>(const ProcessId&)>& remember);
  // The one that was remembered; nullopt: it has ended.
  [[nodiscard]] static std::optional<Child> Find(const ProcessId& id);
  // Of this user's processes (of root: of all) those that were begun with that NAME=VALUE in their
  // environment, or are of the session that one of number `session` began, unless that runs (0: of none).
  // Which began a session of its own comes first.
  [[nodiscard]] static std::vector<Child> Marked(const std::string& variable, int session = 0);
  // Kills them, and waits a moment for their ends. How many are still there, or may be.
  static size_t KillMarked(const std::string& variable, int session = 0);

  [[nodiscard]] const ProcessId& id() const { return id_; }
  // How it ended ("exit code 1", "signal 9"; "it exited" of one that another program began); nullopt: it
  // runs.
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
