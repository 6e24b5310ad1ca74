// SPDX-License-Identifier: Apache-2.0
#include "neighbours.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

namespace spillway::switching {
namespace {

// A neighbour in one of these states has a MAC address that the kernel itself would use.
constexpr uint16_t kUsable = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;

int Family(const model::Address& a) { return a.family == 4 ? AF_INET : AF_INET6; }
size_t Length(const model::Address& a) { return a.family == 4 ? 4 : 16; }

// One request message: header, body, attributes.
template <class Body>
class Message {
 public:
  Message(uint16_t type, uint16_t flags) : bytes_(NLMSG_SPACE(sizeof(Body))) {
    header()->nlmsg_type = type;
    header()->nlmsg_flags = flags;
    header()->nlmsg_len = NLMSG_LENGTH(sizeof(Body));
  }
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  Body* body() { return static_cast<Body*>(NLMSG_DATA(header())); }
  void Add(uint16_t type, const void* data, size_t length) {
    size_t at = NLMSG_ALIGN(header()->nlmsg_len);
    bytes_.resize(at + RTA_SPACE(length));
    auto* attribute = reinterpret_cast<rtattr*>(bytes_.data() + at);
    attribute->rta_type = type;
    attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(length));
    std::memcpy(RTA_DATA(attribute), data, length);
    header()->nlmsg_len = static_cast<uint32_t>(at + RTA_ALIGN(attribute->rta_len));
  }

 private:
  std::vector<char> bytes_;
};

void ForEachAttribute(const nlmsghdr* message, size_t body_bytes,
                      const std::function<void(const rtattr&)>& visit) {
  auto* at = reinterpret_cast<const rtattr*>(static_cast<const char*>(NLMSG_DATA(message)) +
                                             NLMSG_ALIGN(body_bytes));
  int left = static_cast<int>(message->nlmsg_len) - static_cast<int>(NLMSG_SPACE(body_bytes));
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) visit(*at);
}

std::optional<model::Address> ReadAddress(const rtattr& attribute, int family) {
  model::Address a;
  a.family = family == AF_INET ? 4 : 6;
  if (RTA_PAYLOAD(&attribute) != Length(a)) return std::nullopt;
  std::memcpy(a.bytes.data(), RTA_DATA(&attribute), Length(a));
  return a;
}

// Sends the request and hands the single answer to `visit`. False: refused or lost.
bool Ask(int fd, nlmsghdr* request, uint32_t sequence, const std::function<void(const nlmsghdr&)>& visit) {
  request->nlmsg_seq = sequence;
  request->nlmsg_flags |= NLM_F_REQUEST;
  if (send(fd, request, request->nlmsg_len, 0) < 0) return false;
  std::array<char, 16384> buffer;
  while (true) {
    ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    int left = static_cast<int>(got);
    for (auto* m = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
      if (m->nlmsg_seq != sequence) continue;
      if (m->nlmsg_type == NLMSG_ERROR) return static_cast<nlmsgerr*>(NLMSG_DATA(m))->error == 0;
      visit(*m);
      return true;
    }
  }
}

bool FindRoute(int fd, uint32_t sequence, const model::Address& address, NextHop& hop) {
  Message<rtmsg> request(RTM_GETROUTE, 0);
  request.body()->rtm_family = static_cast<unsigned char>(Family(address));
  request.body()->rtm_dst_len = static_cast<unsigned char>(Length(address) * 8);
  request.Add(RTA_DST, address.bytes.data(), Length(address));
  bool reachable = false;
  hop.via = address;
  bool answered = Ask(fd, request.header(), sequence, [&](const nlmsghdr& answer) {
    if (answer.nlmsg_type != RTM_NEWROUTE) return;
    reachable = static_cast<const rtmsg*>(NLMSG_DATA(&answer))->rtm_type == RTN_UNICAST;
    ForEachAttribute(&answer, sizeof(rtmsg), [&](const rtattr& attribute) {
      if (attribute.rta_type == RTA_OIF) std::memcpy(&hop.ifindex, RTA_DATA(&attribute), 4);
      if (attribute.rta_type == RTA_GATEWAY) {
        hop.via = ReadAddress(attribute, Family(address)).value_or(address);
      }
    });
  });
  return answered && reachable && hop.ifindex != 0;
}

void FindLink(int fd, uint32_t sequence, NextHop& hop) {
  Message<ifinfomsg> request(RTM_GETLINK, 0);
  request.body()->ifi_index = static_cast<int>(hop.ifindex);
  Ask(fd, request.header(), sequence, [&](const nlmsghdr& answer) {
    if (answer.nlmsg_type != RTM_NEWLINK) return;
    hop.link_up = (static_cast<const ifinfomsg*>(NLMSG_DATA(&answer))->ifi_flags & IFF_RUNNING) != 0;
    ForEachAttribute(&answer, sizeof(ifinfomsg), [&](const rtattr& attribute) {
      if (attribute.rta_type == IFLA_ADDRESS && RTA_PAYLOAD(&attribute) == hop.own_mac.size()) {
        std::memcpy(hop.own_mac.data(), RTA_DATA(&attribute), hop.own_mac.size());
      }
    });
  });
}

