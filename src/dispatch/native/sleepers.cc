// SPDX-License-Identifier: Apache-2.0
#include "dispatch/native/sleepers.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bit>
#include <climits>

namespace spillway::dispatch {
namespace {

uint64_t BitOf(uint32_t worker) { return 1ULL << (worker - 1); }

long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG, value,
                 timeout, nullptr, 0);
}

}  // namespace

Sleepers::Sleepers() {
#if !defined(__SANITIZE_THREAD__)  // which knows nothing of membarrier
  asymmetric_ = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

bool Sleepers::Wake(uint32_t worker) {
  if (!(mask_.fetch_and(~BitOf(worker), std::memory_order_acq_rel) & BitOf(worker))) return false;
  Bed& bed = beds_[worker];
  bed.calls.fetch_add(1, std::memory_order_release);
  Futex(bed.calls, FUTEX_WAKE, INT_MAX, nullptr);
  if (const int fd = bed.event_fd.load(); fd >= 0) {
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one));
  }
  return true;
}

bool Sleepers::WakeOne(uint64_t among) {
  for (; among != 0; among &= among - 1) {
    if (Wake(static_cast<uint32_t>(std::countr_zero(among)) + 1)) return true;
  }
  return false;
}

void Sleepers::Announce(uint32_t worker) {
  Bed& bed = beds_[worker];
  bed.heard = bed.calls.load(std::memory_order_acquire);
  mask_.fetch_or(BitOf(worker), std::memory_order_seq_cst);
  if (asymmetric_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

bool Sleepers::Sleep(uint32_t worker, std::chrono::nanoseconds patience) {
  Bed& bed = beds_[worker];
  const timespec timeout = {static_cast<time_t>(patience.count() / 1'000'000'000),
                            static_cast<long>(patience.count() % 1'000'000'000)};
  // May also end by a signal or a stale wake-up: the caller looks at its queues and its patience again.
  Futex(bed.calls, FUTEX_WAIT, bed.heard, &timeout);
  return bed.calls.load(std::memory_order_acquire) != bed.heard;
}

void Sleepers::Withdraw(uint32_t worker) { mask_.fetch_and(~BitOf(worker), std::memory_order_acq_rel); }

}  // namespace spillway::dispatch
