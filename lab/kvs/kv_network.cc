// SPDX-License-Identifier: Apache-2.0
#include "lab/kvs/kv_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/system_error.h"
#include "lab/testbed/process.h"

namespace spillway::lab {
namespace {

using Place = KvNetwork::Place;

// Entering a namespace cannot be undone: a thread that does it does nothing else afterwards.
template <typename Work>
auto OnThread(Work&& work) {
  decltype(work()) result;
  std::thread([&] { result = work(); }).join();
  return result;
}

}  // namespace

Result<KvNetwork> KvNetwork::Namespaces() {
  KvNetwork network;
  for (int& made : network.namespaces_) {
    const auto opened = OnThread([&]() -> Result<void> {
      if (unshare(CLONE_NEWNET) != 0) return FailSystem("make a network namespace");
      made = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
      if (made < 0) return FailSystem("/proc/thread-self/ns/net");
      return Run({"ip", "link", "set", "lo", "up"});
    });
    if (!opened) return tl::make_unexpected(opened.error());
  }
  for (Place place : {Place::kHost, Place::kNic}) {
    if (const auto joined = network.Connect(place); !joined) return tl::make_unexpected(joined.error());
  }
  return network;
}

KvNetwork::~KvNetwork() {
  for (int held : namespaces_) {
    if (held >= 0) close(held);
  }
}

// A veth pair from the client's namespace to that one: net 1 to the host, net 2 to the NIC.
Result<void> KvNetwork::Connect(Place place) const {
  const int net = static_cast<int>(place);
  const auto at = [&](Place where, const std::string& batch) {
    return OnThread([&] {
      return Enter(where).and_then([&] { return lab::Run({"ip", "-batch", "-"}, batch); });
    });
  };
  return at(Place::kClient, fmt::format("link add net{0} type veth peer name eth0 netns /proc/{1}/fd/{2}\n"
                                        "addr add 10.78.{0}.1/24 dev net{0}\nlink set net{0} up\n",
                                        net, getpid(), namespaces_[static_cast<size_t>(place)]))
      .and_then(
          [&] { return at(place, fmt::format("addr add 10.78.{}.2/24 dev eth0\nlink set eth0 up\n", net)); });
}

uint32_t KvNetwork::AddressOf(Place place) const {
  if (!separate()) return htonl(INADDR_LOOPBACK);
  // The client is .1 of every net; it is asked for by nobody.
  return htonl(0x0A4E0002u | static_cast<uint32_t>(place) << 8);
}

Result<int> KvNetwork::UdpSocket(Place place) const {
  const auto make = [&]() -> Result<int> {
    const int made = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return FailSystem("socket");
    return made;
  };
  if (!separate()) return make();
  // A socket stays in the namespace that it was made in.
  return OnThread([&] { return Enter(place).and_then(make); });
}

Result<void> KvNetwork::Enter(Place place) const {
  if (separate() && setns(namespaces_[static_cast<size_t>(place)], CLONE_NEWNET) != 0)
    return FailSystem("enter a network namespace");
  return {};
}

}  // namespace spillway::lab
