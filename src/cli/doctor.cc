// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"

#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

#include "cli/probe_xdp.h"
#include "switch/device_check.h"

namespace spillway::command {
namespace {

// Bits of /proc/self/status's CapEff.
uint64_t EffectiveCapabilities() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:")) return std::stoull(line.substr(7), nullptr, 16);
  return 0;
}

Finding Privileges() {
  const uint64_t caps = EffectiveCapabilities();
  const auto has = [caps](int capability) { return (caps >> capability & 1) != 0; };
  std::string missing;
  const bool admin = has(CAP_SYS_ADMIN);
  if (!has(CAP_NET_ADMIN)) missing += " CAP_NET_ADMIN";
  if (!has(CAP_BPF) && !admin) missing += " CAP_BPF";
  if (!has(CAP_PERFMON) && !admin) missing += " CAP_PERFMON";
  return {"privileges", missing.empty(), Need::kRequired, "spillwayd, spillway-agent, lab",
          missing.empty() ? fmt::format("uid {}", geteuid()) : "run as root; missing:" + missing};
}

Finding Kernel() {
  utsname name{};
  uname(&name);
  int major = 0, minor = 0;
  std::sscanf(name.release, "%d.%d", &major, &minor);
  return {"Linux 6.1 or later", major > 6 || (major == 6 && minor >= 1), Need::kRequired, "spillwayd",
          name.release};
}

Finding BpfTypes() {
  libbpf_set_print(nullptr);
  std::string missing;
  if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_XDP, nullptr) != 1) missing += " XDP programs,";
  if (libbpf_probe_bpf_map_type(BPF_MAP_TYPE_ARRAY, nullptr) != 1) missing += " array maps,";
  if (libbpf_probe_bpf_map_type(BPF_MAP_TYPE_PERCPU_ARRAY, nullptr) != 1) missing += " per-CPU array maps,";
  // Newer than the rest that the switch calls (Linux 5.11); asked last, as it says no without privileges.
  if (missing.empty() &&
      libbpf_probe_bpf_helper(BPF_PROG_TYPE_XDP, BPF_FUNC_ktime_get_coarse_ns, nullptr) != 1)
    missing += " the ktime_get_coarse_ns helper,";
  if (libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, nullptr) != 1) missing += " ring buffers,";
  return {"BPF", missing.empty(), Need::kRequired, "spillwayd, spillway-agent",
          missing.empty() ? "XDP programs, array maps and helpers"
                          : "refused:" + missing.substr(0, missing.size() - 1)};
}

Finding Btf() {
  const char* const path = "/sys/kernel/btf/vmlinux";
  const bool present = access(path, R_OK) == 0;
  return {"BTF", present, Need::kRequired, "spillwayd, spillway-agent",
          fmt::format("{}{}", path, present ? "" : ": missing; the kernel needs CONFIG_DEBUG_INFO_BTF")};
}

Finding BpfFileSystem(const std::string& path) {
  struct statfs info;
  const bool mounted = statfs(path.c_str(), &info) == 0 && info.f_type == BPF_FS_MAGIC;
  return {"bpffs", mounted, Need::kHelpful, "spillwayd",
          mounted ? path : path + ": not mounted; spillwayd mounts it where it may"};
}

Finding Jit() {
  std::ifstream file("/proc/sys/net/core/bpf_jit_enable");
  int enabled = 0;
  const bool known = static_cast<bool>(file >> enabled);
  return {"BPF JIT", !known || enabled > 0, Need::kHelpful, "speed",
          !known         ? "always on, or not known: there is no net.core.bpf_jit_enable here"
          : enabled == 0 ? "set sysctl net.core.bpf_jit_enable=1"
                         : "enabled"};
}

Finding Memlock() {
  utsname name{};
  uname(&name);
  int major = 0, minor = 0;
  std::sscanf(name.release, "%d.%d", &major, &minor);
  if (major > 5 || (major == 5 && minor >= 11))
    return {"memlock", true, Need::kRequired, "spillwayd", "maps are charged to the memory cgroup: no limit"};
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool enough =
      limit.rlim_cur == RLIM_INFINITY || (EffectiveCapabilities() >> CAP_SYS_RESOURCE & 1) != 0;
  return {"memlock", enough, Need::kRequired, "spillwayd",
          enough ? "unlimited, or may be raised" : "raise it: ulimit -l unlimited"};
}

