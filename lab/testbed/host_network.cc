// SPDX-License-Identifier: Apache-2.0
#include "lab/testbed/host_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/system_error.h"
#include "netns.h"
#include "process.h"

namespace spillway::lab {
namespace {

// Entering a namespace cannot be undone: a thread that does it does nothing else afterwards.
Result<void> OnThread(const std::function<Result<void>()>& work) {
  Result<void> result;
  std::thread([&] { result = work(); }).join();
  return result;
}

}  // namespace

Result<HostNetwork> HostNetwork::Namespaces(int hosts) {
  HostNetwork network;
  network.namespaces_.assign(static_cast<size_t>(hosts) + 2, -1);
  for (int& made : network.namespaces_) {
    const auto opened = OnThread([&]() -> Result<void> {
      if (unshare(CLONE_NEWNET) != 0) return FailSystem("make a network namespace");
      made = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
      if (made < 0) return FailSystem("/proc/thread-self/ns/net");
      return Run({"ip", "link", "set", "lo", "up"});
    });
    if (!opened) return tl::make_unexpected(opened.error());
  }
  for (size_t other = 1; other < network.namespaces_.size(); ++other)
    if (const auto joined = network.Connect(static_cast<Place>(other)); !joined)
      return tl::make_unexpected(joined.error());
  const auto forwards = network.At(Place::kClient, [] { return SetSysctl("ipv4/ip_forward", "1"); });
  if (!forwards) return tl::make_unexpected(forwards.error());
  return network;
}

HostNetwork::~HostNetwork() {
  for (int held : namespaces_) {
    if (held >= 0) close(held);
  }
}

Result<void> HostNetwork::At(Place place, const std::function<Result<void>()>& work) const {
  if (!separate()) return work();
  return OnThread([&] { return Enter(place).and_then(work); });
}

// A veth pair from the client's namespace to that one: net 1 to the host, net 2 to the NIC, and so on.
Result<void> HostNetwork::Connect(Place place) const {
  const int net = static_cast<int>(place);
  const auto ip = [&](Place where, const std::string& batch) {
    return At(where, [&] { return lab::Run({"ip", "-batch", "-"}, batch); });
  };
  return ip(Place::kClient, fmt::format("link add net{0} type veth peer name eth0 netns /proc/{1}/fd/{2}\n"
                                        "addr add 10.78.{0}.1/24 dev net{0}\nlink set net{0} up\n",
                                        net, getpid(), namespaces_[static_cast<size_t>(place)]))
      .and_then([&] {
        return ip(place, fmt::format("addr add 10.78.{0}.2/24 dev eth0\nlink set eth0 up\n"
                                     "route add 10.78.0.0/16 via 10.78.{0}.1\n",
                                     net));
      });
}

uint32_t HostNetwork::AddressOf(Place place) const {
  if (!separate()) return htonl(INADDR_LOOPBACK);
  // The client is .1 of every net; it is asked for by nobody.
  return htonl(0x0A4E0002u | static_cast<uint32_t>(place) << 8);
}

std::string HostNetwork::AddressText(Place place) const {
  const in_addr address{AddressOf(place)};
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address, text, sizeof(text));
  return text;
}

std::string HostNetwork::FileOf(Place place) const {
  return separate() ? fmt::format("/proc/{}/fd/{}", getpid(), namespaces_[static_cast<size_t>(place)]) : "";
}

Result<int> HostNetwork::UdpSocket(Place place) const {
  int made = -1;
  const auto opened = At(place, [&]() -> Result<void> {
    made = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return FailSystem("socket");
    return {};
  });
  if (!opened) return tl::make_unexpected(opened.error());
  return made;
}

Result<void> HostNetwork::Enter(Place place) const {
  if (separate() && setns(namespaces_[static_cast<size_t>(place)], CLONE_NEWNET) != 0)
    return FailSystem("enter a network namespace");
  return {};
}

}  // namespace spillway::lab
