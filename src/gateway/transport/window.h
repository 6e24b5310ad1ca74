// SPDX-License-Identifier: Apache-2.0
// A client's window: memory in which its requests' inputs and outputs lie, and the way of requests and
// answers. Of clients of this host: shm/window.h; of another machine: rdma/window_listener.h and
// rdma/client_window.h. Each end is used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gateway/transport/channel.h"

namespace spillway::gateway {

// The gateway's end. The client may change the memory at any time.
class ServedWindow {
 public:
  ServedWindow() = default;
  virtual ~ServedWindow() = default;
  ServedWindow(const ServedWindow&) = delete;
  ServedWindow& operator=(const ServedWindow&) = delete;

  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  // Keeps the memory, not the window: a request may outlive its client.
  [[nodiscard]] virtual std::shared_ptr<const void> keeper() const = 0;
  // The last that is asked of it, where it is used: what takes long to free, and may be freed in any thread
  // then, after the window. Until that has happened the client may still write there, but nobody reads it.
  [[nodiscard]] virtual std::shared_ptr<void> TakeMemory() = 0;
  // Where the client has a hand on the memory's pages too: copies from there go by its Read.
  [[nodiscard]] virtual const SharedMemory* peer_memory() const { return nullptr; }
  // `from` to a range of bytes() of its size. False: there is no memory for it.
  [[nodiscard]] virtual bool Write(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  [[nodiscard]] virtual uint32_t slots() const = 0;
  // False: nothing there, or nothing for whose answer there is room.
  virtual bool TakeSubmission(Submission& into) = 0;
  // Answers that hold slots as long as the client has not taken them, at most.
  [[nodiscard]] virtual uint64_t AnswersWaiting() const = 0;
  // One for each submission. Its outputs, or text, are in the window at `offset` already.
  virtual void Complete(const Completion& completion, uint64_t offset) = 0;
  // Whether all answers have come so far that they arrive though the gateway ends.
  [[nodiscard]] virtual bool HasSentAll() = 0;
  // What is wrong with it, so that nothing is taken from it any more; empty: nothing.
  [[nodiscard]] virtual std::string Fault() const = 0;

  // -- sleeping. -1: nobody can ring as yet. PrepareToWait false: something is there, do not sleep.
  [[nodiscard]] virtual int bell() const = 0;
  virtual bool PrepareToWait() = 0;
  virtual void DoneWaiting() = 0;
};

class ClientWindow {
 public:
  ClientWindow() = default;
  virtual ~ClientWindow() = default;
  ClientWindow(const ClientWindow&) = delete;
  ClientWindow& operator=(const ClientWindow&) = delete;

  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  [[nodiscard]] virtual uint32_t slots() const = 0;
  // With the inputs that it names. False: there is no room.
  virtual bool Submit(const Submission& submission) = 0;
  virtual bool TakeCompletion(Completion& into) = 0;
  [[nodiscard]] virtual bool HasCompletion() = 0;
  // Nothing comes any more.
  [[nodiscard]] virtual bool broken() const = 0;

  [[nodiscard]] virtual int bell() const = 0;
  virtual bool PrepareToWait() = 0;
  virtual void DoneWaiting(bool has_rung) = 0;
};

}  // namespace spillway::gateway
