// SPDX-License-Identifier: Apache-2.0
// Where the key-value server's traffic runs: in three network namespaces, the client's, the host's and the
// SmartNIC's, the client joined to each of the others by a veth pair; or, without the privilege, all on
// loopback. The namespaces have no names: they are gone with the process, however it ends.
//
//   host 10.78.1.2 ──veth── client ──veth── nic 10.78.2.2
#pragma once

#include <array>
#include <cstdint>

#include "base/error.h"

namespace spillway::lab {

class KvNetwork {
 public:
  enum class Place : uint8_t { kClient, kHost, kNic };

  [[nodiscard]] static KvNetwork Loopback() { return {}; }
  // Errors: kSystem, when it may not (root may) or `ip` fails.
  [[nodiscard]] static Result<KvNetwork> Namespaces();
  ~KvNetwork();
  KvNetwork(KvNetwork&& other) noexcept : namespaces_(other.namespaces_) { other.namespaces_ = kNone; }
  KvNetwork& operator=(KvNetwork&&) = delete;

  [[nodiscard]] bool separate() const { return namespaces_ != kNone; }
  // Network byte order.
  [[nodiscard]] uint32_t AddressOf(Place place) const;
  // A UDP socket that neither blocks nor outlives exec.
  [[nodiscard]] Result<int> UdpSocket(Place place) const;
  // The calling thread, or a process that has but one.
  [[nodiscard]] Result<void> Enter(Place place) const;

 private:
  using Descriptors = std::array<int, 3>;  // by Place
  static constexpr Descriptors kNone = {-1, -1, -1};

  KvNetwork() = default;
  [[nodiscard]] Result<void> Connect(Place place) const;

  Descriptors namespaces_ = kNone;
};

}  // namespace spillway::lab
