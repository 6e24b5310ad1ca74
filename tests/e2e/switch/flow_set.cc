// SPDX-License-Identifier: Apache-2.0
#include "flow_set.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "cases.h"
#include "lab/unit/wire.h"

namespace spillway::e2e {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kThinkTime = 30ms;   // between an answer and the next question of a flow
constexpr auto kGivenUpAfter = 1s;  // a datagram; TCP repeats by itself

// A port that no flow of this process had before. The switch remembers flows beyond their end, and a new one
// with the port of an old one stays where that was, also on a unit that takes no new ones.
bool BindFreshPort(int fd, int family) {
  static uint16_t next = 10'000;
  for (int tries = 0; tries < 1000; tries++) {
    if (++next >= 60'000) next = 10'000;
    sockaddr_in6 own{};  // as long as an IPv4 one, and its port where that has it
    own.sin6_family = static_cast<sa_family_t>(family);
    own.sin6_port = htons(next);
    if (bind(fd, reinterpret_cast<sockaddr*>(&own), family == AF_INET ? sizeof(sockaddr_in) : sizeof(own)) ==
        0)
      return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

}  // namespace

struct FlowSet::Flow {
  model::Protocol protocol;
  model::Address address;
  uint16_t port = 0, own_port = 0;
  int fd = -1;
  bool connected = false, asked = false, dead = false, excepted = false, moved = false;
  Clock::time_point due{}, asked_at{};
  uint32_t id = 0;
  std::string unit, partial;
  uint64_t answers = 0;
  mutable uint64_t goal = 0;

  bool watched() const { return !dead && !excepted; }
};

FlowSet::FlowSet(std::string netns) : netns_(std::move(netns)), thread_([this] { Loop(); }) {}

FlowSet::~FlowSet() {
  stop_ = true;
  thread_.join();
}

void FlowSet::Open(model::Protocol protocol, const model::Address& address, uint16_t port, size_t count) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < count; i++) {
    flows_.push_back(std::make_unique<Flow>());
    flows_.back()->protocol = protocol;
    flows_.back()->address = address;
    flows_.back()->port = port;
  }
}

size_t FlowSet::Except(const std::string& unit) {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& flow : flows_)
    if (flow->watched() && flow->unit == unit) {
      flow->excepted = true;
      count++;
    }
  return count;
}

bool FlowSet::AwaitProgress(uint64_t answers, std::chrono::seconds limit) const {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& flow : flows_) flow->goal = flow->answers + answers;
  }
  return Eventually(
      [this] {
        const std::lock_guard lock(mutex_);
        stuck_.clear();
        size_t behind = 0;
        for (const auto& flow : flows_)
          if (flow->watched() && flow->answers < flow->goal && ++behind <= 5)
            stuck_ += Describe(*flow) + "\n";
        if (behind > 5) stuck_ += fmt::format("and {} more\n", behind - 5);
        return behind == 0;
      },
      limit);
}

std::string FlowSet::Stuck() const {
  const std::lock_guard lock(mutex_);
  return stuck_;
}

FlowTally FlowSet::Tally() const {
  const std::lock_guard lock(mutex_);
  FlowTally tally = tally_;
  for (const auto& flow : flows_) {
    if (!flow->watched()) continue;
    tally.flows++;
    if (flow->answers == 0) tally.unheard++;
  }
  return tally;
}

std::map<std::string, size_t> FlowSet::PerUnit() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, size_t> count;
  for (const auto& flow : flows_)
    if (flow->watched() && flow->answers > 0) count[flow->unit]++;
  return count;
}

std::string FlowSet::Describe(const Flow& flow) const {
  return fmt::format("{} port {} to {} on {}, {} answers", model::ToString(flow.protocol), flow.own_port,
                     flow.address.ToString(), flow.unit.empty() ? "no unit" : flow.unit, flow.answers);
}