Finding Cgroups() {
  std::ifstream mounts("/proc/self/mounts");
  std::string found;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, folder, type, options;
    words >> device >> folder >> type >> options;
    if (type == "cgroup2") {
      std::string controllers;
      std::getline(std::ifstream(folder + "/cgroup.controllers"), controllers);
      if ((" " + controllers + " ").find(" cpu ") != std::string::npos) found += " v2 at " + folder;
    } else if (type == "cgroup" && ("," + options + ",").find(",cpu,") != std::string::npos) {
      found += " v1 at " + folder;
    }
  }
  return {"cgroup CPU controller", !found.empty(), Need::kHelpful, "lab (real servers)",
          found.empty() ? "not mounted" : found.substr(1)};
}

Finding Offloads(const std::string& interface) {
  Finding finding{"interface " + interface, false, Need::kHelpful, "spillwayd", ""};
  const auto device = switching::ReadDevice(interface);
  if (!device) {
    finding.need = Need::kRequired;
    finding.detail = device.error().message;
    return finding;
  }
  if (device->is_loopback) {
    finding.detail =
        "the loopback interface: no packets from other machines arrive here; name one on which clients' "
        "packets arrive";
    return finding;
  }
  const std::vector<std::string> problems = switching::IngressProblems(*device);
  for (const std::string& problem : problems)
    finding.detail += (finding.detail.empty() ? "" : "; ") + problem;
  finding.present = problems.empty();
  if (!problems.empty()) return finding;
  finding.detail = fmt::format(
      "driver {}, xdp_features {}", device->driver.empty() ? "unknown" : device->driver,
      device->xdp_features ? fmt::format("{:#x}", *device->xdp_features) : "not reported by this kernel");
  if (device->driver == "veth" && device->peer.empty()) {
    finding.is_sure = false;
    finding.detail +=
        "; its peer is in another namespace: unless `ethtool -K PEER tx off` was done there, TCP fails";
  }
  for (const std::string& problem : switching::EgressProblems(*device)) {
    finding.is_sure = false;
    finding.detail += "; if the switch has several interfaces: " + problem +
                      " (some drivers say that they can once a program is attached; spillwayd warns then)";
  }
  return finding;
}

// Of replies in mode nat, which the kernel's routing table sends on: of one family or of both, as the
// services are.
Finding Forwarding(const switching::Device& device) {
  const auto word = [](const std::optional<bool>& forwards) {
    return !forwards ? "not known" : *forwards ? "on" : "off";
  };
  const bool v4 = device.forwards_v4.value_or(false), v6 = device.forwards_v6.value_or(false);
  Finding finding{"forwarding on " + device.name, v4 || v6, Need::kHelpful, "services in mode nat",
                  fmt::format("IPv4 {}, IPv6 {}", word(device.forwards_v4), word(device.forwards_v6))};
  if (!device.forwards_v4 && !device.forwards_v6) {
    finding.present = true;
    finding.is_sure = false;
  }
  if (!v4 || !v6) finding.detail += "; see docs/network.md";
  return finding;
}

}  // namespace

std::vector<Finding> Examine(const std::string& bpffs, const std::vector<std::string>& interfaces) {
  const XdpProbe xdp = ProbeXdpOnVeth();
  const bool attaches = xdp.native || xdp.generic;
  const auto says = [&xdp](bool good, const char* text) {
    return std::string(good ? text : xdp.detail.empty() ? "not tried" : xdp.detail.c_str());
  };
  std::vector<Finding> findings{
      Privileges(),
      Kernel(),
      BpfTypes(),
      Btf(),
      BpfFileSystem(bpffs),
      Memlock(),
      Jit(),
      {"XDP", attaches, Need::kRequired, "spillwayd", says(attaches, "a program attaches")},
      {"native XDP on veth", xdp.native, Need::kHelpful, "lab, demo", says(xdp.native, "attaches")},
      {"network namespaces", xdp.namespaces, Need::kHelpful, "lab, demo",
       says(xdp.namespaces, "can be made")},
      Cgroups()};
  for (const std::string& interface : interfaces) {
    if (const auto device = switching::ReadDevice(interface)) findings.push_back(Forwarding(*device));
    findings.push_back(Offloads(interface));
  }
  return findings;
}

}  // namespace spillway::command
