// SPDX-License-Identifier: Apache-2.0
#include "dispatch/verbs_producer.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace spillway::dispatch {
namespace {

using TransferKind = VerbsLink::Kind;
using Transfer = VerbsLink::Transfer;

// Marks of chains: places in the ring, which are far below, or this.
constexpr uint64_t kCredits = ~0ULL;

// Of a burst: the part behind the wrap, the part before without its first, the first.
constexpr size_t kMaxWrites = 3;
// Always left for credits: a read.
constexpr size_t kForCredits = 1;

}  // namespace

Result<std::unique_ptr<VerbsProducer>> VerbsProducer::Connect(const std::string& address, uint16_t port,
                                                              const VerbsProducerOptions& options) {
  return VerbsLink::Connect(address, port, options).map([](std::unique_ptr<VerbsLink> link) {
    return std::make_unique<VerbsProducer>(std::move(link));
  });
}

VerbsProducer::VerbsProducer(std::unique_ptr<VerbsLink> link)
    : link_(std::move(link)),
      slots_(link_->header().slots),
      bits_(std::countr_zero(slots_)),
      ring_offset_(kWindowRingsOffset + uint64_t{link_->ring()} * slots_ * sizeof(Slot)),
      copy_(reinterpret_cast<Slot*>(link_->memory() + ring_offset_)) {
  // The link has read the words just now.
  ReadCredits();
}

void VerbsProducer::Reap() {
  while (const auto mark = link_->Reap()) {
    if (*mark == kCredits)
      ReadCredits();
    else
      arrived_ = *mark;
  }
}

// As the words said.
void VerbsProducer::ReadCredits() {
  const WindowWords& words = *link_->words();
  // No more than a ring, whatever the host says.
  granted_ = std::clamp(words.rings[0].granted.load(std::memory_order_acquire), tail_, tail_ + slots_);
  closed_ = static_cast<WindowClosed>(words.closed.load(std::memory_order_acquire));
  asking_ = false;
}

void VerbsProducer::AskForCredits() {
  const Transfer read = {TransferKind::kRead, 0, kWindowWordsBytes};
  asking_ = link_->Post({&read, 1}, kCredits);
}

size_t VerbsProducer::Enqueue(std::span<const Event> events) {
  Reap();
  if (closed_ != WindowClosed::kOpen || !link_->Broken().empty()) return 0;
  const uint64_t credits = granted_ - tail_;
  if (!asking_ && credits < std::max<uint64_t>(events.size(), slots_ / 4) && link_->Room() >= kForCredits)
    AskForCredits();
  if (link_->Room() < kMaxWrites + kForCredits) return 0;
  // A slot of our copy is needed until its event has arrived.
  const size_t count = std::min({uint64_t{events.size()}, credits, arrived_ + slots_ - tail_});
  if (count > 0) Write(events.first(count));
  return count;
}

void VerbsProducer::Fill(uint64_t place, const Event& event) {
  Slot& slot = copy_[place & (slots_ - 1)];
  slot.user.store(event.user, std::memory_order_relaxed);
  slot.meta.store(LapOf(place, bits_) | uint64_t{event.priority} << 48 |
                      uint64_t{link_->header().queue} << 32 | event.flow,
                  std::memory_order_relaxed);
}

void VerbsProducer::Write(std::span<const Event> events) {
  for (size_t i = 0; i < events.size(); i++) Fill(tail_ + i, events[i]);
  std::array<Transfer, kMaxWrites> chain;
  size_t writes = 0;
  const auto write = [&](uint64_t place, size_t count) {
    if (count > 0)
      chain[writes++] = {TransferKind::kWrite, ring_offset_ + (place & (slots_ - 1)) * sizeof(Slot),
                         static_cast<uint32_t>(count * sizeof(Slot))};
  };
  const size_t before_wrap = std::min<size_t>(events.size(), slots_ - (tail_ & (slots_ - 1)));
  write(tail_ + before_wrap, events.size() - before_wrap);
  write(tail_ + 1, before_wrap - 1);
  write(tail_, 1);
  // Not posted: the connection is broken, and the events its loss.
  link_->Post(std::span(chain).first(writes), tail_ + events.size());
  tail_ += events.size();
}

Result<void> VerbsProducer::Drain(std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (arrived_ < tail_) {
    Reap();
    if (!link_->Broken().empty()) return Fail(ErrorCode::kSystem, fmt::format("RDMA: {}", link_->Broken()));
    if (arrived_ < tail_ && std::chrono::steady_clock::now() > until)
      return Fail(ErrorCode::kSystem, fmt::format("RDMA: {} events are still in flight", tail_ - arrived_));
    sched_yield();
  }
  return {};
}

Result<void> VerbsProducer::Status() {
  Reap();
  if (link_->Broken().empty()) link_->Look();
  switch (closed_) {
    case WindowClosed::kOpen:
      break;
    case WindowClosed::kLeft:
      return Fail(ErrorCode::kConflict, "RDMA: the host closed the window");
    case WindowClosed::kBadEvent:
      return Fail(ErrorCode::kBadInput, "RDMA: the host closed the window: a bad event");
    case WindowClosed::kReplaced:
      return Fail(ErrorCode::kConflict, "RDMA: another producer has the ring");
  }
  if (!link_->Broken().empty()) return Fail(ErrorCode::kSystem, fmt::format("RDMA: {}", link_->Broken()));
  return {};
}

}  // namespace spillway::dispatch
