// SPDX-License-Identifier: Apache-2.0
// Where the traffic of a host with a SmartNIC runs: in three network namespaces, the client's, the host's and
// the SmartNIC's, the client joined to each of the others by a veth pair; or, without the privilege, all on
// loopback. The namespaces have no names: they are gone with the process, however it ends.
//
//   host 10.78.1.2 ──veth── client ──veth── nic 10.78.2.2
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"

namespace spillway::lab {

class HostNetwork {
 public:
  enum class Place : uint8_t { kClient, kHost, kNic };

  [[nodiscard]] static HostNetwork Loopback() { return {}; }
  // Errors: kUnavailable, when it may not (root may); kSystem, such as that `ip` fails.
  [[nodiscard]] static Result<HostNetwork> Namespaces();
  ~HostNetwork();
  HostNetwork(HostNetwork&& other) noexcept : namespaces_(other.namespaces_) { other.namespaces_ = kNone; }
  HostNetwork& operator=(HostNetwork&&) = delete;

  [[nodiscard]] bool separate() const { return namespaces_ != kNone; }
  // As rows of results say it: "namespaces" or "loopback".
  [[nodiscard]] const char* word() const { return separate() ? "namespaces" : "loopback"; }
  // Network byte order.
  [[nodiscard]] uint32_t AddressOf(Place place) const;
  // The same, for people and for what parses addresses.
  [[nodiscard]] std::string AddressText(Place place) const;
  // Runs `work` there, on a thread of its own if that is elsewhere. A socket that it makes stays there,
  // whoever uses it.
  [[nodiscard]] Result<void> At(Place place, const std::function<Result<void>()>& work) const;
  // A UDP socket that neither blocks nor outlives exec.
  [[nodiscard]] Result<int> UdpSocket(Place place) const;
  // For good: the calling thread, or a process that has but one.
  [[nodiscard]] Result<void> Enter(Place place) const;

 private:
  using Descriptors = std::array<int, 3>;  // by Place
  static constexpr Descriptors kNone = {-1, -1, -1};

  HostNetwork() = default;
  [[nodiscard]] Result<void> Connect(Place place) const;

  Descriptors namespaces_ = kNone;
};

}  // namespace spillway::lab
