// SPDX-License-Identifier: Apache-2.0
// Lock of an instance: held by the process that runs it, released by the kernel when it dies. Two locks in
// one: of a folder in the BPF file system, where the pins are, so that nobody else works on them whatever his
// run directory; and of a file in the run directory, where ledger and sockets are.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "switch.h"

namespace spillway::switching {

class InstanceLock {
 public:
  // The BPF file system is mounted. Errors: kConflict when another process has it, which is named as far as
  // it can be told; kUnavailable; kSystem.
  [[nodiscard]] static Result<std::unique_ptr<InstanceLock>> Take(const Options& options);
  ~InstanceLock();

 private:
  InstanceLock(std::string pin_folder, int pins_fd, int run_fd)
      : pin_folder_(std::move(pin_folder)), pins_fd_(pins_fd), run_fd_(run_fd) {}

  std::string pin_folder_;
  int pins_fd_, run_fd_;
};

}  // namespace spillway::switching
