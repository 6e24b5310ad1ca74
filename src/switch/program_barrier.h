// SPDX-License-Identifier: Apache-2.0
// Waits until no BPF program runs any more that was running when the wait began, on any CPU.
#pragma once

#include "base/error.h"
#include "base/fd.h"

namespace spillway::switching {

class ProgramBarrier {
 public:
  // Errors: kSystem, where the kernel gives no map (no CAP_BPF, no memory).
  [[nodiscard]] static Result<ProgramBarrier> Make();

  // Programs that start after the call see all that was written to maps before it. Takes milliseconds.
  [[nodiscard]] Result<void> Await();

 private:
  ProgramBarrier() = default;
  base::Fd map_, value_;
};

}  // namespace spillway::switching
