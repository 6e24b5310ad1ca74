// SPDX-License-Identifier: Apache-2.0
// A domain with an atomic queue, a worker, and windows of 64 slots a ring.
#pragma once

#include <cstring>

#include "dispatch/remote_producer.h"
#include "dispatch/window.h"
#include "domain_bed.h"

namespace spillway::dispatch {

class WindowBed : public DomainBed {
 protected:
  void SetUp() override {
    DomainOptions options;
    options.credits = 4096;
    Open(options);
    queue_ = AddQueue(Kind::kAtomic);
    worker_ = AddPort({queue_}, true);
  }
  std::shared_ptr<Window> OpenWindow(uint32_t rings = 1, uint16_t priorities = 1) {
    WindowOptions options;
    options.queue = queue_;
    options.rings = rings;
    options.slots = 64;
    options.priorities = priorities;
    auto opened = domain_->OpenWindow(options);
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  static std::unique_ptr<RemoteProducer> Map(const Window& window, uint32_t ring = 0) {
    auto mapped = RemoteProducer::Map(window.Fd(), ring);
    EXPECT_TRUE(mapped) << mapped.error().message;
    return std::move(*mapped);
  }
  static size_t PutRemote(RemoteProducer& producer, uint32_t flow, uint64_t user, uint8_t priority = 0) {
    const Event event = MakeEvent(99, flow, user, priority);
    return producer.Enqueue({&event, 1});
  }
  static WindowWords& WordsOf(const Window& window) { return *static_cast<WindowWords*>(window.memory()); }
  // Writes a slot as a producer without manners would.
  static void Scribble(const Window& window, size_t at, uint64_t meta) {
    Slot* slots = reinterpret_cast<Slot*>(static_cast<char*>(window.memory()) + kWindowRingsOffset);
    slots[at].meta.store(meta);
  }
  uint16_t queue_ = 0;
  std::unique_ptr<Port> worker_;
};

}  // namespace spillway::dispatch
