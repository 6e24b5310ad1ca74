// SPDX-License-Identifier: Apache-2.0
// One UDP socket of a unit: requests in, answers out from the address they were asked at.
// Belongs to the server's thread.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "statistics.h"
#include "workers.h"

namespace spillway::unit {

// A request with its payload, when the kernel got it, and the way back.
using OnRequest = std::function<void(const Request& request, std::string_view payload,
                                     std::int64_t arrived_ns, const ReturnPath& path)>;

class UdpListener {
 public:
  // Errors: kConflict when the address is taken, kSystem otherwise; both name the address.
  [[nodiscard]] static Result<UdpListener> Open(const base::SocketAddress& address);
  UdpListener(UdpListener&& other) noexcept;
  UdpListener& operator=(UdpListener&&) = delete;
  ~UdpListener();

  [[nodiscard]] int fd() const { return fd_; }
  // Takes up to a batch of datagrams; the rest stay readable.
  void Receive(Statistics& statistics, const OnRequest& on_request);
  // False: the kernel did not take it.
  [[nodiscard]] bool Send(const Job& job);

 private:
  UdpListener(int fd, bool any) : fd_(fd), any_(any) {}
  int fd_;
  bool any_;  // bound to the wildcard address
};

}  // namespace spillway::unit
