// SPDX-License-Identifier: Apache-2.0
// Where the traffic of hosts with a SmartNIC runs: in network namespaces, the client's, the hosts' and
// the SmartNIC's, the client joined to each of the others by a veth pair, whose packets to each other it
// forwards; or, without the privilege, all on loopback. The namespaces have no names: they are gone with the
// process, however it ends.
//
//   host 10.78.1.2 ──veth── client ──veth── nic 10.78.2.2     further hosts: 10.78.3.2 ...
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway::lab {

class HostNetwork {
 public:
  enum class Place : uint8_t { kClient, kHost, kNic };

  [[nodiscard]] static HostNetwork Loopback() { return {}; }
  // Errors: kUnavailable, when it may not (root may); kSystem, such as that `ip` fails.
  [[nodiscard]] static Result<HostNetwork> Namespaces(int hosts = 1);
  // From 1 on.
  [[nodiscard]] static Place Host(int number) { return static_cast<Place>(number == 1 ? 1 : number + 1); }
  ~HostNetwork();
  HostNetwork(HostNetwork&& other) noexcept : namespaces_(std::exchange(other.namespaces_, {})) {}
  HostNetwork& operator=(HostNetwork&&) = delete;

  [[nodiscard]] bool separate() const { return !namespaces_.empty(); }
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
  // A file that is the namespace, as long as this is here; empty on loopback.
  [[nodiscard]] std::string FileOf(Place place) const;
  // For good: the calling thread, or a process that has but one.
  [[nodiscard]] Result<void> Enter(Place place) const;

 private:
  HostNetwork() = default;
  [[nodiscard]] Result<void> Connect(Place place) const;

  std::vector<int> namespaces_;  // descriptors by Place; none: loopback
};

}  // namespace spillway::lab
