// SPDX-License-Identifier: Apache-2.0
// The AF_PACKET source of the latency meter: copies the head of every frame of the interface into
// the process. Costs a copy and a share of a system call per packet; BPF costs neither.
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "agent/meters/latency_meter.h"
#include "agent/meters/packet_accounting.h"
#include "agent/meters/reading.h"
#include "agent/meters/system_clock.h"

namespace spillway::agent {
namespace {

constexpr size_t kBatch = 64;
constexpr size_t kHead = 136;       // Ethernet, 2 tags, IPv6, the longest TCP header, "HTTP/1.1 503": 134
constexpr size_t kMaxBatches = 64;  // per Drain, so that a flood does not starve the reports

class PacketMeter final : public LatencyMeter {
 public:
  PacketMeter(const AgentConfig& config, const sockaddr_ll& address, int fd)
      : LatencyMeter(config), accounting_(config, RandomSeed()), address_(address), fd_(fd) {
    memory_ = accounting_.memory();
    for (size_t i = 0; i < kBatch; i++) {
      vectors_[i] = {buffers_[i].data() + 2, kHead};  // so that IP headers are aligned
      messages_[i].msg_hdr = {};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
      messages_[i].msg_hdr.msg_name = &senders_[i];
      messages_[i].msg_hdr.msg_control = controls_[i].data();
    }
  }
  ~PacketMeter() override { close(fd_); }

  int fd() const override { return fd_; }
  const char* name() const override { return "af_packet"; }

  // The kernel unbinds a socket from an interface that goes.
  Result<bool> KeepAttached() override {
    sockaddr_ll bound{};
    socklen_t length = sizeof(bound);
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &length) == 0 &&
        bound.sll_ifindex == address_.sll_ifindex)
      return false;
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)) == 0) return true;
    return Fail(ErrorCode::kSystem, fmt::format("AF_PACKET: bind: {}", strerror(errno)));
  }

  Notice Drain() override {
    Notice notice = Notice::kNone;
    for (size_t batch = 0; batch < kMaxBatches; batch++) {
      for (size_t i = 0; i < kBatch; i++) {
        messages_[i].msg_hdr.msg_namelen = sizeof(senders_[i]);
        messages_[i].msg_hdr.msg_controllen = controls_[i].size();
      }
      const int count = recvmmsg(fd_, messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
      if (count <= 0) break;
      // The kernel stamps packets in Unix time; the meter counts in monotonic time.
      const Time offset = ReadClock(CLOCK_MONOTONIC) - ReadClock(CLOCK_REALTIME);
      for (int i = 0; i < count; i++)
        if (Account(i, offset) != SPW_METER_NOTHING) notice = Notice::kLook;
      if (static_cast<size_t>(count) < kBatch) break;
    }
    return notice;
  }

  Result<Reading> Read(Time now) override {
    Drain();
    return LatencyMeter::Read(now);
  }

  uint64_t packets_lost() override {
    tpacket_stats stats{};
    socklen_t length = sizeof(stats);
    if (getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0) lost_ += stats.tp_drops;
    return lost_;
  }

 private:
  spw_meter_event Account(int i, Time offset) {
    const uint8_t type = senders_[i].sll_pkttype;
    if (type != PACKET_HOST && type != PACKET_OUTGOING) return SPW_METER_NOTHING;
    timespec stamp{};
    tpacket_auxdata auxiliary{};
    msghdr& header = messages_[i].msg_hdr;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c))
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS)
        std::memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
      else if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA)
        std::memcpy(&auxiliary, CMSG_DATA(c), sizeof(auxiliary));
    const Time when =
        stamp.tv_sec ? std::chrono::seconds(stamp.tv_sec) + std::chrono::nanoseconds(stamp.tv_nsec) + offset
                     : ReadClock(CLOCK_MONOTONIC);
    const size_t bytes = messages_[i].msg_len;
    return accounting_.OnFrame({buffers_[i].data() + 2, std::min(bytes, kHead)},
                               std::max(auxiliary.tp_len, static_cast<uint32_t>(bytes)),
                               type == PACKET_HOST ? SPW_METER_INGRESS : SPW_METER_EGRESS, when);
  }

  PacketAccounting accounting_;
  const sockaddr_ll address_;
  int fd_;
  uint64_t lost_ = 0;
  alignas(4) std::array<std::array<uint8_t, kHead + 4>, kBatch> buffers_;
  alignas(cmsghdr) std::array<std::array<char, 128>, kBatch> controls_;
  std::array<sockaddr_ll, kBatch> senders_{};
  std::array<iovec, kBatch> vectors_{};
  std::array<mmsghdr, kBatch> messages_{};
};

}  // namespace

Result<std::unique_ptr<LatencyMeter>> OpenPacketMeter(const AgentConfig& config, int ifindex) {
  const auto fail = [&](const char* what) {
    const int error = errno;
    return Fail(error == EPERM ? ErrorCode::kUnavailable : ErrorCode::kSystem,
                fmt::format("interface {}: AF_PACKET: {}: {}", config.interface, what, strerror(error)));
  };
  // Protocol 0: nothing comes in before the filter and the interface are set.
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fail("socket");
  sock_filter keep_head[] = {BPF_STMT(BPF_RET | BPF_K, kHead)};
  const sock_fprog filter{1, keep_head};
  const int on = 1, receive_bytes = 8 << 20;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = ifindex;
  const char* failed = nullptr;
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0)
    failed = "SO_ATTACH_FILTER";
  else if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) != 0)
    failed = "SO_TIMESTAMPNS";
  else if (setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) != 0)
    failed = "PACKET_AUXDATA";  // the length of frames whose head alone is copied
  else if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    failed = "bind";
  if (failed) {
    auto error = fail(failed);
    close(fd);
    return error;
  }
  // Best effort: the default holds some 300 frames.
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &receive_bytes, sizeof(receive_bytes)) != 0)
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  return std::make_unique<PacketMeter>(config, address, fd);
}

}  // namespace spillway::agent
