// SPDX-License-Identifier: Apache-2.0
#include "tcp_links.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "lab/unit/clock.h"
#include "lab/unit/wire.h"
#include "udp_flows.h"

namespace spillway::load {

namespace {

constexpr std::size_t kReadBytes = 256 << 10;
constexpr int kBindAttempts = 64;  // ports still in TIME_WAIT or another program's are passed over

}  // namespace

TcpLinks::TcpLinks(const Settings& settings, Ledger& ledger)
    : settings_(settings), ledger_(ledger), buffer_(kReadBytes) {}

TcpLinks::~TcpLinks() {
  for (std::uint32_t slot = 0; slot < links_.size(); ++slot) {
    if (links_[slot].fd >= 0) Close(slot, settings_.reset_close);
  }
}

Result<void> TcpLinks::Open(int epoll_fd) {
  epoll_fd_ = epoll_fd;
  if (settings_.flow_per_request) return {};
  links_.resize(FlowsWanted(settings_));
  for (std::uint32_t slot = 0; slot < links_.size(); ++slot) (void)Connect(slot);
  const std::int64_t deadline = unit::MonotonicNs() + ledger_.timeout_ns();
  const auto any = [&](bool connected) {
    return std::any_of(links_.begin(), links_.end(),
                       [connected](const Link& link) { return link.fd >= 0 && link.connected == connected; });
  };
  while (any(false) && unit::MonotonicNs() < deadline) {
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 10);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 < kReservedKey) OnEvent(event.data.u64, event.events);
    }
  }
  if (any(true)) return {};
  return Fail(ErrorCode::kSystem, fmt::format("tcp {}: {}", settings_.target.Text(),
                                              std::strerror(last_error_ != 0 ? last_error_ : ETIMEDOUT)));
}

std::uint32_t TcpLinks::FlowOf(std::uint32_t slot) const {
  return settings_.flow_per_request ? links_[slot].id : slot;
}

int TcpLinks::BeginConnect(const std::optional<base::SocketAddress>& source) {
  const int fd = ::socket(settings_.target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd >= 0) {
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // With an address but no port, the port is chosen at connect(), per destination.
    if (!settings_.source_ports) (void)::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    unit::EnableReceiveStamps(fd);
    if ((!source || ::bind(fd, source->get(), source->length) == 0) &&
        (::connect(fd, settings_.target.get(), settings_.target.length) == 0 || errno == EINPROGRESS))
      return fd;
  }
  last_error_ = errno;
  if (fd >= 0) ::close(fd);
  return -1;
}

bool TcpLinks::Connect(std::uint32_t slot) {
  Link& link = links_[slot];
  const std::uint32_t serial = link.serial + 1;
  const std::uint32_t id = link.id;
  link = Link{};
  link.serial = serial;
  link.id = id;
  int fd = -1;
  for (int attempt = 0; fd < 0 && attempt < kBindAttempts; ++attempt) {
    fd = BeginConnect(SourceOf(settings_, sources_used_++));
    // Only another port can help.
    if (fd < 0 && (!settings_.source_ports || (last_error_ != EADDRINUSE && last_error_ != EADDRNOTAVAIL)))
      break;
  }
  epoll_event event{EPOLLIN | EPOLLOUT, {.u64 = std::uint64_t{slot} | std::uint64_t{serial} << 31}};
  if (fd < 0 || ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    if (fd >= 0) ::close(fd);
    ++ledger_.counters.connect_failed;
    return false;
  }
  link.fd = fd;
  link.writing = true;
  return true;
}

void TcpLinks::Append(Link& link, std::uint32_t id) {
  const std::size_t at = link.out.size();
  link.out.resize(at + unit::kRequestBytes + settings_.payload_bytes, 'x');
  unit::Encode(unit::Request{id, settings_.payload_bytes, settings_.cost_milli}, link.out.data() + at);
}

void TcpLinks::Send(std::uint32_t id) {
  const std::int64_t now = unit::MonotonicNs() - start_ns_;
  std::uint32_t slot = 0;
  if (settings_.flow_per_request) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(links_.size()));
      links_.emplace_back();
    }
    slot = free_.back();
    links_[slot].id = id;
    if (!Connect(slot)) {
      ++ledger_.counters.send_failed;
      return;
    }
    free_.pop_back();
    open_.emplace_back(slot, links_[slot].serial);
  } else {
    slot = static_cast<std::uint32_t>(next_);
    next_ = (next_ + 1) % links_.size();
    if (links_[slot].fd < 0) {
      ledger_.FlowRestarts(slot);
      if (!Connect(slot)) {
        ++ledger_.counters.send_failed;
        return;
      }
    }
  }
  ledger_.Sent(id, FlowOf(slot), now);
  Append(links_[slot], id);
  if (links_[slot].connected) (void)Flush(slot);
}

