// SPDX-License-Identifier: Apache-2.0
#include "neighbours.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace spillway::switching {
namespace {

using base::ForEachAttribute;
using base::NetlinkRequest;
using base::NetlinkSocket;
using base::ValueOf;

// A neighbour in one of these states has a MAC address that the kernel itself would use.
constexpr uint16_t kUsable = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;

int Family(const model::Address& a) { return a.family == 4 ? AF_INET : AF_INET6; }
size_t Length(const model::Address& a) { return a.family == 4 ? 4 : 16; }

std::optional<model::Address> ReadAddress(const nlattr& attribute, int family) {
  model::Address a;
  a.family = family == AF_INET ? 4 : 6;
  if (mnl_attr_get_payload_len(&attribute) != Length(a)) return std::nullopt;
  std::memcpy(a.bytes.data(), mnl_attr_get_payload(&attribute), Length(a));
  return a;
}

// Anything else is an answer: there is no such thing.
bool IsNoAnswer(int error) {
  return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ENOSPC;
}

// Each fills in its part of `hop`: 0, or the error of a question that was not answered. A hop that leads
// nowhere has no interface.
int FindRoute(NetlinkSocket& kernel, const model::Address& address, NextHop& hop) {
  NetlinkRequest<rtmsg> request(RTM_GETROUTE, 0);
  request.body().rtm_family = static_cast<unsigned char>(Family(address));
  request.body().rtm_dst_len = static_cast<unsigned char>(Length(address) * 8);
  mnl_attr_put(request.header(), RTA_DST, Length(address), address.bytes.data());
  bool reachable = false;
  hop.via = address;
  const int error = kernel.Ask(request, [&](const nlmsghdr& answer) {
    if (answer.nlmsg_type != RTM_NEWROUTE) return;
    reachable = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(&answer))->rtm_type == RTN_UNICAST;
    ForEachAttribute(answer, sizeof(rtmsg), [&](const nlattr& attribute) {
      const uint16_t type = mnl_attr_get_type(&attribute);
      if (type == RTA_OIF) hop.ifindex = ValueOf<uint32_t>(attribute).value_or(0);
      if (type == RTA_GATEWAY) hop.via = ReadAddress(attribute, Family(address)).value_or(address);
    });
  });
  if (error != 0 || !reachable) hop.ifindex = 0;
  return IsNoAnswer(error) ? error : 0;
}

int FindLink(NetlinkSocket& kernel, NextHop& hop) {
  NetlinkRequest<ifinfomsg> request(RTM_GETLINK, 0);
  request.body().ifi_index = static_cast<int>(hop.ifindex);
  const int error = kernel.Ask(request, [&](const nlmsghdr& answer) {
    if (answer.nlmsg_type != RTM_NEWLINK) return;
    const auto* link = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(&answer));
    hop.link_up = (link->ifi_flags & IFF_RUNNING) != 0;
    ForEachAttribute(answer, sizeof(ifinfomsg), [&](const nlattr& attribute) {
      if (mnl_attr_get_type(&attribute) == IFLA_ADDRESS)
        hop.own_mac = ValueOf<Mac>(attribute).value_or(hop.own_mac);
    });
  });
  return IsNoAnswer(error) ? error : 0;
}

NetlinkRequest<ndmsg> NeighbourRequest(uint16_t type, uint16_t flags, const NextHop& hop) {
  NetlinkRequest<ndmsg> request(type, flags);
  request.body().ndm_family = static_cast<uint8_t>(Family(hop.via));
  request.body().ndm_ifindex = static_cast<int>(hop.ifindex);
  mnl_attr_put(request.header(), NDA_DST, Length(hop.via), hop.via.bytes.data());
  return request;
}

int FindMac(NetlinkSocket& kernel, NextHop& hop) {
  auto request = NeighbourRequest(RTM_GETNEIGH, 0, hop);
  const int error = kernel.Ask(request, [&](const nlmsghdr& answer) {
    if (answer.nlmsg_type != RTM_NEWNEIGH) return;
    hop.has_entry = true;
    const uint16_t state = static_cast<const ndmsg*>(mnl_nlmsg_get_payload(&answer))->ndm_state;
    if ((state & kUsable) == 0) return;
    hop.is_fixed = (state & (NUD_PERMANENT | NUD_NOARP)) != 0;
    ForEachAttribute(answer, sizeof(ndmsg), [&](const nlattr& attribute) {
      if (mnl_attr_get_type(&attribute) != NDA_LLADDR) return;
      if (const auto mac = ValueOf<Mac>(attribute)) hop.mac = mac;
    });
  });
  return IsNoAnswer(error) ? error : 0;
}

constexpr uint16_t kReplace = NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK;

}  // namespace

Result<std::unique_ptr<Neighbours>> Neighbours::Open() {
  NetlinkSocket kernel(NETLINK_ROUTE);
  if (!kernel) return Fail(ErrorCode::kSystem, std::string("netlink socket: ") + std::strerror(errno));
  NetlinkSocket news(NETLINK_ROUTE, RTMGRP_NEIGH | RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE);
  if (!news) return Fail(ErrorCode::kSystem, std::string("netlink socket: ") + std::strerror(errno));
  return std::unique_ptr<Neighbours>(new Neighbours(std::move(kernel), std::move(news)));
}

Result<std::optional<NextHop>> Neighbours::Find(const model::Address& address) {
  NextHop hop;
  int error = FindRoute(kernel_, address, hop);
  if (error == 0 && hop.ifindex == 0) return std::nullopt;
  if (error == 0) error = FindLink(kernel_, hop);
  if (error == 0) error = FindMac(kernel_, hop);
  if (error != 0) return Fail(ErrorCode::kSystem, std::string("netlink: ") + std::strerror(error));
  return hop;
}

void Neighbours::Probe(const NextHop& hop) {
  if (hop.is_fixed) return;
  auto request = NeighbourRequest(RTM_NEWNEIGH, kReplace, hop);
  request.body().ndm_state = NUD_NONE;
  request.body().ndm_flags = NTF_USE;
  kernel_.Ask(request);
}

void Neighbours::Verify(const NextHop& hop) {
  if (hop.is_fixed || !hop.mac) return;
  auto request = NeighbourRequest(RTM_NEWNEIGH, kReplace, hop);
  request.body().ndm_state = NUD_PROBE;
  mnl_attr_put(request.header(), NDA_LLADDR, hop.mac->size(), hop.mac->data());
  kernel_.Ask(request);
}

NetworkNews Neighbours::Drain() {
  NetworkNews news;
  const bool whole = news_.Drain([&](const nlmsghdr& message) {
    if (message.nlmsg_type != RTM_NEWNEIGH && message.nlmsg_type != RTM_DELNEIGH) {
      news.routes_or_links = true;
      return;
    }
    const int family = static_cast<const ndmsg*>(mnl_nlmsg_get_payload(&message))->ndm_family;
    ForEachAttribute(message, sizeof(ndmsg), [&](const nlattr& attribute) {
      if (mnl_attr_get_type(&attribute) != NDA_DST) return;
      if (auto address = ReadAddress(attribute, family)) news.neighbours.insert(*address);
    });
  });
  if (!whole) news.routes_or_links = true;  // look at everything again
  return news;
}

}  // namespace spillway::switching
