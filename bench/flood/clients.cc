// SPDX-License-Identifier: Apache-2.0
#include "bench/flood/clients.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lab/unit/wire.h"

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kThinkTime = 20ms;
constexpr auto kGivenUpAfter = 5s;  // of kOnce: three SYNs, the last after three seconds

}  // namespace

struct Clients::Link {
  Habit habit;
  base::Fd fd;
  uint32_t address = 0;  // its own, host order
  uint16_t port = 0;
  bool connected = false, asked = false, answered = false, dead = false, moved = false;
  Clock::time_point opened = Clock::now(), due = opened;
  uint32_t id = 0;
  std::string unit, partial;
};

Clients::Clients(const model::Address& vip, uint16_t port)
    : vip_(vip), port_(port), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

Clients::~Clients() = default;

Result<void> Clients::Open(Habit habit) {
  auto link = std::make_unique<Link>();
  link->habit = habit;
  const auto fail = [](const char* what) {
    return Fail(ErrorCode::kSystem, fmt::format("{}: {}", what, std::strerror(errno)));
  };
  link->fd.Reset(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!link->fd) return fail("socket");
  const int on = 1;
  setsockopt(link->fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port_);
  std::memcpy(&to.sin_addr, vip_.bytes.data(), 4);
  if (connect(link->fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 && errno != EINPROGRESS)
    return fail("connect");
  sockaddr_in own{};
  socklen_t length = sizeof(own);
  getsockname(link->fd.get(), reinterpret_cast<sockaddr*>(&own), &length);
  link->address = ntohl(own.sin_addr.s_addr);
  link->port = ntohs(own.sin_port);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLET;
  event.data.ptr = link.get();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link->fd.get(), &event) != 0) return fail("epoll_ctl");
  links_.push_back(std::move(link));
  return {};
}

void Clients::Turn() {
  epoll_event events[256];
  const int n = epoll_wait(epoll_.get(), events, std::size(events), 1);
  for (int i = 0; i < n; i++) Hear(*static_cast<Link*>(events[i].data.ptr));
  const auto now = Clock::now();
  for (const auto& link : links_) {
    if (link->dead || !link->fd) continue;
    if (link->habit == Habit::kOnce && now - link->opened > kGivenUpAfter) Break(*link);
    const bool asks = link->habit == Habit::kLive || link->id == 0;
    if (asks && link->connected && !link->asked && link->due <= now) Ask(*link);
  }
}

void Clients::AskAll() {
  for (const auto& link : links_) {
    if (link->habit == Habit::kOnce) continue;
    link->answered = false;
    if (!link->dead && link->connected) Ask(*link);
  }
}

void Clients::Ask(Link& link) {
  char request[unit::kRequestBytes];
  unit::Encode(unit::Request{++link.id, 0, 1000}, request);
  link.asked = true;
  if (send(link.fd.get(), request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) Break(link);
}

void Clients::Hear(Link& link) {
  if (link.dead || !link.fd) return;
  if (!link.connected) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(link.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return Break(link);
    tcp_info info{};
    length = sizeof(info);
    getsockopt(link.fd.get(), IPPROTO_TCP, TCP_INFO, &info, &length);
    if (info.tcpi_state != TCP_ESTABLISHED) return;
    link.connected = true;
  }
  char bytes[4096];
  for (;;) {
    const ssize_t n = recv(link.fd.get(), bytes, sizeof(bytes), 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return Break(link);
    link.partial.append(bytes, static_cast<size_t>(n));
    while (link.partial.size() >= unit::kAnswerBytes) {
      const auto answer = unit::DecodeAnswer(link.partial.data());
      if (!answer) return Break(link);
      if (link.unit.empty()) link.unit = answer->unit;
      link.moved |= link.unit != answer->unit;
      if (answer->request.id == link.id) {
        link.answered = true;
        link.asked = false;
        link.due = Clock::now() + kThinkTime;
      }
      link.partial.erase(0, unit::kAnswerBytes);
    }
    if (link.habit == Habit::kOnce && link.answered) return link.fd.Reset();
  }
}

void Clients::Break(Link& link) {
  link.fd.Reset();
  link.dead = true;
}

bool Clients::AllAnswered() const {
  return std::ranges::all_of(
      links_, [](const auto& link) { return link->habit == Habit::kOnce || link->dead || link->answered; });
}

std::vector<Flood::Victim> Clients::Addresses() const {
  std::vector<Flood::Victim> addresses;
  for (const auto& link : links_) addresses.push_back({link->address, link->port});
  return addresses;
}

size_t Clients::Count(Habit habit) const {
  return static_cast<size_t>(
      std::ranges::count_if(links_, [&](const auto& link) { return link->habit == habit; }));
}

size_t Clients::Moved() const {
  return static_cast<size_t>(std::ranges::count_if(links_, [](const auto& link) {
    return link->habit != Habit::kOnce && (link->dead || link->moved || !link->answered);
  }));
}

bool Clients::HasOpening() const {
  return std::ranges::any_of(
      links_, [](const auto& link) { return link->habit == Habit::kOnce && !link->dead && link->fd; });
}

size_t Clients::Connected() const {
  return static_cast<size_t>(std::ranges::count_if(
      links_, [](const auto& link) { return link->habit == Habit::kOnce && link->answered && !link->dead; }));
}

}  // namespace spillway::bench
