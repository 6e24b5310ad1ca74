// SPDX-License-Identifier: Apache-2.0
#include "probe_xdp.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spillway::command {
namespace {

// What the child reports to its parent.
enum Stage : uint8_t { kNamespace, kSocket, kVeth, kProgram, kGeneric, kNative, kStages };
constexpr const char* kStageNames[] = {"make a network namespace", "open a netlink socket",
                                       "make a veth pair",         "load an XDP program",
                                       "attach in generic mode",   "attach in native mode"};

struct StageErrors {
  int error[kStages];  // 0: done; -1: not tried
};

// An RTM_NEWLINK request, grown attribute by attribute.
class LinkRequest {
 public:
  LinkRequest() {
    header()->nlmsg_len = NLMSG_LENGTH(sizeof(ifinfomsg));
    header()->nlmsg_type = RTM_NEWLINK;
    header()->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  }
  void Put(uint16_t type, const void* data, size_t size) {
    auto* attribute = reinterpret_cast<rtattr*>(End());
    attribute->rta_type = type;
    attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(size));
    if (size > 0) std::memcpy(RTA_DATA(attribute), data, size);
    header()->nlmsg_len += RTA_ALIGN(attribute->rta_len);
  }
  void Put(uint16_t type, const char* text) { Put(type, text, std::strlen(text) + 1); }
  rtattr* Open(uint16_t type) {
    auto* nest = reinterpret_cast<rtattr*>(End());
    Put(type, nullptr, 0);
    return nest;
  }
  void Close(rtattr* nest) { nest->rta_len = static_cast<uint16_t>(End() - reinterpret_cast<char*>(nest)); }
  void Skip(size_t bytes) { header()->nlmsg_len += NLMSG_ALIGN(bytes); }
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(buffer_); }

 private:
  char* End() { return buffer_ + NLMSG_ALIGN(header()->nlmsg_len); }

  alignas(nlmsghdr) char buffer_[512] = {};
};

int MakeVeth(int netlink) {
  LinkRequest request;
  request.Put(IFLA_IFNAME, "spw0");
  rtattr* info = request.Open(IFLA_LINKINFO);
  request.Put(IFLA_INFO_KIND, "veth", 4);
  rtattr* data = request.Open(IFLA_INFO_DATA);
  rtattr* peer = request.Open(VETH_INFO_PEER);
  request.Skip(sizeof(ifinfomsg));
  request.Put(IFLA_IFNAME, "spw1");
  request.Close(peer);
  request.Close(data);
  request.Close(info);
  if (send(netlink, request.header(), request.header()->nlmsg_len, 0) < 0) return errno;
  alignas(nlmsghdr) char answer[1024];
  if (recv(netlink, answer, sizeof(answer), 0) < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr))))
    return EPROTO;
  return -reinterpret_cast<nlmsgerr*>(NLMSG_DATA(reinterpret_cast<nlmsghdr*>(answer)))->error;
}

int LoadPass() {
  const bpf_insn program[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  return bpf_prog_load(BPF_PROG_TYPE_XDP, "spw_probe", "Apache-2.0", program, 2, nullptr);
}

int Attach(int ifindex, int program, uint32_t mode) {
  const int error = bpf_xdp_attach(ifindex, program, mode, nullptr);
  if (error == 0) bpf_xdp_detach(ifindex, mode, nullptr);
  return -error;
}

// In the child: everything made here ends with it, since its namespace does.
void Try(StageErrors& stages) {
  for (int& error : stages.error) error = -1;
  libbpf_set_print(nullptr);
  if ((stages.error[kNamespace] = unshare(CLONE_NEWNET) == 0 ? 0 : errno) != 0) return;
  const int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if ((stages.error[kSocket] = netlink >= 0 ? 0 : errno) != 0) return;
  if ((stages.error[kVeth] = MakeVeth(netlink)) != 0) return;
  const int program = LoadPass();
  if ((stages.error[kProgram] = program >= 0 ? 0 : -program) != 0) return;
  const int ifindex = static_cast<int>(if_nametoindex("spw0"));
  stages.error[kGeneric] = Attach(ifindex, program, XDP_FLAGS_SKB_MODE);
  stages.error[kNative] = Attach(ifindex, program, XDP_FLAGS_DRV_MODE);
}

}  // namespace

XdpProbe ProbeXdpOnVeth() {
  int ends[2];
  if (pipe(ends) != 0) return {.detail = std::strerror(errno)};
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return {.detail = std::strerror(errno)};
  }
  if (child == 0) {
    StageErrors stages;
    Try(stages);
    _exit(write(ends[1], &stages, sizeof(stages)) == sizeof(stages) ? 0 : 1);
  }
  close(ends[1]);
  StageErrors stages;
  const bool heard = read(ends[0], &stages, sizeof(stages)) == sizeof(stages);
  close(ends[0]);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!heard) return {.detail = "the probe's process ended early"};
  XdpProbe probe{.namespaces = stages.error[kNamespace] == 0,
                 .native = stages.error[kNative] == 0,
                 .generic = stages.error[kGeneric] == 0,
                 .detail = ""};
  for (int stage = 0; stage < kStages; stage++)
    if (stages.error[stage] > 0 && probe.detail.empty())
      probe.detail = fmt::format("{}: {}", kStageNames[stage], std::strerror(stages.error[stage]));
  return probe;
}

}  // namespace spillway::command
