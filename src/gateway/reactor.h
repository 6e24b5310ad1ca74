// SPDX-License-Identifier: Apache-2.0
// How the gateway's one thread waits for all its descriptors and moves bytes of its clients' sockets: by
// epoll or by io_uring, behind one interface. A reactor is used by the thread that waits with it; Watch, Add
// and the destructor may be called by another before and after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"

namespace spillway::gateway {

// One end of a socket whose bytes the reactor moves. The kernel may still be at a span when the stream is
// gone: its keeper owns what it points to.
class Stream {
 public:
  struct Piece {
    std::span<std::byte> bytes = {};  // empty: nothing to be moved now
    std::shared_ptr<void> keeper = nullptr;
  };
  virtual ~Stream() = default;

  // Where the socket's next bytes go; the same until Got.
  virtual Piece NextRead() = 0;
  // So many bytes came; 0: the peer has closed; negative: an errno.
  virtual void Got(int64_t result) = 0;
  // What is to be sent next; the same until Sent.
  virtual Piece NextWrite() = 0;
  virtual void Sent(int64_t result) = 0;
};

class Reactor {
 public:
  // What it tells, by the tag that was given. Any of the reactor's functions may be called from here.
  class Listener {
   public:
    virtual ~Listener() = default;
    // A descriptor has something new to read; told once for it, so all is to be taken.
    virtual void Ready(uint64_t tag) = 0;
    // Bytes of a stream have moved.
    virtual void Moved(uint64_t tag) = 0;
  };

  virtual ~Reactor() = default;
  virtual bool Watch(int fd, uint64_t tag) = 0;
  // Before the descriptor is closed.
  virtual void Unwatch(int fd, uint64_t tag) = 0;

  virtual bool Add(Stream& stream, int fd, uint64_t tag) = 0;
  // The stream may have something to read or to send that it had not.
  virtual void Update(uint64_t tag) = 0;
  // Nothing more is asked of the stream. Before its socket is closed.
  virtual void Remove(uint64_t tag) = 0;

  // Tells what has come, and waits for it up to so long.
  virtual void Wait(int timeout_ms, Listener& listener) = 0;
  // Something was asked for that Wait has yet to tell the kernel.
  [[nodiscard]] virtual bool Wishes() const = 0;
  // The thread that waited will not any more. Descriptors are let go.
  virtual void End() = 0;
  [[nodiscard]] virtual const char* name() const = 0;
};

enum class Io { kAuto, kUring, kEpoll };

[[nodiscard]] Result<std::unique_ptr<Reactor>> MakeEpollReactor();
// kUnavailable where the kernel refuses it (too old, switched off, a container's filter), or this build has
// it not.
[[nodiscard]] Result<std::unique_ptr<Reactor>> MakeUringReactor();
// kAuto is epoll (docs/gateway.md says why). kUring, where the kernel refuses it: epoll, and a line in the
// log.
[[nodiscard]] Result<std::unique_ptr<Reactor>> MakeReactor(Io io);

}  // namespace spillway::gateway
