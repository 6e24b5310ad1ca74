// SPDX-License-Identifier: Apache-2.0
#include "device_check.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

namespace spillway::switching {
namespace {

// linux/netdev.h, which Linux 6.3 brought.
constexpr char kNetdevFamily[] = "netdev";
constexpr uint8_t kNetdevGet = 1;
constexpr uint16_t kNetdevIfindex = 1, kNetdevXdpFeatures = 3;

class Socket {
 public:
  Socket(int family, int type, int protocol) : fd_(socket(family, type | SOCK_CLOEXEC, protocol)) {
    const timeval patience{1, 0};
    if (fd_ >= 0) setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

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

void ForEachAttribute(const void* first, size_t bytes, const std::function<void(const rtattr&)>& visit) {
  auto* at = static_cast<const rtattr*>(first);
  for (int left = static_cast<int>(bytes); RTA_OK(at, left); at = RTA_NEXT(at, left)) visit(*at);
}

uint32_t Word(const rtattr& attribute) {
  uint32_t word = 0;
  std::memcpy(&word, RTA_DATA(&attribute), std::min<size_t>(sizeof(word), RTA_PAYLOAD(&attribute)));
  return word;
}

// Sends a request of header and body and hands each answer to `visit`. False: refused or lost.
bool Ask(int fd, void* request, size_t bytes, const std::function<void(const nlmsghdr&)>& visit) {
  static_cast<nlmsghdr*>(request)->nlmsg_len = static_cast<uint32_t>(bytes);
  if (send(fd, request, bytes, 0) < 0) return false;
  alignas(nlmsghdr) std::array<char, 32768> answer;
  for (;;) {
    const ssize_t got = recv(fd, answer.data(), answer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    int left = static_cast<int>(got);
    bool more = false;
    for (auto* m = reinterpret_cast<nlmsghdr*>(answer.data()); NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
      if (m->nlmsg_type == NLMSG_DONE) return true;
      if (m->nlmsg_type == NLMSG_ERROR) return static_cast<nlmsgerr*>(NLMSG_DATA(m))->error == 0;
      visit(*m);
      more = (m->nlmsg_flags & NLM_F_MULTI) != 0;
    }
    if (!more) return true;
  }
}

// VLAN interfaces on top, and a veth's other end.
void ReadLinks(uint32_t ifindex, Device& device) {
  const Socket netlink(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  struct {
    nlmsghdr header;
    ifinfomsg body;
  } request{};
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  Ask(netlink.fd(), &request, sizeof(request), [&](const nlmsghdr& message) {
    if (message.nlmsg_type != RTM_NEWLINK) return;
    const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(&message));
    uint32_t below = 0;
    bool elsewhere = false;
    std::string kind;
    ForEachAttribute(IFLA_RTA(link), IFLA_PAYLOAD(&message), [&](const rtattr& attribute) {
      if (attribute.rta_type == IFLA_LINK) below = Word(attribute);
      if (attribute.rta_type == IFLA_LINK_NETNSID) elsewhere = true;
      if (attribute.rta_type != IFLA_LINKINFO) return;
      ForEachAttribute(RTA_DATA(&attribute), RTA_PAYLOAD(&attribute), [&](const rtattr& inner) {
        if (inner.rta_type == IFLA_INFO_KIND)
          kind.assign(static_cast<const char*>(RTA_DATA(&inner)),
                      strnlen(static_cast<const char*>(RTA_DATA(&inner)), RTA_PAYLOAD(&inner)));
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

struct GenericRequest {
  nlmsghdr header;
  genlmsghdr body;
  rtattr attribute;
  char value[16];
};

std::optional<uint64_t> XdpFeatures(uint32_t ifindex) {
  const Socket netlink(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
  constexpr size_t kHead = offsetof(GenericRequest, value);
  GenericRequest family{};
  family.header.nlmsg_type = GENL_ID_CTRL;
  family.header.nlmsg_flags = NLM_F_REQUEST;
  family.body = {.cmd = CTRL_CMD_GETFAMILY, .version = 1, .reserved = 0};
  family.attribute = {.rta_len = RTA_LENGTH(sizeof(kNetdevFamily)), .rta_type = CTRL_ATTR_FAMILY_NAME};
  std::memcpy(family.value, kNetdevFamily, sizeof(kNetdevFamily));
  const auto attributes = [](const nlmsghdr& message, const std::function<void(const rtattr&)>& visit) {
    ForEachAttribute(static_cast<const char*>(NLMSG_DATA(&message)) + GENL_HDRLEN,
                     message.nlmsg_len - NLMSG_SPACE(GENL_HDRLEN), visit);
  };
  uint16_t id = 0;
  Ask(netlink.fd(), &family, kHead + RTA_ALIGN(sizeof(kNetdevFamily)), [&](const nlmsghdr& message) {
    attributes(message, [&](const rtattr& attribute) {
      if (attribute.rta_type == CTRL_ATTR_FAMILY_ID) id = static_cast<uint16_t>(Word(attribute));
    });
  });
  if (id == 0) return std::nullopt;
  GenericRequest get{};
  get.header.nlmsg_type = id;
  get.header.nlmsg_flags = NLM_F_REQUEST;
  get.body = {.cmd = kNetdevGet, .version = 1, .reserved = 0};
  get.attribute = {.rta_len = RTA_LENGTH(sizeof(ifindex)), .rta_type = kNetdevIfindex};
  std::memcpy(get.value, &ifindex, sizeof(ifindex));
  std::optional<uint64_t> features;
  Ask(netlink.fd(), &get, kHead + sizeof(ifindex), [&](const nlmsghdr& message) {
    attributes(message, [&](const rtattr& attribute) {
      uint64_t value = 0;
      if (attribute.rta_type != kNetdevXdpFeatures || RTA_PAYLOAD(&attribute) < sizeof(value)) return;
      std::memcpy(&value, RTA_DATA(&attribute), sizeof(value));
      features = value;
    });
  });
  return features;
}

}  // namespace

Result<Device> ReadDevice(const std::string& interface) {
  const uint32_t ifindex = if_nametoindex(interface.c_str());
  if (ifindex == 0) return Fail(ErrorCode::kBadInput, fmt::format("no interface {} here", interface));
  const Socket any(AF_INET, SOCK_DGRAM, 0);
  if (any.fd() < 0) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", std::strerror(errno)));
  Device device;
  device.name = interface;
  device.driver = Driver(any.fd(), interface);
  device.is_loopback = IsLoopback(any.fd(), interface);
  device.tx_checksum = EthtoolValue(any.fd(), interface, ETHTOOL_GTXCSUM) != 0;
  const uint32_t flags = EthtoolValue(any.fd(), interface, ETHTOOL_GFLAGS);
  device.strips_vlans = (flags & ETH_FLAG_RXVLAN) != 0;
  device.merges = (flags & ETH_FLAG_LRO) != 0;
  ReadLinks(ifindex, device);
  device.xdp_features = XdpFeatures(ifindex);
  if (!device.peer.empty())
    device.peer_tx_checksum = EthtoolValue(any.fd(), device.peer, ETHTOOL_GTXCSUM) != 0;
  return device;
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
      "{}: its driver ({}) takes no packets redirected by XDP (xdp_features {:#x}), so those that "
      "come in elsewhere and leave there are lost; redirect_failed counts them{}",
      device.name, device.driver.empty() ? "no name" : device.driver, *device.xdp_features,
      device.driver == "veth" ? ": it does once its peer has an XDP program or GRO "
                                "(ethtool -K PEER gro on)"
                              : "")};
}

}  // namespace spillway::switching
