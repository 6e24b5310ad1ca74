// SPDX-License-Identifier: Apache-2.0
// How many connections of an HTTP server each address has, and whether it may have another: one peer must not
// take them all. Connections by UNIX sockets have no address, and are not counted. One thread.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "base/log_allowance.h"

struct sockaddr;

namespace spillway::api {

class HttpPeers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `key`: what sets the limit, for the log.
  HttpPeers(unsigned most, std::string key) : most_(most), key_(std::move(key)) {}

  // False: it is to be closed, which the log has by now.
  [[nodiscard]] bool Admit(const sockaddr* address, Time now);
  void Began(const sockaddr* address);
  void Ended(const sockaddr* address);

 private:
  const unsigned most_;
  const std::string key_;
  std::map<std::string, unsigned> connections_;  // by address; of IPv6, its /64, as a host has all of one
  base::LogAllowance refusals_told_;
};

}  // namespace spillway::api
