// SPDX-License-Identifier: Apache-2.0
#include "agent/tc_hook.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spillway::agent {
namespace {

// Late in the chain: our program ends with "go on", so the order matters to nobody else.
constexpr uint32_t kPriority = 0x5350;
constexpr uint32_t kHandle = 0x5350;
constexpr bpf_tc_attach_point kPoints[] = {BPF_TC_INGRESS, BPF_TC_EGRESS};

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

Result<bool> HasFiltersAt(int fd, int ifindex, uint32_t parent) {
  struct {
    nlmsghdr header;
    tcmsg message;
  } request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_GETTFILTER;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.message.tcm_family = AF_UNSPEC;
  request.message.tcm_ifindex = ifindex;
  request.message.tcm_parent = parent;
  if (send(fd, &request, sizeof(request), 0) != sizeof(request))
    return Fail(ErrorCode::kSystem, fmt::format("netlink: send: {}", strerror(errno)));
  bool found = false;
  alignas(nlmsghdr) char buffer[16384];
  for (;;) {
    const ssize_t length = recv(fd, buffer, sizeof(buffer), 0);
    if (length < 0) return Fail(ErrorCode::kSystem, fmt::format("netlink: recv: {}", strerror(errno)));
    int left = static_cast<int>(length);
    for (auto* header = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return found;
      if (header->nlmsg_type == NLMSG_ERROR)
        return Fail(ErrorCode::kSystem, "netlink: listing tc filters failed");
      if (header->nlmsg_type == RTM_NEWTFILTER) found = true;
    }
  }
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

Result<InterfaceLock> InterfaceLock::Take(const std::string& interface, const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Fail(ErrorCode::kSystem,
                fmt::format("interface {}: lock: {}: {}", interface, folder, strerror(errno)));
  struct stat owner {
  }, space{};
  if (stat(folder.c_str(), &owner) != 0 || (owner.st_uid != geteuid() && owner.st_uid != 0) ||
      (owner.st_mode & S_IWOTH) != 0)
    return Fail(ErrorCode::kSystem,
                fmt::format("interface {}: lock: {}: expected a folder that no other user may write to",
                            interface, folder));
  // Interfaces' names are the namespace's own.
  if (stat("/proc/self/ns/net", &space) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("/proc/self/ns/net: {}", strerror(errno)));
  const std::string path = fmt::format("{}/{}-{}.lock", folder, space.st_ino, interface);
  for (;;) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
      return Fail(ErrorCode::kSystem,
                  fmt::format("interface {}: lock: {}: {}", interface, path, strerror(errno)));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      if (error == EWOULDBLOCK)
        return Fail(ErrorCode::kConflict, fmt::format("interface {}: another agent meters it", interface));
      return Fail(ErrorCode::kSystem, fmt::format("interface {}: lock: {}", interface, strerror(error)));
    }
    // The last holder may have removed it between our opening and locking it.
    struct stat held {
    }, named{};
    if (fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino)
      return InterfaceLock(path, fd);
    close(fd);
  }
}

InterfaceLock::~InterfaceLock() {
  if (fd_ < 0) return;
  unlink(path_.c_str());  // while it is held, so that nobody else's is removed
  close(fd_);
}

Result<bool> HasTcFilters(int ifindex) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return Fail(ErrorCode::kSystem, fmt::format("netlink: socket: {}", strerror(errno)));
  Result<bool> any = false;
  for (uint32_t minor : {TC_H_MIN_INGRESS, TC_H_MIN_EGRESS}) {
    any = HasFiltersAt(fd, ifindex, TC_H_MAKE(TC_H_CLSACT, minor));
    if (!any || *any) break;
  }
  close(fd);
  return any;
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
