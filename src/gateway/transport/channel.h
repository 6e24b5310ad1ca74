// SPDX-License-Identifier: Apache-2.0
// A channel: two rings in shared memory, submissions one way and completions the other, and a doorbell each.
// The gateway has one with each slice (it submits) and one with each client that opens a window (the client
// submits). docs/gateway.md has the page byte by byte. All numbers are little endian.
//
//   0     ChannelHeader
//   64    submissions written, ever     128   submissions taken, ever
//   192   completions written, ever     256   completions taken, ever
//   320   1: the taker of submissions sleeps, ring it     384   the same of completions
//   4096  submissions, `slots` of 64 bytes, then completions, `slots` of 64 bytes
//
// Each word is written by one side, but for the sleepers' words, which the other side clears. Nothing that
// the other side writes is believed: an entry is copied out before it is looked at, a counter that runs ahead
// by more than the ring holds breaks the channel, and what entries name is for the caller to check.
//
// One thread submits and takes completions, one thread takes submissions and completes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/fd.h"
#include "gateway/transport/doorbell.h"
#include "gateway/transport/shared_memory.h"

namespace spillway::gateway {

struct Submission {
  uint64_t id = 0;            // comes back with the completion
  uint64_t key = 0;           // of the region that the offsets are in
  uint64_t input_offset = 0;  // inputs, as tensor.h lays them
  uint64_t input_bytes = 0;
  uint64_t output_offset = 0;
  uint64_t output_bytes = 0;  // room there
  uint32_t model = 0;         // index in the executor's, or the gateway's, list of models
  uint32_t rows = 1;
  uint32_t deadline_us = 0;  // from now; 0: the gateway's default
  uint32_t reserved = 0;
};

struct Completion {
  uint64_t id = 0;
  uint32_t status = 0;  // Status of status.h
  uint32_t retry_after_ms = 0;
  uint64_t output_bytes = 0;  // of the outputs; with another status than kOk, of a text in their place
  uint64_t busy_ns = 0;       // that the slice worked on it
  uint64_t reserved[4] = {};
};
static_assert(sizeof(Submission) == 64 && sizeof(Completion) == 64);

inline constexpr uint64_t kChannelMagic = 0x4E4843594C4C5053;  // "SPLLYCHN"
inline constexpr uint32_t kChannelVersion = 1;
inline constexpr uint32_t kMaxChannelSlots = 4096;
inline constexpr uint64_t kChannelRingsOffset = 4096;

struct ChannelHeader {
  uint64_t magic = kChannelMagic;
  uint32_t version = kChannelVersion;
  uint32_t slots = 0;  // of each ring; a power of two
};

inline uint64_t ChannelBytes(uint32_t slots) {
  return kChannelRingsOffset + uint64_t{slots} * (sizeof(Submission) + sizeof(Completion));
}

struct ChannelWords;

// Either side's view.
class Channel {
 public:
  Channel() = default;  // of nothing: to be moved into
  // Of two doorbells the ends that this side has, rung when their sleeper's word says so: who submits rings
  // that of submissions and sleeps on that of completions.
  struct Doorbells {
    base::Fd submissions, completions;
  };

  // `slots`: a power of two, at most kMaxChannelSlots.
  [[nodiscard]] static Result<Channel> Create(uint32_t slots, Doorbells bells);
  // Of what a peer has made. kBadInput if it is no such memory.
  [[nodiscard]] static Result<Channel> Map(base::Fd fd, uint32_t slots, Doorbells bells);

  // Wakes a sleeping taker of submissions before there is one: what it takes to wake, its submission's data
  // needs to get there. It finds nothing and sleeps again, at worst.
  void WakeForSubmission();
  // False: the ring is full.
  bool Submit(const Submission& submission);
  bool Complete(const Completion& completion);
  // Completions that the other side has yet to take, at most.
  [[nodiscard]] uint64_t CompletionsWaiting() const;
  // False: nothing there.
  bool TakeSubmission(Submission& into);
  bool TakeCompletion(Completion& into);
  // The other side wrote what cannot be. Nothing is taken from then on.
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] bool HasSubmission() const;
  [[nodiscard]] bool HasCompletion() const;

  // Before a sleep on the doorbell: announces it. False: something is there, do not sleep.
  bool PrepareToWaitForSubmissions();
  bool PrepareToWaitForCompletions();
  // After it, rung or not. Whoever slept on a bell that is hushed does that itself.
  void DoneWaitingForSubmissions();
  void DoneWaitingForCompletions();
  // Sleeps until rung or so many milliseconds are over (-1: no end), then takes the ring off the bell.
  void WaitForSubmissions(int timeout_ms);
  void WaitForCompletions(int timeout_ms);

  [[nodiscard]] int fd() const { return memory_.fd(); }
  [[nodiscard]] const Doorbells& bells() const { return bells_; }
  [[nodiscard]] uint32_t slots() const { return slots_; }

 private:
  [[nodiscard]] ChannelWords& words() const;

  SharedMemory memory_;
  Doorbells bells_;
  uint32_t slots_ = 0;
  bool broken_ = false;
  // Our own counts: those in memory may be written by anybody.
  uint64_t submitted_ = 0, submissions_taken_ = 0, completed_ = 0, completions_taken_ = 0;
};

}  // namespace spillway::gateway
