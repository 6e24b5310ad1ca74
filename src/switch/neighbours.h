// SPDX-License-Identifier: Apache-2.0
// Next hops by netlink: which interface and MAC address lead to a unit, and the news when that
// changes. Routes and neighbours are the kernel's; we ask, and nudge it to resolve what it does not
// know yet. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/netlink.h"
#include "model/pool.h"

namespace spillway::switching {

using Mac = std::array<uint8_t, 6>;

struct NextHop {
  model::Address via;  // gateway, or the address itself when on link
  uint32_t ifindex = 0;
  bool link_up = false;
  Mac own_mac{};
  std::optional<Mac> mac;  // nullopt: not resolved (yet)
  bool has_entry = false;  // in the kernel's table of neighbours, resolved or not
  bool is_fixed = false;   // by the operator: a permanent entry, or an interface without resolution
};

// What notifications said since the last call.
struct NetworkNews {
  bool routes_or_links = false;         // anything may have changed
  std::set<model::Address> neighbours;  // these have
};

class Neighbours {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Neighbours>> Open();

  // Route and neighbour entry for `address`; nullopt: no route, or the address is our own. Errors: kSystem,
  // the kernel did not answer, for want of memory or of time; so nothing is known.
  Result<std::optional<NextHop>> Find(const model::Address& address);
  // Asks the kernel to resolve or re-confirm the neighbour; the answer comes as news. One that is fixed is
  // left alone: since Linux 5.16 the question alone would take its permanence away.
  void Probe(const NextHop& hop);
  // Has the kernel ask a neighbour whose MAC is known whether it is still there: news of its loss comes after
  // some three seconds, not half a minute.
  void Verify(const NextHop& hop);

  int fd() const { return news_.fd(); }  // readable when there is news
  NetworkNews Drain();

 private:
  Neighbours(base::NetlinkSocket kernel, base::NetlinkSocket news)
      : kernel_(std::move(kernel)), news_(std::move(news)) {}
  base::NetlinkSocket kernel_;  // for requests
  base::NetlinkSocket news_;
};

}  // namespace spillway::switching
