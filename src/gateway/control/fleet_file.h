// SPDX-License-Identifier: Apache-2.0
// The controller's state file (`controller.state`), whether it could be written, and the lock by which one
// gateway at a time has it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "scheduler/controller/fleet.h"

namespace spillway::gateway {

class FleetFile {
 public:
  // Takes the lock (PATH.lock) for as long as this lives. kConflict: another gateway has it.
  [[nodiscard]] static Result<FleetFile> Open(const std::string& path);

  // nullopt: there is no such file. kBadInput: "FILE: KEY: what was expected".
  [[nodiscard]] Result<std::optional<scheduler::Fleet>> Read() const;
  // Writes it, unless the file says that already; what goes on by itself as time passes (the clock,
  // GPU-hours, what requests take) is written every 10 s. Logs when the file cannot be written, once, and
  // tries again at the next call.
  void Save(const scheduler::Fleet& fleet);
  // Whether the last Save succeeded.
  [[nodiscard]] bool is_saved() const { return is_saved_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  FleetFile(std::string path, base::Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  base::Fd lock_;
  scheduler::Fleet saved_;
  bool is_saved_ = false;
};

}  // namespace spillway::gateway