void FlowSet::Loop() {
  const int netns = open(("/run/netns/" + netns_).c_str(), O_RDONLY | O_CLOEXEC);
  // A failure shows: nothing makes progress.
  if (netns < 0 || setns(netns, CLONE_NEWNET) != 0) return;
  close(netns);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<epoll_event> events(256);
  while (!stop_) {
    const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 1);
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < n; i++) Hear(*static_cast<Flow*>(events[static_cast<size_t>(i)].data.ptr));
    const auto now = Clock::now();
    for (const auto& flow : flows_) {
      if (flow->dead) continue;
      if (flow->fd < 0) Start(*flow);
      if (flow->asked && flow->protocol == model::Protocol::kUdp && now - flow->asked_at > kGivenUpAfter) {
        flow->asked = false;
        tally_.lost++;
      }
      if (!flow->dead && flow->connected && !flow->asked && flow->due <= now) Ask(*flow);
    }
  }
  for (const auto& flow : flows_)
    if (flow->fd >= 0) close(flow->fd);
  close(epoll_);
}

void FlowSet::Start(Flow& flow) {
  const bool tcp = flow.protocol == model::Protocol::kTcp;
  const int family = flow.address.family == 4 ? AF_INET : AF_INET6;
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  v4.sin_port = v6.sin6_port = htons(flow.port);
  memcpy(&v4.sin_addr, flow.address.bytes.data(), 4);
  memcpy(&v6.sin6_addr, flow.address.bytes.data(), 16);
  const auto* to = family == AF_INET ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
  const socklen_t length = family == AF_INET ? sizeof(v4) : sizeof(v6);

  flow.fd = socket(family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (tcp) setsockopt(flow.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  epoll_event event{};
  event.events = EPOLLIN | (tcp ? EPOLLOUT | EPOLLET : 0u);
  event.data.ptr = &flow;
  if (flow.fd < 0 || !BindFreshPort(flow.fd, family) ||
      (connect(flow.fd, to, length) != 0 && errno != EINPROGRESS) ||
      epoll_ctl(epoll_, EPOLL_CTL_ADD, flow.fd, &event) != 0)
    return Break(flow, fmt::format("cannot connect: {}", strerror(errno)));
  sockaddr_in6 own{};
  socklen_t own_length = sizeof(own);
  getsockname(flow.fd, reinterpret_cast<sockaddr*>(&own), &own_length);
  flow.own_port = ntohs(own.sin6_port);
  flow.connected = !tcp;
}

void FlowSet::Ask(Flow& flow) {
  char request[unit::kRequestBytes];
  unit::Encode(unit::Request{++flow.id, 0, 0}, request);
  flow.asked = true;
  flow.asked_at = Clock::now();
  // A datagram may meet the port-unreachable of an earlier one; the question then counts as lost.
  if (send(flow.fd, request, sizeof(request), MSG_NOSIGNAL) < 0 && flow.protocol == model::Protocol::kTcp)
    Break(flow, strerror(errno));
}

void FlowSet::Hear(Flow& flow) {
  if (flow.dead) return;
  if (!flow.connected) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(flow.fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return Break(flow, strerror(error));
    flow.connected = true;
  }
  char bytes[4096];
  for (;;) {
    const ssize_t n = recv(flow.fd, bytes, sizeof(bytes), 0);
    if (n < 0) {
      if (errno != EAGAIN && flow.protocol == model::Protocol::kTcp) Break(flow, strerror(errno));
      return;
    }
    if (n == 0 && flow.protocol == model::Protocol::kTcp) return Break(flow, "closed by the unit");
    flow.partial.append(bytes, static_cast<size_t>(n));
    while (flow.partial.size() >= unit::kAnswerBytes) {
      const auto answer = unit::DecodeAnswer(flow.partial.data());
      if (!answer) return Break(flow, "an answer that is none");
      const std::string from(answer->unit);
      if (flow.unit.empty()) flow.unit = from;
      if (flow.unit != from && !flow.excepted && !flow.moved) {
        flow.moved = true;
        tally_.moved++;
        tally_.example += fmt::format("{}: now on {}\n", Describe(flow), from);
      }
      flow.answers++;
      tally_.answers++;
      if (answer->request.id == flow.id) {
        flow.asked = false;
        flow.due = Clock::now() + kThinkTime;
      }
      flow.partial.erase(0, unit::kAnswerBytes);
    }
  }
}

void FlowSet::Break(Flow& flow, const std::string& why) {
  if (flow.fd >= 0) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, flow.fd, nullptr);
    close(flow.fd);
    flow.fd = -1;
  }
  flow.dead = true;
  if (flow.excepted) return;
  tally_.broken++;
  tally_.example += fmt::format("{}: {}\n", Describe(flow), why);
}

}  // namespace spillway::e2e
