// SPDX-License-Identifier: Apache-2.0
// What runs on this host, in a folder (`state`): of each instance a file of what it is and which process it
// has (by pid, start time and boot), its executor's configuration, its log and the log's last word. One
// program at a time has the folder. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/fd.h"
#include "node/child.h"
#include "scheduler/controller/node_plan.h"

namespace spillway::node {

struct Record {
  scheduler::HostInstance has;
  ProcessId process;
  bool slice_refused = false;
  std::string why = {};   // it failed, or will have once it has ended
  std::string mark = {};  // what its slice is known by: Slices::Make's, or that it is being made or ended
};

class InstanceBook {
 public:
  static constexpr uint64_t kMaxLogBytes = 8 << 20;
  static constexpr size_t kKeptBytes = 64 << 10, kMostKept = 64;
  // kConflict: another node agent has the folder.
  [[nodiscard]] static Result<InstanceBook> Open(const std::string& folder);

  // All that is written there. What is no record is set aside (FILE.bad), with a warning, and the instance of
  // that name has failed; an executor that it still has is to end first.
  [[nodiscard]] Result<std::map<uint64_t, Record>> Read() const;
  // `is_durable`: it outlives not only this program, but a power cut as well.
  [[nodiscard]] Result<void> Write(const Record& record, bool is_durable = true) const;
  void Erase(uint64_t instance) const;
  [[nodiscard]] std::string ConfigOf(uint64_t instance) const { return PathOf(instance, "yaml"); }
  [[nodiscard]] std::string LogOf(uint64_t instance) const { return PathOf(instance, "log"); }
  // NAME=VALUE in the environment of what runs for it, and of all that this begins: no other instance has it.
  [[nodiscard]] std::string MarkOf(uint64_t instance) const {
    return "SPILLWAY_RECORD=" + identity_ + ":" + std::to_string(instance);
  }
  // The last line that it wrote, looked for in the log's last 4 KiB, and of it 300 bytes; empty: none.
  [[nodiscard]] std::string LastWord(uint64_t instance) const;
  // The end of the log of one that failed, as FOLDER/failed-MODEL.log, for whoever asks why. Of at most
  // kMostKept models: the oldest goes.
  void KeepLog(uint64_t instance, const std::string& model) const;
  // Empties the log once it is larger than kMaxLogBytes.
  void BoundLog(uint64_t instance) const;
  // One that no other folder has, for as long as this one is.
  [[nodiscard]] const std::string& identity() const { return identity_; }

 private:
  InstanceBook(std::string folder, base::Fd lock, std::string identity)
      : folder_(std::move(folder)), lock_(std::move(lock)), identity_(std::move(identity)) {}
  [[nodiscard]] std::string PathOf(uint64_t instance, const char* kind) const;

  std::string folder_;
  base::Fd lock_;
  std::string identity_;
};

}  // namespace spillway::node
