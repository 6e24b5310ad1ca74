// SPDX-License-Identifier: Apache-2.0
#include "device_check.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/fd.h"
#include "base/netlink.h"

namespace spillway::switching {
namespace {

// linux/netdev.h, which Linux 6.3 brought.
constexpr char kNetdevFamily[] = "netdev";
constexpr uint8_t kNetdevGet = 1;
constexpr uint16_t kNetdevIfindex = 1, kNetdevXdpFeatures = 3;

// 0 where the driver does not know.
uint32_t EthtoolValue(int fd, const std::string& interface, uint32_t command) {
  ethtool_value value{};
  value.cmd = command;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);
  return ioctl(fd, SIOCETHTOOL, &request) == 0 ? value.data : 0;
}

std::string Driver(int fd, const std::string& interface) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  return ioctl(fd, SIOCETHTOOL, &request) == 0 ? info.driver : "";
}

bool IsLoopback(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_LOOPBACK) != 0;
}

// VLAN interfaces on top, and a veth's other end.
void ReadLinks(uint32_t ifindex, Device& device) {
  base::NetlinkSocket netlink(NETLINK_ROUTE);
  if (!netlink) return;
  base::NetlinkRequest<ifinfomsg> request(RTM_GETLINK, NLM_F_DUMP);
  netlink.Ask(request, [&](const nlmsghdr& message) {
    if (message.nlmsg_type != RTM_NEWLINK) return;
    const auto* link = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(&message));
    uint32_t below = 0;
    bool elsewhere = false;
    std::string kind;
    base::ForEachAttribute(message, sizeof(ifinfomsg), [&](const nlattr& attribute) {
      const uint16_t type = mnl_attr_get_type(&attribute);
      if (type == IFLA_LINK) below = base::ValueOf<uint32_t>(attribute).value_or(0);
      if (type == IFLA_LINK_NETNSID) elsewhere = true;
      if (type != IFLA_LINKINFO) return;
      base::ForEachNested(attribute, [&](const nlattr& inner) {
        if (mnl_attr_get_type(&inner) == IFLA_INFO_KIND) kind = base::TextOf(inner);
      });
    });
    if (elsewhere) return;
    if (kind == "vlan" && below == ifindex) device.has_vlans = true;
    char name[IF_NAMESIZE];
    if (kind == "veth" && static_cast<uint32_t>(link->ifi_index) == ifindex &&
        if_indextoname(below, name) != nullptr)
      device.peer = name;
  });
}

std::optional<uint64_t> XdpFeatures(uint32_t ifindex) {
  base::NetlinkSocket netlink(NETLINK_GENERIC);
  if (!netlink) return std::nullopt;
  base::NetlinkRequest<genlmsghdr> family(GENL_ID_CTRL, 0);
  family.body() = {.cmd = CTRL_CMD_GETFAMILY, .version = 1, .reserved = 0};
  mnl_attr_put_strz(family.header(), CTRL_ATTR_FAMILY_NAME, kNetdevFamily);
  uint16_t id = 0;
  netlink.Ask(family, [&](const nlmsghdr& message) {
    base::ForEachAttribute(message, sizeof(genlmsghdr), [&](const nlattr& attribute) {
      if (mnl_attr_get_type(&attribute) == CTRL_ATTR_FAMILY_ID)
        id = base::ValueOf<uint16_t>(attribute).value_or(0);
    });
  });
  if (id == 0) return std::nullopt;
  base::NetlinkRequest<genlmsghdr> get(id, 0);
  get.body() = {.cmd = kNetdevGet, .version = 1, .reserved = 0};
  mnl_attr_put_u32(get.header(), kNetdevIfindex, ifindex);
  std::optional<uint64_t> features;
  netlink.Ask(get, [&](const nlmsghdr& message) {
    base::ForEachAttribute(message, sizeof(genlmsghdr), [&](const nlattr& attribute) {
      if (mnl_attr_get_type(&attribute) == kNetdevXdpFeatures) features = base::ValueOf<uint64_t>(attribute);
    });
  });
  return features;
}

std::optional<bool> Forwards(const char* family, const std::string& interface) {
  std::ifstream file(fmt::format("/proc/sys/net/{}/conf/{}/forwarding", family, interface));
  int on = 0;
  if (!(file >> on)) return std::nullopt;
  return on != 0;
}

}  // namespace

