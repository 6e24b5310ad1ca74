// SPDX-License-Identifier: Apache-2.0
#include "dispatch/remote_producer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace spillway::dispatch {
namespace {

constexpr uint64_t kMostPlaces = 1ULL << 62;  // a thousand million a second for a century

// An open file description that holds the ring's lock. Not the caller's own: a lock of that one would be
// shared with whoever sent it, and outlive this process.
Result<int> LockRing(int fd, uint32_t ring) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const int own = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0)
    return Fail(ErrorCode::kSystem, fmt::format("window: opening {}: {}", path, std::strerror(errno)));
  const struct flock lock = RingLock(ring);
  if (fcntl(own, F_OFD_SETLK, &lock) == 0) return own;
  const int error = errno;
  close(own);
  if (error == EAGAIN || error == EACCES)
    return Fail(ErrorCode::kConflict, fmt::format("window: ring {} already has a producer", ring));
  return Fail(ErrorCode::kSystem, fmt::format("window: locking ring {}: {}", ring, std::strerror(error)));
}

}  // namespace

Result<std::unique_ptr<RemoteProducer>> RemoteProducer::Map(int fd, uint32_t ring) {
  struct stat status {};
  if (fstat(fd, &status) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("window: {}", std::strerror(errno)));
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (bytes < kWindowRingsOffset)
    return Fail(ErrorCode::kBadInput, fmt::format("{} bytes are not a window", bytes));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Fail(ErrorCode::kSystem, fmt::format("window: {}", std::strerror(errno)));
  WindowHeader header;
  std::memcpy(static_cast<void*>(&header), memory, sizeof(header));
  std::string wrong;
  if (header.magic != kWindowMagic)
    wrong = "not a window";
  else if (header.version != kWindowVersion)
    wrong = fmt::format("window of version {}, expected {}", header.version, kWindowVersion);
  else if (!std::has_single_bit(header.slots) || header.rings > kMaxWindowRings ||
           WindowBytes(header.rings, header.slots) != bytes || header.bytes != bytes)
    wrong = fmt::format("a window of {} rings of {} slots does not have {} bytes", header.rings, header.slots,
                        bytes);
  else if (ring >= header.rings)
    wrong = fmt::format("ring {} of a window of {}", ring, header.rings);
  if (!wrong.empty()) {
    munmap(memory, bytes);
    return Fail(ErrorCode::kBadInput, wrong);
  }
  const auto lock = LockRing(fd, ring);
  if (!lock) {
    munmap(memory, bytes);
    return tl::make_unexpected(lock.error());
  }
  return std::unique_ptr<RemoteProducer>(new RemoteProducer(header, ring, memory, *lock));
}

RemoteProducer::RemoteProducer(const WindowHeader& header, uint32_t ring, void* memory, int lock)
    : header_(header),
      mask_(header.slots - 1),
      bits_(std::countr_zero(header.slots)),
      words_(static_cast<WindowWords*>(memory)),
      ring_(words_->rings[ring]),
      slots_(reinterpret_cast<Slot*>(static_cast<char*>(memory) + kWindowRingsOffset) +
             size_t{ring} * header.slots),
      lock_(lock) {
  TakeOver();
}

RemoteProducer::~RemoteProducer() {
  munmap(words_, header_.bytes);
  close(lock_);
}

// The ring says itself how far its last producer came (window_layout.h). The consumer goes on meanwhile: it
// stops at the first place that is not filled, where we begin.
void RemoteProducer::TakeOver() {
  epoch_ = ring_.epoch.fetch_add(1, std::memory_order_acq_rel) + 1;
  // Within what a ring can have had, whatever stands there: places do not wrap.
  granted_ = std::clamp<uint64_t>(ring_.granted.load(std::memory_order_acquire), header_.slots, kMostPlaces);
  const auto filled = [this](uint64_t place) {
    return !((slots_[place & mask_].meta.load(std::memory_order_acquire) ^ LapOf(place, bits_)) & kLapBit);
  };
  tail_ = granted_ - header_.slots;
  while (tail_ < granted_ && filled(tail_)) tail_++;
  // Before the place at which the consumer stops is filled: by the release store in Fill.
  for (uint64_t place = tail_ + 1; place < granted_; place++)
    slots_[place & mask_].meta.store(LapOf(place, bits_) ^ kLapBit, std::memory_order_relaxed);
}

