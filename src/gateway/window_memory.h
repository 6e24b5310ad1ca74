// SPDX-License-Identifier: Apache-2.0
// limits.windows, and the thread that frees what windows had of it. To free a gigabyte takes 0.2 s, for which
// the gateway's one thread would serve nobody; and what is not free yet is held all the same, so that whoever
// opens and ends windows without pause has no more memory than the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gateway/broker/broker.h"
#include "gateway/transport/aside.h"

namespace spillway::gateway {

class WindowMemory {
 public:
  // A window's part of the limit; given back once its last copy has gone, in whatever thread that is.
  using Held = std::shared_ptr<const void>;
  // Runs `work` on the broker's thread, in the order of calls. Called from any thread.
  using Post = std::function<void(std::function<void()> work)>;

  // The broker, and what `post` uses, outlive it and all that is held. `most_ended`: so many windows that are
  // not free yet are enough, however small they are: they have descriptors, too.
  WindowMemory(Broker& broker, size_t most_ended, Post post);

  // -- on the broker's thread
  // Errors: as Broker::HoldWindow's.
  [[nodiscard]] Result<Held> Hold(uint64_t bytes, uint32_t tenant);
  // The last that is to be done with the memory is its destructor, in another thread; then its part is given
  // back. No two at once, and in order; at the destruction what is left is freed, too.
  void Free(std::shared_ptr<void> memory, Held held);
  // Whether those that are to be opened should wait until others are free, if there is room or not.
  [[nodiscard]] bool IsBehind() const { return ended_ >= most_ended_; }
  // Calls `then` when all that was given to Free before is free, and given back.
  void WhenFreed(std::function<void()> then);

 private:
  Broker& broker_;
  const size_t most_ended_;
  Post post_;
  size_t ended_ = 0;  // and not free
  Aside freer_;
};

}  // namespace spillway::gateway
