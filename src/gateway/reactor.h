// SPDX-License-Identifier: Apache-2.0
// How the gateway's one thread waits for all its descriptors and moves bytes of its clients' sockets: by
// epoll. Used by the thread that waits with it; Watch, Add and the destructor may be called by another before
// and after that.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/fd.h"

namespace spillway::gateway {

// One end of a socket whose bytes the reactor moves.
class Stream {
 public:
  virtual ~Stream() = default;

  // Where the socket's next bytes go; empty: nothing is to be read now.
  virtual std::span<std::byte> NextRead() = 0;
  // So many bytes came; 0: the peer has closed; negative: an errno.
  virtual void Got(int64_t result) = 0;
  // What is to be sent next.
  virtual std::span<const std::byte> NextWrite() = 0;
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

  [[nodiscard]] static Result<std::unique_ptr<Reactor>> Create();

  bool Watch(int fd, uint64_t tag);
  // Before the descriptor is closed.
  void Unwatch(int fd);

  bool Add(Stream& stream, int fd, uint64_t tag);
  // The stream may have something to read or to send that it had not.
  void Update(uint64_t tag);
  // Nothing more is asked of the stream. Before its socket is closed.
  void Remove(uint64_t tag);

  // Tells what has come, and waits for it up to so long.
  void Wait(std::chrono::nanoseconds most, Listener& listener);

 private:
  struct Watched {
    Stream* stream = nullptr;
    int fd = -1;
    uint32_t events = 0;
  };

  explicit Reactor(base::Fd epoll) : epoll_(std::move(epoll)) {}
  bool Control(int what, int fd, uint64_t tag, uint32_t events);
  void Arm(Watched& watched, uint64_t tag);

  base::Fd epoll_;
  std::unordered_map<uint64_t, Watched> streams_;
};

}  // namespace spillway::gateway
