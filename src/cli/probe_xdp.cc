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
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/netlink.h"

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

int MakeVeth(base::NetlinkSocket& netlink) {
  base::NetlinkRequest<ifinfomsg> request(RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
  nlmsghdr* message = request.header();
  mnl_attr_put_strz(message, IFLA_IFNAME, "spw0");
  nlattr* info = mnl_attr_nest_start(message, IFLA_LINKINFO);
  mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
  nlattr* data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
  nlattr* peer = mnl_attr_nest_start(message, VETH_INFO_PEER);
  mnl_nlmsg_put_extra_header(message, sizeof(ifinfomsg));
  mnl_attr_put_strz(message, IFLA_IFNAME, "spw1");
  mnl_attr_nest_end(message, peer);
  mnl_attr_nest_end(message, data);
  mnl_attr_nest_end(message, info);
  return netlink.Ask(request);
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
  base::NetlinkSocket netlink(NETLINK_ROUTE);
  if ((stages.error[kSocket] = netlink ? 0 : errno) != 0) return;
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
  if (!heard) return {.detail = "the probe's process exited early"};
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