void FindMac(int fd, uint32_t sequence, NextHop& hop) {
  Message<ndmsg> request(RTM_GETNEIGH, 0);
  request.body()->ndm_family = static_cast<uint8_t>(Family(hop.via));
  request.body()->ndm_ifindex = static_cast<int>(hop.ifindex);
  request.Add(NDA_DST, hop.via.bytes.data(), Length(hop.via));
  Ask(fd, request.header(), sequence, [&](const nlmsghdr& answer) {
    if (answer.nlmsg_type != RTM_NEWNEIGH) return;
    const uint16_t state = static_cast<const ndmsg*>(NLMSG_DATA(&answer))->ndm_state;
    if ((state & kUsable) == 0) return;
    hop.is_fixed = (state & (NUD_PERMANENT | NUD_NOARP)) != 0;
    ForEachAttribute(&answer, sizeof(ndmsg), [&](const rtattr& attribute) {
      Mac mac;
      if (attribute.rta_type != NDA_LLADDR || RTA_PAYLOAD(&attribute) != mac.size()) return;
      std::memcpy(mac.data(), RTA_DATA(&attribute), mac.size());
      hop.mac = mac;
    });
  });
}

Message<ndmsg> NeighbourRequest(const NextHop& hop) {
  Message<ndmsg> request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK);
  request.body()->ndm_family = static_cast<uint8_t>(Family(hop.via));
  request.body()->ndm_ifindex = static_cast<int>(hop.ifindex);
  request.Add(NDA_DST, hop.via.bytes.data(), Length(hop.via));
  return request;
}

int OpenSocket(uint32_t groups) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return -1;
  sockaddr_nl self{};
  self.nl_family = AF_NETLINK;
  self.nl_groups = groups;
  if (bind(fd, reinterpret_cast<sockaddr*>(&self), sizeof(self)) < 0) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

Result<std::unique_ptr<Neighbours>> Neighbours::Open() {
  constexpr uint32_t kGroups = RTMGRP_NEIGH | RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  int request_fd = OpenSocket(0);
  int news_fd = request_fd < 0 ? -1 : OpenSocket(kGroups);
  if (news_fd < 0) {
    std::string why = std::strerror(errno);
    if (request_fd >= 0) close(request_fd);
    return Fail(ErrorCode::kSystem, "netlink socket: " + why);
  }
  timeval patience{1, 0};
  setsockopt(request_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  return std::unique_ptr<Neighbours>(new Neighbours(request_fd, news_fd));
}

Neighbours::~Neighbours() {
  close(request_fd_);
  close(news_fd_);
}

std::optional<NextHop> Neighbours::Find(const model::Address& address) {
  NextHop hop;
  if (!FindRoute(request_fd_, ++sequence_, address, hop)) return std::nullopt;
  FindLink(request_fd_, ++sequence_, hop);
  FindMac(request_fd_, ++sequence_, hop);
  return hop;
}

void Neighbours::Probe(const NextHop& hop) {
  if (hop.is_fixed) return;
  auto request = NeighbourRequest(hop);
  request.body()->ndm_state = NUD_NONE;
  request.body()->ndm_flags = NTF_USE;
  Ask(request_fd_, request.header(), ++sequence_, [](const nlmsghdr&) {});
}

void Neighbours::Verify(const NextHop& hop) {
  if (hop.is_fixed || !hop.mac) return;
  auto request = NeighbourRequest(hop);
  request.body()->ndm_state = NUD_PROBE;
  request.Add(NDA_LLADDR, hop.mac->data(), hop.mac->size());
  Ask(request_fd_, request.header(), ++sequence_, [](const nlmsghdr&) {});
}

NetworkNews Neighbours::Drain() {
  NetworkNews news;
  std::array<char, 32768> buffer;
  while (true) {
    ssize_t got = recv(news_fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      if (errno == ENOBUFS) news.routes_or_links = true;  // news was lost: look at everything again
      if (errno != ENOBUFS) return news;
      continue;
    }
    int left = static_cast<int>(got);
    for (auto* m = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
      if (m->nlmsg_type != RTM_NEWNEIGH && m->nlmsg_type != RTM_DELNEIGH) {
        news.routes_or_links = true;
        continue;
      }
      int family = static_cast<const ndmsg*>(NLMSG_DATA(m))->ndm_family;
      ForEachAttribute(m, sizeof(ndmsg), [&](const rtattr& attribute) {
        if (attribute.rta_type != NDA_DST) return;
        if (auto address = ReadAddress(attribute, family)) news.neighbours.insert(*address);
      });
    }
  }
}

}  // namespace spillway::switching
