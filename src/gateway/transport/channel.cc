// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/channel.h"

#include <fmt/format.h>
#include <poll.h>

#include <bit>
#include <cstring>
#include <new>

#include "base/fd.h"

namespace spillway::gateway {

// Cache lines as channel.h has them. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct ChannelWords {
  ChannelHeader header;
  alignas(64) std::atomic<uint64_t> submitted;
  alignas(64) std::atomic<uint64_t> submissions_taken;
  alignas(64) std::atomic<uint64_t> completed;
  alignas(64) std::atomic<uint64_t> completions_taken;
  alignas(64) std::atomic<uint32_t> submissions_sleeper;
  alignas(64) std::atomic<uint32_t> completions_sleeper;
};
static_assert(offsetof(ChannelWords, submitted) == 64 && offsetof(ChannelWords, completions_taken) == 256 &&
              offsetof(ChannelWords, completions_sleeper) == 384 &&
              sizeof(ChannelWords) <= kChannelRingsOffset);

namespace {

template <class Entry>
Entry* RingOf(const SharedMemory& memory, uint64_t offset) {
  return reinterpret_cast<Entry*>(memory.bytes().data() + offset);
}

// The writer's half of the handshake with a sleeper: its entry is out, now it looks whether anybody sleeps.
// The sleeper announces itself, then looks for entries. One order of all four accesses (seq_cst) sees to it
// that not both miss.
void RingIfAsleep(std::atomic<uint32_t>& sleeper, const base::Fd& bell) {
  if (sleeper.load(std::memory_order_seq_cst) != 0 && sleeper.exchange(0) != 0) RingBell(bell);
}

void Sleep(const base::Fd& bell, int timeout_ms) {
  pollfd wait{bell.get(), POLLIN, 0};
  poll(&wait, 1, timeout_ms);
  HushBell(bell);
}

}  // namespace

ChannelWords& Channel::words() const { return *reinterpret_cast<ChannelWords*>(memory_.bytes().data()); }

Result<Channel> Channel::Create(uint32_t slots, Doorbells bells) {
  if (!std::has_single_bit(slots) || slots > kMaxChannelSlots)
    return Fail(ErrorCode::kBadInput,
                fmt::format("channel: {} slots, expected a power of two up to {}", slots, kMaxChannelSlots));
  auto memory = SharedMemory::Create("spillway-channel", ChannelBytes(slots));
  if (!memory) return tl::make_unexpected(memory.error());
  Channel channel;
  channel.memory_ = std::move(*memory);
  channel.bells_ = std::move(bells);
  channel.slots_ = slots;
  new (channel.memory_.bytes().data()) ChannelWords();
  channel.words().header.slots = slots;
  return channel;
}

Result<Channel> Channel::Map(base::Fd fd, uint32_t slots, Doorbells bells) {
  if (!std::has_single_bit(slots) || slots > kMaxChannelSlots)
    return Fail(ErrorCode::kBadInput,
                fmt::format("channel: {} slots, expected a power of two up to {}", slots, kMaxChannelSlots));
  auto memory = SharedMemory::Map(std::move(fd), ChannelBytes(slots));
  if (!memory) return tl::make_unexpected(memory.error());
  ChannelHeader header;
  std::memcpy(static_cast<void*>(&header), memory->bytes().data(), sizeof(header));
  if (header.magic != kChannelMagic || header.version != kChannelVersion || header.slots != slots)
    return Fail(ErrorCode::kBadInput,
                fmt::format("expected a channel of version {} with {} slots", kChannelVersion, slots));
  Channel channel;
  channel.memory_ = std::move(*memory);
  channel.bells_ = std::move(bells);
  channel.slots_ = slots;
  return channel;
}

void Channel::WakeForSubmission() { RingIfAsleep(words().submissions_sleeper, bells_.submissions); }

bool Channel::Submit(const Submission& submission) {
  const uint64_t taken = words().submissions_taken.load(std::memory_order_acquire);
  if (submitted_ - taken >= slots_) return false;
  RingOf<Submission>(memory_, kChannelRingsOffset)[submitted_ & (slots_ - 1)] = submission;
  words().submitted.store(++submitted_, std::memory_order_seq_cst);
  RingIfAsleep(words().submissions_sleeper, bells_.submissions);
  return true;
}

bool Channel::Complete(const Completion& completion) {
  const uint64_t taken = words().completions_taken.load(std::memory_order_acquire);
  if (completed_ - taken >= slots_) return false;
  const uint64_t ring = kChannelRingsOffset + uint64_t{slots_} * sizeof(Submission);
  RingOf<Completion>(memory_, ring)[completed_ & (slots_ - 1)] = completion;
  words().completed.store(++completed_, std::memory_order_seq_cst);
  RingIfAsleep(words().completions_sleeper, bells_.completions);
  return true;
}

uint64_t Channel::CompletionsWaiting() const {
  return completed_ - words().completions_taken.load(std::memory_order_acquire);
}

bool Channel::HasSubmission() const {
  return words().submitted.load(std::memory_order_seq_cst) != submissions_taken_ && !broken_;
}

bool Channel::HasCompletion() const {
  return words().completed.load(std::memory_order_seq_cst) != completions_taken_ && !broken_;
}

bool Channel::TakeSubmission(Submission& into) {
  const uint64_t written = words().submitted.load(std::memory_order_acquire);
  if (written == submissions_taken_ || broken_) return false;
  if (written - submissions_taken_ > slots_) {
    broken_ = true;
    return false;
  }
  into = RingOf<Submission>(memory_, kChannelRingsOffset)[submissions_taken_ & (slots_ - 1)];
  words().submissions_taken.store(++submissions_taken_, std::memory_order_release);
  return true;
}

bool Channel::TakeCompletion(Completion& into) {
  const uint64_t written = words().completed.load(std::memory_order_acquire);
  if (written == completions_taken_ || broken_) return false;
  if (written - completions_taken_ > slots_) {
    broken_ = true;
    return false;
  }
  const uint64_t ring = kChannelRingsOffset + uint64_t{slots_} * sizeof(Submission);
  into = RingOf<Completion>(memory_, ring)[completions_taken_ & (slots_ - 1)];
  words().completions_taken.store(++completions_taken_, std::memory_order_release);
  return true;
}

bool Channel::PrepareToWaitForSubmissions() {
  words().submissions_sleeper.store(1, std::memory_order_seq_cst);
  if (!HasSubmission()) return true;
  DoneWaitingForSubmissions();
  return false;
}

bool Channel::PrepareToWaitForCompletions() {
  words().completions_sleeper.store(1, std::memory_order_seq_cst);
  if (!HasCompletion()) return true;
  DoneWaitingForCompletions();
  return false;
}

void Channel::DoneWaitingForSubmissions() { words().submissions_sleeper.store(0, std::memory_order_relaxed); }
void Channel::DoneWaitingForCompletions() { words().completions_sleeper.store(0, std::memory_order_relaxed); }

void Channel::WaitForSubmissions(int timeout_ms) {
  if (PrepareToWaitForSubmissions()) {
    Sleep(bells_.submissions, timeout_ms);
    DoneWaitingForSubmissions();
  }
}

void Channel::WaitForCompletions(int timeout_ms) {
  if (PrepareToWaitForCompletions()) {
    Sleep(bells_.completions, timeout_ms);
    DoneWaitingForCompletions();
  }
}

}  // namespace spillway::gateway
