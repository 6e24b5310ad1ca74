// SPDX-License-Identifier: Apache-2.0
#include "netns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "process.h"

namespace spillway::lab {
namespace {

Result<void> Ethtool(int socket, const std::string& interface, uint32_t command, uint32_t value) {
  ethtool_value request{command, value};
  ifreq ifr{};
  interface.copy(ifr.ifr_name, IFNAMSIZ - 1);
  ifr.ifr_data = reinterpret_cast<char*>(&request);
  if (ioctl(socket, SIOCETHTOOL, &ifr) == 0) return {};
  return Fail(ErrorCode::kSystem,
              fmt::format("set offload {:#x} of {}: {}", command, interface, strerror(errno)));
}

// Checksums are computed by the sender, in full: XDP rewrites addresses and corrects a checksum that is
// there, and would break one that is left for hardware to complete. GRO makes a veth end poll its ring,
// without which frames that XDP sends or redirects to it are dropped.
Result<void> SetOffloads(const std::vector<std::string>& interfaces) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Result<void> set;
  for (const std::string& name : interfaces) {
    if (set) set = Ethtool(fd, name, ETHTOOL_STXCSUM, 0);
    if (set) set = Ethtool(fd, name, ETHTOOL_SGRO, 1);
  }
  close(fd);
  return set;
}

Result<void> SetSwitchSysctls() {
  for (const auto& [key, value] : {std::pair<const char*, const char*>{"ipv4/ip_forward", "1"},
                                   {"ipv6/conf/all/forwarding", "1"},
                                   {"ipv4/conf/all/rp_filter", "0"},
                                   {"ipv4/conf/default/rp_filter", "0"},
                                   // A balancer on a NIC sends to its own unit by way of the switch.
                                   {"ipv4/conf/all/send_redirects", "0"},
                                   {"ipv4/conf/default/send_redirects", "0"}})
    if (auto set = SetSysctl(key, value); !set) return set;
  return {};
}

// A unit owns the VIP but must not answer for it on the link: only the switch does (dsr-l2).
Result<void> SetUnitSysctls() {
  for (const auto& [key, value] : {std::pair<const char*, const char*>{"ipv4/conf/all/rp_filter", "0"},
                                   {"ipv4/conf/all/arp_ignore", "1"},
                                   {"ipv4/conf/all/arp_announce", "2"}})
    if (auto set = SetSysctl(key, value); !set) return set;
  return {};
}

Result<void> Ip(const std::string& netns, const std::string& batch) {
  return Run({"ip", "-n", netns, "-batch", "-"}, batch);
}

// An end's addresses on its link and its routes, as they are to be when the link is up.
std::string LinkBatch(const Link& link, const UnitPlan* unit) {
  std::string batch = fmt::format(
      "addr replace {}/24 dev eth0\naddr replace {}/64 dev eth0 nodad\nlink set eth0 up\n"
      "route replace default via {}\nroute replace default via {}\n",
      link.peer_v4, link.peer_v6, link.switch_v4, link.switch_v6);
  if (unit == nullptr) return batch;
  const std::string own = unit->address.ToString();
  if (own != link.peer_v4 && own != link.peer_v6)
    batch += fmt::format("addr replace {}/{} dev eth0{}\n", own, unit->address.family == 4 ? 32 : 128,
                         unit->address.family == 4 ? "" : " nodad");
  return batch;
}

std::string PeerBatch(const Plan& plan, const Link& link, const UnitPlan* unit) {
  std::string batch = "link set lo up\n" + LinkBatch(link, unit);
  if (unit == nullptr) return batch;
  for (const std::string& vip : plan.dsr_vips)
    batch += vip.find(':') == std::string::npos ? fmt::format("addr add {}/32 dev lo\n", vip)
                                                : fmt::format("addr add {}/128 dev lo nodad\n", vip);
  return batch;
}

Result<void> SetUpEnd(const std::string& netns, const std::string& batch, Result<void> (*sysctls)(),
                      const std::vector<std::string>& interfaces) {
  if (auto set = Inside(netns, sysctls); !set) return set;
  if (auto set = Ip(netns, batch); !set) return set;
  return Inside(netns, [&] { return SetOffloads(interfaces); });
}

}  // namespace

