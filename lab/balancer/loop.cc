// SPDX-License-Identifier: Apache-2.0
#include "loop.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace spillway::balancer {
namespace {

uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// So many at a time: frames have their turn, too.
constexpr int kReportsPerTurn = 64;

void TakeReports(ServerBalancer& balancer, int fd) {
  std::array<uint8_t, 256> bytes;
  for (int i = 0; i < kReportsPerTurn; i++) {
    const ssize_t length = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (length < 0) return;
    (void)balancer.Accept({bytes.data(), static_cast<size_t>(length)}, NowNs());
  }
}

// A batch is decided at one time: it was received at one.
void TakeFrames(ServerBalancer& balancer, FramePort& port, Traffic& traffic) {
  const size_t count = port.Receive();
  if (count == 0) return;
  const uint64_t now = NowNs();
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (balancer.Handle(port.frame(i), now)) {
      port.Keep(i);
      kept++;
    }
  traffic.batches++;
  traffic.send_failed += kept - port.Send();
}

}  // namespace

Result<int> OpenReportSocket(uint16_t port) {
  const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", std::strerror(errno)));
  const int off = 0;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
      bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0)
    return fd;
  const int error = errno;
  close(fd);
  return Fail(error == EADDRINUSE ? ErrorCode::kConflict : ErrorCode::kSystem,
              fmt::format("load reports at UDP port {}: {}", port, std::strerror(error)));
}

Result<Traffic> Run(ServerBalancer& balancer, FramePort& port, int report_fd, int stop_fd) {
  std::array<pollfd, 3> waits{{{port.fd(), POLLIN, 0}, {report_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}}};
  Traffic traffic;
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR)
      return Fail(ErrorCode::kSystem, fmt::format("poll: {}", std::strerror(errno)));
    if (waits[2].revents) break;
    // What is known of the units comes first: it is what the frames are decided by.
    if (waits[1].revents) TakeReports(balancer, report_fd);
    if (waits[0].revents) TakeFrames(balancer, port, traffic);
  }
  traffic.overflows = port.TakeOverflows();
  return traffic;
}

nlohmann::ordered_json ToJson(const ServerBalancer& balancer, const Traffic& traffic) {
  const Counters& c = balancer.counters();
  nlohmann::ordered_json object = {{"requests", c.requests}};
  for (size_t i = 0; i < c.placed.size(); i++) object["placed_" + balancer.unit_names()[i]] = c.placed[i];
  object.update({{"no_unit", c.no_unit},
                 {"foreign", c.foreign},
                 {"fragments", c.fragments},
                 {"malformed", c.malformed},
                 {"flows_inserted", c.flows_inserted},
                 {"flows_without_room", c.flows_without_room},
                 {"reports_accepted", c.reports_accepted},
                 {"reports_refused", c.reports_refused},
                 {"batches", traffic.batches},
                 {"overflows", traffic.overflows},
                 {"send_failed", traffic.send_failed}});
  return object;
}

}  // namespace spillway::balancer
