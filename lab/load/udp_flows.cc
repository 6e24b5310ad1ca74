// SPDX-License-Identifier: Apache-2.0
#include "udp_flows.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "lab/unit/clock.h"
#include "lab/unit/wire.h"

namespace spillway::load {

namespace {

constexpr std::size_t kPersistentFlows = 64;
// Fits a default range of ephemeral ports (28,232) and most limits on open files.
constexpr std::size_t kPoolFlows = 16384;
constexpr std::size_t kBatch = 16;

std::size_t PortsIn(const PortRange& range) { return static_cast<std::size_t>(range.high - range.low) + 1; }

std::size_t SourcesIn(const Settings& settings) {
  return std::max<std::size_t>(1, settings.sources.size()) *
         (settings.source_ports ? PortsIn(*settings.source_ports) : 1);
}

}  // namespace

std::size_t FlowsWanted(const Settings& settings) {
  if (settings.flows != 0) return settings.flows;
  if (!settings.flow_per_request) return kPersistentFlows;
  if (settings.source_ports) return SourcesIn(settings);
  const double requests = std::ceil(settings.ExpectedRequests() * 1.1) + 16;
  return static_cast<std::size_t>(std::min(requests, static_cast<double>(kPoolFlows)));
}

std::optional<base::SocketAddress> SourceOf(const Settings& settings, std::size_t index) {
  if (settings.sources.empty() && !settings.source_ports) return std::nullopt;
  base::SocketAddress source;
  if (settings.sources.empty()) {
    source = *base::SocketAddress::ParseHost(settings.target.family() == AF_INET ? "0.0.0.0" : "::");
  } else {
    source = settings.sources[index % settings.sources.size()];
    index /= settings.sources.size();
  }
  if (settings.source_ports) {
    source.set_port(
        static_cast<std::uint16_t>(settings.source_ports->low + index % PortsIn(*settings.source_ports)));
  }
  return source;
}

UdpFlows::UdpFlows(const Settings& settings, Ledger& ledger) : settings_(settings), ledger_(ledger) {}

UdpFlows::~UdpFlows() {
  for (int fd : sockets_) ::close(fd);
}

Result<int> UdpFlows::OpenSocket(std::size_t index) {
  const int fd = ::socket(settings_.target.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return Fail(ErrorCode::kSystem,
                fmt::format("socket {} of {}: {}", index + 1, FlowsWanted(settings_), std::strerror(errno)));
  }
  std::optional<base::SocketAddress> source = SourceOf(settings_, index + skipped_ports_);
  bool ok = true;
  if (source) {
    ok = ::bind(fd, source->get(), source->length) == 0;
    // Some port of the range may belong to another program: pass over it, as long as there are others.
    while (!ok && errno == EADDRINUSE && settings_.source_ports &&
           index + skipped_ports_ + 1 < SourcesIn(settings_)) {
      source = SourceOf(settings_, index + ++skipped_ports_);
      ok = ::bind(fd, source->get(), source->length) == 0;
    }
  }
  const char* operation = ok ? "connect to" : "bind for";
  ok = ok && ::connect(fd, settings_.target.get(), settings_.target.length) == 0;
  if (!ok) {
    const int error = errno;
    ::close(fd);
    return Fail(
        error == EADDRINUSE ? ErrorCode::kConflict : ErrorCode::kSystem,
        fmt::format("flow {} of {}: {} {}{}: {}", index + 1, FlowsWanted(settings_), operation,
                    settings_.target.Text(), source ? " from " + source->Text() : "", std::strerror(error)));
  }
  unit::EnableReceiveStamps(fd);
  return fd;
}

Result<void> UdpFlows::Open(int epoll_fd) {
  const std::size_t wanted = FlowsWanted(settings_);
  for (std::size_t i = 0; i < wanted; ++i) {
    const Result<int> fd = OpenSocket(i);
    if (!fd) {
      // A range with a few ports taken still makes a pool.
      if (fd.error().code == ErrorCode::kConflict && settings_.flows == 0 && !sockets_.empty()) break;
      return tl::make_unexpected(fd.error());
    }
    sockets_.push_back(*fd);
    epoll_event event{EPOLLIN, {.u64 = i}};
    if (::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, *fd, &event) != 0)
      return Fail(ErrorCode::kSystem, fmt::format("epoll_ctl: {}", std::strerror(errno)));
  }
  datagram_.assign(unit::kRequestBytes + settings_.payload_bytes, 'x');
  return {};
}

void UdpFlows::Send(std::uint32_t id) {
  const auto flow = static_cast<std::uint32_t>(next_);
  next_ = (next_ + 1) % sockets_.size();
  unit::Encode(unit::Request{id, settings_.payload_bytes, settings_.cost_milli}, datagram_.data());
  const std::int64_t now = unit::MonotonicNs() - start_ns_;
  ssize_t n = ::send(sockets_[flow], datagram_.data(), datagram_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno == ECONNREFUSED) {
    // An ICMP error to an earlier datagram, reported now; this one was not sent.
    ++ledger_.counters.refused;
    n = ::send(sockets_[flow], datagram_.data(), datagram_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (n < 0) {
    ++ledger_.counters.send_failed;
  } else {
    ledger_.Sent(id, flow, now);
  }
}

void UdpFlows::OnEvent(std::uint64_t key, std::uint32_t) {
  std::array<mmsghdr, kBatch> headers{};
  std::array<iovec, kBatch> pieces{};
  // Only the head of an answer is read; the kernel returns the whole length.
  std::array<std::array<char, unit::kAnswerBytes>, kBatch> bytes;
  alignas(cmsghdr) std::array<std::array<char, unit::kControlBytes>, kBatch> control;
  for (std::size_t i = 0; i < kBatch; ++i) {
    pieces[i] = {bytes[i].data(), bytes[i].size()};
    headers[i].msg_hdr.msg_iov = &pieces[i];
    headers[i].msg_hdr.msg_iovlen = 1;
    headers[i].msg_hdr.msg_control = control[i].data();
    headers[i].msg_hdr.msg_controllen = control[i].size();
  }
  const int count = ::recvmmsg(sockets_[key], headers.data(), kBatch, MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (count < 0) {
    if (errno == ECONNREFUSED) ++ledger_.counters.refused;
    return;
  }
  const std::int64_t now = unit::MonotonicNs(), offset = unit::RealtimeOffsetNs();
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::optional<unit::Answer> answer;
    if (headers[i].msg_len >= unit::kAnswerBytes) answer = unit::DecodeAnswer(bytes[i].data());
    if (!answer || headers[i].msg_len != unit::kAnswerBytes + settings_.payload_bytes) {
      ++ledger_.counters.foreign;
      continue;
    }
    ledger_.Answered(answer->request.id, static_cast<std::uint32_t>(key),
                     unit::ReceiveTimeNs(headers[i].msg_hdr, offset, now) - start_ns_, answer->unit);
  }
}

}  // namespace spillway::load
