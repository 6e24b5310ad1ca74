// SPDX-License-Identifier: Apache-2.0
// One descriptor to sleep on for two things: another descriptor's news, and our own ring.
#pragma once

#include "base/fd.h"
#include "gateway/transport/shared_memory.h"

namespace spillway::gateway {

class Bell {
 public:
  // `other` outlives it. Errors: kSystem.
  [[nodiscard]] static Result<Bell> Make(int other);

  // Readable while the other descriptor is, or after Ring until Hush.
  [[nodiscard]] int fd() const { return both_.get(); }
  void Ring() const;  // from any thread
  void Hush() const;

 private:
  base::Fd ring_, both_;
};

}  // namespace spillway::gateway