void TcpLinks::OnEvent(std::uint64_t key, std::uint32_t events) {
  const auto slot = static_cast<std::uint32_t>(key & 0x7fffffff);
  Link& link = links_[slot];
  if (link.fd < 0 || (link.serial & 0xffffffff) != (key >> 31)) return;  // of an earlier connection
  if (!link.connected) {
    int error = 0;
    socklen_t size = sizeof error;
    (void)::getsockopt(link.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      last_error_ = error;
      ++ledger_.counters.connect_failed;
      Close(slot, false);
      return;
    }
    if ((events & EPOLLOUT) == 0) return;
    link.connected = true;
    ++ledger_.counters.connections;
  }
  if ((events & EPOLLOUT) != 0 && !Flush(slot)) return;
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) (void)Read(slot);
}

bool TcpLinks::Flush(std::uint32_t slot) {
  Link& link = links_[slot];
  while (link.out_done < link.out.size()) {
    const ssize_t n = ::send(link.fd, link.out.data() + link.out_done, link.out.size() - link.out_done,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      Lose(slot);
      return false;
    }
    link.out_done += static_cast<std::size_t>(n);
  }
  if (link.out_done == link.out.size()) {
    link.out.clear();
    link.out_done = 0;
  }
  if (const bool wanted = !link.out.empty(); wanted != link.writing) {
    link.writing = wanted;
    epoll_event event{EPOLLIN | (wanted ? EPOLLOUT : 0u),
                      {.u64 = std::uint64_t{slot} | std::uint64_t{link.serial} << 31}};
    (void)::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, link.fd, &event);
  }
  return true;
}

bool TcpLinks::Read(std::uint32_t slot) {
  iovec piece{buffer_.data(), buffer_.size()};
  alignas(cmsghdr) char control[unit::kControlBytes];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(links_[slot].fd, &message, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) {
    Lose(slot);
    return false;
  }
  const std::int64_t at =
      unit::ReceiveTimeNs(message, unit::RealtimeOffsetNs(), unit::MonotonicNs()) - start_ns_;
  bool complete = false;
  if (!Parse(slot, std::string_view(buffer_.data(), static_cast<std::size_t>(n)), at, complete)) {
    ++ledger_.counters.foreign;
    Lose(slot);
    return false;
  }
  if (!settings_.flow_per_request || !complete) return true;
  Close(slot, settings_.reset_close);
  return false;
}

bool TcpLinks::Parse(std::uint32_t slot, std::string_view bytes, std::int64_t at_ns, bool& complete) {
  Link& link = links_[slot];
  while (!bytes.empty()) {
    if (link.head.size() < unit::kAnswerBytes) {
      const std::size_t take = std::min(bytes.size(), unit::kAnswerBytes - link.head.size());
      link.head += bytes.substr(0, take);
      bytes.remove_prefix(take);
      if (link.head.size() < unit::kAnswerBytes) break;
      const std::optional<unit::Answer> answer = unit::DecodeAnswer(link.head.data());
      if (!answer || answer->request.payload_bytes != settings_.payload_bytes) return false;
      link.payload_left = settings_.payload_bytes;
    }
    // The payload is what Append filled in; one wrong byte would mean that streams were mixed.
    const std::size_t take = std::min(bytes.size(), link.payload_left);
    if (bytes.substr(0, take).find_first_not_of('x') != std::string_view::npos) return false;
    bytes.remove_prefix(take);
    link.payload_left -= take;
    if (link.payload_left > 0) break;
    const std::optional<unit::Answer> answer = unit::DecodeAnswer(link.head.data());
    ledger_.Answered(answer->request.id, FlowOf(slot), at_ns, answer->unit);
    link.head.clear();
    complete = true;
  }
  return true;
}

void TcpLinks::Lose(std::uint32_t slot) {
  ++ledger_.counters.broken;
  Close(slot, false);
}

void TcpLinks::Close(std::uint32_t slot, bool reset) {
  Link& link = links_[slot];
  if (reset) {
    const linger abort{1, 0};
    (void)::setsockopt(link.fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  }
  ::close(link.fd);
  link.fd = -1;
  if (settings_.flow_per_request) free_.push_back(slot);
}

void TcpLinks::Expire(std::int64_t now_ns) {
  // Connections open in order of their requests' times, so the overdue ones are in front.
  while (!open_.empty()) {
    const auto [slot, serial] = open_.front();
    const Link& link = links_[slot];
    if (link.fd >= 0 && link.serial == serial) {
      if (ledger_.records()[link.id].intended_ns + ledger_.timeout_ns() >= now_ns) return;
      if (!link.connected) ++ledger_.counters.connect_failed;
      Close(slot, settings_.reset_close);
    }
    open_.pop_front();
  }
}

}  // namespace spillway::load
