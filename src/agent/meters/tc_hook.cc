// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/tc_hook.h"

#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/netlink.h"

namespace spillway::agent {
namespace {

// Late in the chain: our program ends with "go on", so the order matters to nobody else.
constexpr uint32_t kPriority = 0x5350;
constexpr uint32_t kHandle = 0x5350;
constexpr bpf_tc_attach_point kPoints[] = {BPF_TC_INGRESS, BPF_TC_EGRESS};

constexpr uint16_t kLockProtocol = ETH_P_802_EX1;  // for local experiments
constexpr int kLockGroup = 0x5350;

bpf_tc_hook Hook(int ifindex, int point) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = ifindex;
  hook.attach_point = static_cast<bpf_tc_attach_point>(point);
  return hook;
}

bpf_tc_opts Filter() {
  bpf_tc_opts options{};
  options.sz = sizeof(options);
  options.handle = kHandle;
  options.priority = kPriority;
  return options;
}

// libbpf prints what it returns anyway ("Exclusivity flag on" for a clsact that is there).
class QuietLibbpf {
 public:
  QuietLibbpf() : before_(libbpf_set_print(nullptr)) {}
  ~QuietLibbpf() { libbpf_set_print(before_); }

 private:
  libbpf_print_fn_t before_;
};

}  // namespace

Result<InterfaceLock> InterfaceLock::Take(const std::string& interface, int ifindex) {
  const auto fail = [&](const char* what) {
    return Fail(errno == EPERM ? ErrorCode::kUnavailable : ErrorCode::kSystem,
                fmt::format("interface {}: lock: {}: {}{}", interface, what, strerror(errno),
                            errno == EPERM ? " (needs CAP_NET_RAW)" : ""));
  };
  // Protocol 0: it takes no packet before it is filtered.
  base::Fd socket(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail("AF_PACKET socket");
  sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter{1, nothing};
  if (setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0)
    return fail("SO_ATTACH_FILTER");
  // Only a bound socket may join a group. On no interface, as one that is down would not do; of a protocol
  // that nobody speaks, so that no packet comes this way.
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(kLockProtocol);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail("bind");
  // Its number is all that a group has; two interfaces share one if their indices are 65,536 apart.
  fanout_args group{};
  group.id = static_cast<uint16_t>(kLockGroup + ifindex);
  group.type_flags = PACKET_FANOUT_HASH;
  group.max_num_members = 1;
  if (setsockopt(socket.get(), SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)) == 0)
    return InterfaceLock(std::move(socket));
  if (errno == ENOSPC)
    return Fail(ErrorCode::kConflict, fmt::format("interface {}: another agent meters it", interface));
  if (errno == EINVAL)
    return Fail(ErrorCode::kSystem,
                fmt::format("interface {}: lock: another program's AF_PACKET fanout group has the number {}",
                            interface, uint16_t{group.id}));
  return fail("PACKET_FANOUT");
}

Result<bool> HasTcFilters(int ifindex) {
  base::NetlinkSocket netlink(NETLINK_ROUTE);
  if (!netlink) return Fail(ErrorCode::kSystem, fmt::format("netlink: socket: {}", strerror(errno)));
  bool found = false;
  for (uint32_t minor : {TC_H_MIN_INGRESS, TC_H_MIN_EGRESS}) {
    base::NetlinkRequest<tcmsg> request(RTM_GETTFILTER, NLM_F_DUMP);
    request.body().tcm_family = AF_UNSPEC;
    request.body().tcm_ifindex = ifindex;
    request.body().tcm_parent = TC_H_MAKE(TC_H_CLSACT, minor);
    const int error = netlink.Ask(
        request, [&](const nlmsghdr& message) { found = found || message.nlmsg_type == RTM_NEWTFILTER; });
    if (error != 0)
      return Fail(ErrorCode::kSystem, fmt::format("netlink: listing tc filters: {}", strerror(error)));
  }
  return found;
}

Result<void> TcHook::Attach(int ingress_fd, int egress_fd) {
  QuietLibbpf quiet;
  bpf_tc_hook both = Hook(ifindex_, BPF_TC_INGRESS | BPF_TC_EGRESS);
  int error = bpf_tc_hook_create(&both);
  if (error != 0 && error != -EEXIST)
    return Fail(error == -EPERM ? ErrorCode::kUnavailable : ErrorCode::kSystem,
                fmt::format("interface {}: tc clsact: {}", interface_, strerror(-error)));
  brought_clsact_ = error == 0;
  attached_ = true;
  const int fds[] = {ingress_fd, egress_fd};
  for (int i = 0; i < 2; i++) {
    bpf_tc_hook hook = Hook(ifindex_, kPoints[i]);
    bpf_tc_opts query = Filter();
    // A killed predecessor left its filter, and so its clsact.
    if (!brought_clsact_ && bpf_tc_query(&hook, &query) == 0) brought_clsact_ = true;
    bpf_tc_opts options = Filter();
    options.prog_fd = fds[i];
    options.flags = BPF_TC_F_REPLACE;
    error = bpf_tc_attach(&hook, &options);
    if (error != 0)
      return Fail(ErrorCode::kSystem,
                  fmt::format("interface {}: tc filter: {}", interface_, strerror(-error)));
  }
  return {};
}

bool TcHook::IsAttached() const {
  QuietLibbpf quiet;
  for (int point : kPoints) {
    bpf_tc_hook hook = Hook(ifindex_, point);
    bpf_tc_opts query = Filter();
    if (bpf_tc_query(&hook, &query) != 0) return false;
  }
  return true;
}

TcHook::~TcHook() {
  if (!attached_) return;
  QuietLibbpf quiet;
  for (int point : kPoints) {
    bpf_tc_hook hook = Hook(ifindex_, point);
    bpf_tc_opts options = Filter();
    bpf_tc_detach(&hook, &options);
  }
  const Result<bool> others = HasTcFilters(ifindex_);
  if (brought_clsact_ && others && !*others) {
    bpf_tc_hook both = Hook(ifindex_, BPF_TC_INGRESS | BPF_TC_EGRESS);
    bpf_tc_hook_destroy(&both);
  }
}

}  // namespace spillway::agent
