// SPDX-License-Identifier: Apache-2.0
#include "frame_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace spillway::balancer {
namespace {

constexpr size_t kFrameBytes = 4096;  // above the largest frame that XDP leaves in one piece
// Some 1,000 small frames: they wait out what others have of the CPU, or the rest of a quota's period. With
// much more, frames that come too fast would all be passed on, and all too late.
constexpr int kReceiveBytes = 1 << 20;

tl::unexpected<Error> SystemFault(const char* operation, const std::string& interface) {
  const ErrorCode code = errno == EPERM || errno == EACCES ? ErrorCode::kUnavailable : ErrorCode::kSystem;
  return Fail(code, fmt::format("packet socket: {} on {}: {}{}", operation, interface, std::strerror(errno),
                                code == ErrorCode::kUnavailable ? " (needs CAP_NET_RAW)" : ""));
}

// Accepts frames whose destination is `mac`; in the kernel, so that the rest of the interface's traffic costs
// no copy.
bool AttachFilter(int fd, const Mac& mac) {
  const auto high = static_cast<uint32_t>(mac[0]) << 24 | mac[1] << 16 | mac[2] << 8 | mac[3];
  const auto low = static_cast<uint32_t>(mac[4] << 8 | mac[5]);
  std::array<sock_filter, 6> code{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 3),
       BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, 0x40000), BPF_STMT(BPF_RET | BPF_K, 0)}};
  const sock_fprog program{code.size(), code.data()};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace

Result<Mac> ParseMac(const std::string& text) {
  std::array<unsigned, 6> parts{};
  int used = 0;
  const bool good = std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &parts[0], &parts[1], &parts[2],
                                &parts[3], &parts[4], &parts[5], &used) == 6 &&
                    static_cast<size_t>(used) == text.size() && text.size() == 17;
  if (!good || parts[0] & 1)
    return Fail(ErrorCode::kBadInput,
                fmt::format("\"{}\": expected the MAC address of one station, e.g. 02:00:00:00:00:01", text));
  Mac mac;
  for (size_t i = 0; i < mac.size(); i++) mac[i] = static_cast<uint8_t>(parts[i]);
  return mac;
}

struct FramePort::Buffers {
  std::array<mmsghdr, kBatch> received{}, kept{};
  std::array<iovec, kBatch> in{}, out{};
  std::array<std::array<uint8_t, kFrameBytes>, kBatch> bytes;
  size_t kept_count = 0;
};

FramePort::FramePort(int fd) : fd_(fd), buffers_(std::make_unique<Buffers>()) {
  Buffers& b = *buffers_;
  for (size_t i = 0; i < kBatch; i++) {
    b.in[i] = {b.bytes[i].data(), b.bytes[i].size()};
    b.received[i].msg_hdr.msg_iov = &b.in[i];
    b.kept[i].msg_hdr.msg_iov = &b.out[i];
    b.received[i].msg_hdr.msg_iovlen = b.kept[i].msg_hdr.msg_iovlen = 1;
  }
}

FramePort::~FramePort() { close(fd_); }

Result<std::unique_ptr<FramePort>> FramePort::Open(const std::string& interface, const Mac& mac) {
  const unsigned index = if_nametoindex(interface.c_str());
  if (index == 0)
    return Fail(ErrorCode::kBadInput, fmt::format("--interface {}: no such interface here", interface));
  // No protocol until the filter stands and the socket is bound: nothing foreign gets in before.
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return SystemFault("packet socket", interface);
  std::unique_ptr<FramePort> port(new FramePort(fd));
  if (!AttachFilter(fd, mac)) return SystemFault("filter", interface);
  // Past the traffic control: there is nothing to shape, and the agent's meter is not to see it.
  const int on = 1;
  if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) != 0)
    return SystemFault("bypass of queues", interface);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof kReceiveBytes) != 0)
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return SystemFault("bind", interface);
  return port;
}

size_t FramePort::Receive() {
  const int count = recvmmsg(fd_, buffers_->received.data(), kBatch, MSG_DONTWAIT, nullptr);
  return count > 0 ? static_cast<size_t>(count) : 0;
}

std::span<uint8_t> FramePort::frame(size_t i) {
  const mmsghdr& message = buffers_->received[i];
  return {buffers_->bytes[i].data(), message.msg_hdr.msg_flags & MSG_TRUNC ? 0u : message.msg_len};
}

void FramePort::Keep(size_t i) {
  Buffers& b = *buffers_;
  b.out[b.kept_count++] = {b.bytes[i].data(), b.received[i].msg_len};
}

size_t FramePort::Send() {
  Buffers& b = *buffers_;
  size_t taken = 0;
  // The kernel stops at the first frame that it refuses: that one is lost, the rest go on.
  for (size_t at = 0; at < b.kept_count;) {
    const int sent = sendmmsg(fd_, &b.kept[at], static_cast<unsigned>(b.kept_count - at), MSG_DONTWAIT);
    taken += sent > 0 ? static_cast<size_t>(sent) : 0;
    at += sent > 0 ? static_cast<size_t>(sent) : 1;
  }
  b.kept_count = 0;
  return taken;
}

uint64_t FramePort::TakeOverflows() {
  tpacket_stats statistics{};
  socklen_t length = sizeof statistics;
  if (getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &statistics, &length) != 0) return 0;
  return statistics.tp_drops;
}

}  // namespace spillway::balancer