Result<void> SetSysctl(const std::string& key, const std::string& value) {
  std::ofstream out("/proc/sys/net/" + key);
  out << value << std::flush;
  if (out) return {};
  return Fail(ErrorCode::kSystem, fmt::format("write {} to net/{}: {}", value, key, strerror(errno)));
}

Result<void> AddNetns(const std::string& name) { return Run({"ip", "netns", "add", name}); }

void DeleteNetns(const std::string& name) {
  const std::string path = "/run/netns/" + name;
  if (access(path.c_str(), F_OK) != 0) return;
  umount2(path.c_str(), MNT_DETACH);
  unlink(path.c_str());
}

Result<void> Inside(const std::string& netns, const std::function<Result<void>()>& work) {
  Result<void> result;
  std::thread([&] {
    const int fd = open(("/run/netns/" + netns).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
      result = Fail(ErrorCode::kSystem, fmt::format("enter namespace {}: {}", netns, strerror(errno)));
    else
      result = work();
    if (fd >= 0) close(fd);
  }).join();
  return result;
}

Result<void> Connect(const Plan& plan) {
  std::string batch = "link set lo up\n";
  std::vector<std::string> interfaces;
  for (const Link& link : plan.links) {
    batch += fmt::format(
        "link add {0} mtu {1} type veth peer name eth0 mtu {1} netns {2}\naddr add {3}/24 dev {0}\n"
        "addr add {4}/64 dev {0} nodad\nlink set {0} up\n",
        link.label, plan.mtu, link.netns, link.switch_v4, link.switch_v6);
    interfaces.push_back(link.label);
  }
  // Addresses the file gave lie outside the links' networks.
  for (size_t i = 0; i < plan.units.size(); i++) {
    const Link& link = plan.links[i + 1];
    const model::Address& own = plan.units[i].address;
    if (own.ToString() == link.peer_v4 || own.ToString() == link.peer_v6) continue;
    batch += own.family == 4 ? fmt::format("route add {}/32 dev {}\n", own.ToString(), link.label)
                             : fmt::format("route add {}/128 dev {}\n", own.ToString(), link.label);
  }
  for (const NicBalancer& balancer : plan.nic_balancers)
    batch += fmt::format("neigh add {} lladdr {} dev {} nud permanent\n", balancer.front.ToString(),
                         kFrontMac, balancer.link);
  if (auto set = SetUpEnd(plan.switch_netns, batch, SetSwitchSysctls, interfaces); !set) return set;
  for (size_t i = 0; i < plan.links.size(); i++) {
    const UnitPlan* unit = i == 0 ? nullptr : &plan.units[i - 1];
    if (auto set =
            SetUpEnd(plan.links[i].netns, PeerBatch(plan, plan.links[i], unit), SetUnitSysctls, {"eth0"});
        !set)
      return set;
  }
  return {};
}

Result<void> CutLink(const UnitPlan& unit) {
  // By ioctl: `ip` would take longer than the switch takes to notice.
  return Inside(unit.netns, []() -> Result<void> {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    strcpy(request.ifr_name, "eth0");
    bool done = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags = static_cast<short>(request.ifr_flags & ~IFF_UP);
    done = done && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    const int error = errno;
    close(fd);
    if (done) return {};
    return Fail(ErrorCode::kSystem, fmt::format("set eth0 down: {}", strerror(error)));
  });
}

Result<void> RestoreLink(const Plan& plan, const UnitPlan& unit) {
  for (const Link& link : plan.links)
    if (link.netns == unit.netns) return Ip(unit.netns, LinkBatch(link, &unit));
  return Fail(ErrorCode::kSystem, fmt::format("{} has no link", unit.label));
}

bool PortBound(pid_t pid, const model::ServicePort& port) {
  const bool tcp = port.protocol == model::Protocol::kTcp;
  for (const char* table : tcp ? std::vector{"tcp", "tcp6"} : std::vector{"udp", "udp6"}) {
    std::ifstream in(fmt::format("/proc/{}/net/{}", pid, table));
    std::string line, slot, local, remote, state;
    std::getline(in, line);  // heading
    while (std::getline(in, line)) {
      std::istringstream(line) >> slot >> local >> remote >> state;
      // 0A: listening
      if (local.ends_with(fmt::format(":{:04X}", port.port)) && (!tcp || state == "0A")) return true;
    }
  }
  return false;
}

}  // namespace spillway::lab