Result<Device> ReadDevice(const std::string& interface) {
  const uint32_t ifindex = if_nametoindex(interface.c_str());
  if (ifindex == 0) return Fail(ErrorCode::kBadInput, fmt::format("no interface {} here", interface));
  const base::Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", std::strerror(errno)));
  Device device;
  device.name = interface;
  device.driver = Driver(any.get(), interface);
  device.is_loopback = IsLoopback(any.get(), interface);
  device.tx_checksum = EthtoolValue(any.get(), interface, ETHTOOL_GTXCSUM) != 0;
  const uint32_t flags = EthtoolValue(any.get(), interface, ETHTOOL_GFLAGS);
  device.strips_vlans = (flags & ETH_FLAG_RXVLAN) != 0;
  device.merges = (flags & ETH_FLAG_LRO) != 0;
  ReadLinks(ifindex, device);
  device.xdp_features = XdpFeatures(ifindex);
  device.forwards_v4 = Forwards("ipv4", interface);
  // XDP's look-up of routes asks the interface, the kernel's own forwarding the switch for all.
  device.forwards_v6 = Forwards("ipv6", interface);
  if (device.forwards_v6 == true) device.forwards_v6 = Forwards("ipv6", "all");
  if (!device.peer.empty())
    device.peer_tx_checksum = EthtoolValue(any.get(), device.peer, ETHTOOL_GTXCSUM) != 0;
  return device;
}

std::set<model::Address> OwnAddresses() {
  std::set<model::Address> own;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return own;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    model::Address address;
    if (at->ifa_addr->sa_family == AF_INET) {
      std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, 4);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      address.family = 6;
      std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr, 16);
    } else {
      continue;
    }
    own.insert(address);
  }
  return own;
}

std::vector<std::string> IngressProblems(const Device& device) {
  std::vector<std::string> problems;
  if (device.peer_tx_checksum)
    problems.push_back(fmt::format(
        "{0}: packets from behind {1}, its veth peer, leave with wrong checksums and are dropped: "
        "ethtool -K {1} tx off",
        device.name, device.peer));
  if (device.strips_vlans && device.has_vlans)
    problems.push_back(fmt::format(
        "{0}: VLAN tags are taken off before XDP sees them (rx-vlan-offload) and VLAN interfaces are on "
        "it, so tagged packets are forwarded without their tags: ethtool -K {0} rxvlan off",
        device.name));
  if (device.merges)
    problems.push_back(
        fmt::format("{0}: packets are merged before XDP sees them (LRO) and may no longer fit the way "
                    "out: ethtool -K {0} lro off",
                    device.name));
  if (device.xdp_features &&
      (*device.xdp_features & (kXdpBasic | kXdpRedirect)) != (kXdpBasic | kXdpRedirect))
    problems.push_back(
        fmt::format("{}: its driver ({}) reports that it does not redirect packets from XDP to other "
                    "interfaces (xdp_features {:#x})",
                    device.name, device.driver.empty() ? "no name" : device.driver, *device.xdp_features));
  return problems;
}

std::vector<std::string> EgressProblems(const Device& device) {
  if (!device.xdp_features || (*device.xdp_features & kXdpTransmit) != 0) return {};
  return {fmt::format(
      "{}: its driver ({}) cannot transmit packets redirected by XDP (xdp_features {:#x}), so packets that "
      "arrive elsewhere and leave by this interface are lost; redirect_failed counts them{}",
      device.name, device.driver.empty() ? "no name" : device.driver, *device.xdp_features,
      device.driver == "veth" ? ": it can once its peer has an XDP program or GRO "
                                "(ethtool -K PEER gro on)"
                              : "")};
}

std::vector<std::string> ReplyProblems(const Device& device, bool v4, bool v6) {
  std::vector<std::string> problems;
  const auto off = [&](const char* family, const std::string& remedy) {
    problems.push_back(fmt::format(
        "{}: {} forwarding is off, so replies of nat services that come in there do not reach their "
        "clients: {}",
        device.name, family, remedy));
  };
  if (v4 && device.forwards_v4 == false)
    off("IPv4", fmt::format("sysctl -w net/ipv4/conf/{}/forwarding=1", device.name));
  if (v6 && device.forwards_v6 == false)
    off("IPv6",
        "sysctl -w net/ipv6/conf/all/forwarding=1 (accept_ra=2 where routes come by router advertisements)");
  return problems;
}

}  // namespace spillway::switching
