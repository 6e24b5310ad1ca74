// SPDX-License-Identifier: Apache-2.0
#include "dispatch/window.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace spillway::dispatch {

Result<std::shared_ptr<Window>> Window::Create(const WindowOptions& options) {
  if (!std::has_single_bit(options.slots) || options.slots < 64 || options.slots > 65536)
    return Fail(ErrorCode::kBadInput,
                fmt::format("window: {} slots, expected a power of two, 64 to 65536", options.slots));
  if (options.rings < 1 || options.rings > kMaxWindowRings)
    return Fail(ErrorCode::kBadInput,
                fmt::format("window: {} rings, expected 1 to {}", options.rings, kMaxWindowRings));
  if (options.priorities < 1 || options.priorities > kPriorities)
    return Fail(ErrorCode::kBadInput,
                fmt::format("window: {} priorities, expected 1 to {}", options.priorities, kPriorities));
  WindowHeader header;
  header.rings = options.rings;
  header.slots = options.slots;
  header.queue = options.queue;
  header.priorities = options.priorities;
  header.bytes = WindowBytes(options.rings, options.slots);
  const int fd = memfd_create("spillway-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Fail(ErrorCode::kSystem, fmt::format("memfd_create: {}", std::strerror(errno)));
  void* memory = MAP_FAILED;
  // Sealed, or a producer could cut the file short and have the consumer die of SIGBUS.
  if (ftruncate(fd, static_cast<off_t>(header.bytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    memory = mmap(nullptr, header.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return Fail(ErrorCode::kSystem,
                fmt::format("window of {} bytes: {}", header.bytes, std::strerror(error)));
  }
  return std::shared_ptr<Window>(new Window(header, fd, memory));
}

Window::Window(const WindowHeader& header, int fd, void* memory)
    : header_(header),
      fd_(fd),
      bits_(std::countr_zero(header.slots)),
      words_(new (memory) WindowWords()),
      rings_(header.rings) {
  for (uint32_t ring = 0; ring < header.rings; ring++) {
    rings_[ring].granted = header.slots;
    words_->rings[ring].granted.store(header.slots, std::memory_order_relaxed);
  }
  words_->header = header;
  words_->closed.store(0, std::memory_order_release);  // all of the above before whoever maps it
}

Window::~Window() {
  Close(WindowClosed::kLeft);
  munmap(words_, header_.bytes);
  close(fd_);
}

void Window::Close(WindowClosed why) {
  uint32_t open = 0;
  if (closed_.compare_exchange_strong(open, static_cast<uint32_t>(why)))
    words_->closed.store(static_cast<uint32_t>(why), std::memory_order_release);
}

bool Window::HasProducer(uint32_t ring) const {
  struct flock lock = RingLock(ring);
  return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool Window::Ready() const {
  for (uint8_t priority = 0; priority < header_.priorities; priority++) {
    if (Ready(priority)) return true;
  }
  return false;
}

size_t Window::Waiting(size_t most) const {
  if (closed_.load(std::memory_order_relaxed) != 0) return 0;
  size_t waiting = 0;
  for (uint32_t ring = 0; ring < header_.rings && waiting < most; ring++) {
    const uint64_t head = rings_[ring].head.load(std::memory_order_relaxed);
    const auto filled = [&](uint64_t place) { return Filled(MetaAt(ring, place), LapOf(place, bits_)); };
    // As many as [head, low); at most those below high.
    uint64_t low = head, high = head + std::min<uint64_t>(most - waiting, header_.slots);
    for (uint64_t step = 1; low < high && filled(std::min(low + step, high) - 1); step *= 2)
      low = std::min(low + step, high);
    high = std::min(high, low + (low - head) + 1);
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (filled(middle))
        low = middle + 1;
      else
        high = middle;
    }
    waiting += low - head;
  }
  return waiting;
}

size_t Window::Take(uint8_t priority, Event* into, size_t most) {
  size_t taken = 0;
  for (uint32_t i = 0; i < header_.rings && taken < most; i++) {
    if (closed_.load(std::memory_order_relaxed) != 0) break;
    taken += header_.priorities > 1 ? TakeRing<true>(next_ring_, priority, into + taken, most - taken)
                                    : TakeRing<false>(next_ring_, priority, into + taken, most - taken);
    next_ring_ = next_ring_ + 1 == header_.rings ? 0 : next_ring_ + 1;
  }
  if (taken > 0) events_.store(events_.load(std::memory_order_relaxed) + taken, std::memory_order_relaxed);
  return taken;
}

// How many of these come before the first that names what it must not.
size_t Window::Good(const Event* events, size_t count) const {
  size_t good = 0;
  while (good < count && events[good].queue == header_.queue && events[good].priority < header_.priorities &&
         events[good].op == Op::kForward)
    good++;
  return good;
}

template <bool kMixed>
size_t Window::TakeRing(uint32_t number, uint8_t priority, Event* into, size_t most) {
  Ring& ring = rings_[number];
  const uint64_t mask = header_.slots - 1;
  const Slot* const slots = SlotsOf(number);
  const uint64_t forward = static_cast<uint64_t>(Op::kForward) << kOpShift;
  // The bits in which good events may differ from `expected`: flow, and those priorities that any bits will
  // do for. Who differs in more is looked at closely.
  const uint64_t expected = uint64_t{header_.queue} << 32;
  const uint64_t free = 0xFFFFFFFF | uint64_t{std::bit_floor(header_.priorities) - 1u} << 48;
  uint64_t head = ring.head.load(std::memory_order_relaxed);
  size_t taken = 0;
  for (bool more = true; more && taken < most;) {
    const Slot* const from = slots + (head & mask);
    const size_t part = std::min<size_t>(most - taken, header_.slots - (head & mask));
    const uint64_t lap = LapOf(head, bits_);
    uint64_t strange = 0;
    size_t i = 0;
    for (; i < part; i++) {
      const uint64_t meta = from[i].meta.load(std::memory_order_acquire) ^ lap;
      if (meta & kLapBit) break;
      // Of several priorities, the ring's turn ends at the next other one that may be.
      if (kMixed && PriorityOf(meta) != priority && PriorityOf(meta) < header_.priorities) break;
      strange |= meta ^ expected;
      // op is 0 in a good event; else it is no kForward now.
      SetMeta(into[taken + i], meta ^ forward);
      into[taken + i].user = from[i].user.load(std::memory_order_relaxed);
    }
    more = i == part;
    // On our copies: the slots may change under our eyes.
    if (strange & ~free) [[unlikely]] {
      const size_t good = Good(into + taken, i);
      if (good < i) {
        bad_events_.fetch_add(1, std::memory_order_relaxed);
        Close(WindowClosed::kBadEvent);
        i = good;
        more = false;
      }
    }
    taken += i;
    head += i;
  }
  ring.head.store(head, std::memory_order_relaxed);
  // In quarters of a ring: each grant is a line that the producer has to fetch again.
  if (head + header_.slots - ring.granted >= header_.slots / 4) {
    ring.granted = head + header_.slots;
    words_->rings[number].granted.store(ring.granted, std::memory_order_release);
  }
  // More is likely to be there.
  for (size_t next = 0; taken == most && next < most; next += kCacheLine / sizeof(Slot))
    __builtin_prefetch(&slots[(head + next) & mask]);
  return taken;
}

WindowStatistics Window::Statistics() const {
  return {events_.load(std::memory_order_relaxed), bad_events_.load(std::memory_order_relaxed),
          static_cast<WindowClosed>(closed_.load(std::memory_order_relaxed))};
}

}  // namespace spillway::dispatch
