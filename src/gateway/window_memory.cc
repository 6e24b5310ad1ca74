// SPDX-License-Identifier: Apache-2.0
#include "gateway/window_memory.h"

#include <utility>

namespace spillway::gateway {
namespace {

constexpr uint64_t kNoTicket = 0;  // what is to be freed is not forgotten

struct Part {
  Broker& broker;
  WindowMemory::Post post;
  uint64_t bytes;
  uint32_t tenant;
  ~Part() {
    post([&of = broker, bytes = bytes, tenant = tenant] { of.ReleaseWindow(bytes, tenant); });
  }
};

}  // namespace

WindowMemory::WindowMemory(Broker& broker, size_t most_ended, Post post)
    : broker_(broker), most_ended_(most_ended), post_(std::move(post)), freer_(1, [] {}) {}

Result<WindowMemory::Held> WindowMemory::Hold(uint64_t bytes, uint32_t tenant) {
  if (const auto held = broker_.HoldWindow(bytes, tenant); !held) return tl::make_unexpected(held.error());
  return std::shared_ptr<const Part>(new Part{broker_, post_, bytes, tenant});
}

// What follows from a job goes the way of the parts that are given back, behind them.
void WindowMemory::Free(std::shared_ptr<void> memory, Held held) {
  ended_++;
  freer_.Ask(kNoTicket, [this, memory = std::move(memory), held = std::move(held)]() mutable -> Aside::Then {
    memory.reset();
    held.reset();
    post_([this] { ended_--; });
    return {};
  });
}

void WindowMemory::WhenFreed(std::function<void()> then) {
  freer_.Ask(kNoTicket, [this, then = std::move(then)]() mutable -> Aside::Then {
    post_(std::move(then));
    return {};
  });
}

}  // namespace spillway::gateway
