// SPDX-License-Identifier: Apache-2.0
// What an interface does to packets before or after the switch's program sees them, and whether that suits
// it: offloads leave work to hardware that a forwarded frame never meets.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/pool.h"

namespace spillway::switching {

// Bits of Device::xdp_features, as the kernel's netlink family "netdev" has them.
inline constexpr uint64_t kXdpBasic = 1, kXdpRedirect = 2, kXdpTransmit = 4;

struct Device {
  std::string name = {}, driver = {};  // driver empty: it gives no name
  bool is_loopback = false;
  bool tx_checksum = false;                   // checksums of packets sent are left to the device
  bool strips_vlans = false;                  // VLAN tags are taken off before the program runs
  bool merges = false;                        // LRO
  bool has_vlans = false;                     // VLAN interfaces are on top of it, so tags are in use
  std::optional<uint64_t> xdp_features = {};  // nullopt: the kernel (before 6.3) does not say
  // Of a veth: its other end, if that is in this namespace.
  std::string peer = {};
  bool peer_tx_checksum = false;
  // Whether packets that come in there may be routed on (net.ipv4.conf.NAME.forwarding, and of IPv6 both
  // NAME's and the one for all); nullopt: not known, or no IPv6.
  std::optional<bool> forwards_v4 = {}, forwards_v6 = {};
};

// Errors: kBadInput, no such interface; kSystem.
[[nodiscard]] Result<Device> ReadDevice(const std::string& interface);

// The addresses of all interfaces of this network namespace.
[[nodiscard]] std::set<model::Address> OwnAddresses();

// What is wrong with it for a program in native mode that takes packets in there and sends them on, each with
// what to do about it. Pure.
std::vector<std::string> IngressProblems(const Device& device);
// Likewise, for packets that are redirected to it.
std::vector<std::string> EgressProblems(const Device& device);
// Likewise, for replies of units behind it to clients of services in mode nat, of these families.
std::vector<std::string> ReplyProblems(const Device& device, bool v4, bool v6);

}  // namespace spillway::switching
