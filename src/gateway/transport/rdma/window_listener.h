// SPDX-License-Identifier: Apache-2.0
// Where clients of other machines connect their windows. A window is asked for in a session, over TCP, whose
// tenant is known; its memory is made for that session alone, and a ticket says which connection is its. Who
// has no ticket is refused, and nothing that he says is looked into. Needs no RDMA headers; of a build
// without RDMA, Listen says so. One thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/socket_address.h"
#include "gateway/transport/window.h"

namespace spillway::gateway {

class RemoteWindow : public ServedWindow {
 public:
  // A fault of one that is not connected: it never will be.
  enum class State { kMaking, kReady, kConnecting, kConnected };
  // What it holds beside its bytes: of messages and of the device's queues, about.
  [[nodiscard]] static constexpr uint64_t Overhead(uint32_t slots) { return uint64_t{1024} * (slots + 2); }
  [[nodiscard]] virtual State state() const = 0;
  [[nodiscard]] virtual uint64_t ticket() const = 0;
  // The memory is the gateway's own: the client writes to it by RDMA only.
  [[nodiscard]] bool Write(std::span<std::byte> to, std::span<const std::byte> from) override {
    std::memcpy(to.data(), from.data(), from.size());
    return true;
  }
};

class WindowListener {
 public:
  // ADDRESS:PORT; port 0 picks one. Errors: kBadInput; kUnavailable on a machine or of a build without RDMA;
  // kSystem.
  [[nodiscard]] static Result<std::unique_ptr<WindowListener>> Listen(const std::string& address);
  virtual ~WindowListener() = default;

  // Where clients are to connect; a wildcard: at any address of this machine.
  [[nodiscard]] virtual base::SocketAddress address() const = 0;
  // Readable when there is news of a window.
  [[nodiscard]] virtual int events() const = 0;
  // Then: the sessions of whose windows there is some.
  [[nodiscard]] virtual std::vector<uint64_t> Serve() = 0;

  // Its memory is made meanwhile, and keeps `held` until it is free. The listener outlives the window and
  // what was taken of it. Errors: kSystem, there is no device any more.
  [[nodiscard]] virtual Result<std::unique_ptr<RemoteWindow>> Expect(uint64_t session, uint64_t bytes,
                                                                     uint32_t slots,
                                                                     std::shared_ptr<const void> held) = 0;
};

}  // namespace spillway::gateway