// The last first, as in SlotRing: the consumer comes when all is written.
void RemoteProducer::Fill(Slot* slots, std::span<const Event> events, uint64_t lap) const {
  const uint64_t top = lap | uint64_t{header_.queue} << 32;
  for (size_t i = events.size(); i-- > 0;) {
    slots[i].user.store(events[i].user, std::memory_order_relaxed);
    slots[i].meta.store(top | uint64_t{events[i].priority} << 48 | events[i].flow, std::memory_order_release);
  }
}

size_t RemoteProducer::Enqueue(std::span<const Event> events) {
  if (Closed() != WindowClosed::kOpen) [[unlikely]]
    return 0;
  // While there are credits for it, the consumer's word is left alone.
  if (granted_ - tail_ < events.size())
    granted_ = std::clamp(ring_.granted.load(std::memory_order_acquire), tail_, tail_ + header_.slots);
  const size_t count = std::min<uint64_t>(events.size(), granted_ - tail_);
  const size_t before_wrap = std::min<size_t>(count, mask_ + 1 - (tail_ & mask_));
  if (before_wrap < count)
    Fill(slots_, events.subspan(before_wrap, count - before_wrap), LapOf(tail_ + before_wrap, bits_));
  Fill(slots_ + (tail_ & mask_), events.first(before_wrap), LapOf(tail_, bits_));
  for (uint64_t next = tail_ + count; next < tail_ + 2 * count; next += kCacheLine / sizeof(Slot))
    __builtin_prefetch(&slots_[next & mask_], 1);
  tail_ += count;
  return count;
}

WindowClosed RemoteProducer::Closed() const {
  if (ring_.epoch.load(std::memory_order_relaxed) != epoch_) return WindowClosed::kReplaced;
  return static_cast<WindowClosed>(words_->closed.load(std::memory_order_acquire));
}

namespace {

struct WindowMessage {
  uint64_t magic = kWindowMagic;
  uint32_t version = kWindowVersion;
  uint32_t ring = 0;
};

union ControlSpace {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

Result<void> SendWindow(int socket, int fd, uint32_t ring) {
  WindowMessage message;
  message.ring = ring;
  iovec part = {&message, sizeof(message)};
  ControlSpace control{};
  msghdr out{};
  out.msg_iov = &part;
  out.msg_iovlen = 1;
  out.msg_control = &control;
  out.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&out);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  if (sendmsg(socket, &out, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(message)))
    return Fail(ErrorCode::kSystem, fmt::format("sending a window: {}", std::strerror(errno)));
  return {};
}

Result<ReceivedWindow> ReceiveWindow(int socket) {
  WindowMessage message{0, 0, 0};
  iovec part = {&message, sizeof(message)};
  ControlSpace control{};
  msghdr in{};
  in.msg_iov = &part;
  in.msg_iovlen = 1;
  in.msg_control = &control;
  in.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &in, MSG_CMSG_CLOEXEC);
  if (got < 0) return Fail(ErrorCode::kSystem, fmt::format("receiving a window: {}", std::strerror(errno)));
  ReceivedWindow window;
  const cmsghdr* rights = CMSG_FIRSTHDR(&in);
  if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
      rights->cmsg_len == CMSG_LEN(sizeof(int)))
    std::memcpy(&window.fd, CMSG_DATA(rights), sizeof(window.fd));
  window.ring = message.ring;
  if (got == static_cast<ssize_t>(sizeof(message)) && message.magic == kWindowMagic &&
      message.version == kWindowVersion && window.fd >= 0)
    return window;
  if (window.fd >= 0) close(window.fd);
  return Fail(ErrorCode::kBadInput, "no window in the message");
}

}  // namespace spillway::dispatch
