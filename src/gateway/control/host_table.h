// SPDX-License-Identifier: Apache-2.0
// Which node agent speaks for which host, and which of them wait for an answer. Pure but for what the answers
// do; time comes in. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/controller/host_message.h"

namespace spillway::gateway {

class HostTable {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Answer = std::function<void(const Result<scheduler::HostOrders>&)>;

  static constexpr size_t kMaxHosts = 1024;

  explicit HostTable(std::chrono::milliseconds silent_after) : silent_after_(silent_after) {}

  // From where it was before the program's restart: so long may its agent take to be heard, and no other
  // speaks for it. agent: its identity; empty: not known.
  void Expect(const std::string& host, const std::string& agent, Time now) {
    hosts_[host].agent = agent;
    hosts_[host].heard = now;
  }
  // kConflict: another agent speaks for that host, and has of late; or there are kMaxHosts others. kBadInput:
  // its identity is none.
  [[nodiscard]] Result<void> Hear(const std::string& host, const std::string& agent, Time now);
  // It has been silent, and nothing is on it.
  void Forget(const std::string& host) { hosts_.erase(host); }
  [[nodiscard]] bool IsFullFor(const std::string& host) const {
    return hosts_.size() >= kMaxHosts && !hosts_.contains(host);
  }
  // Answers it when there is something newer than `revision`, or when the time has come.
  void Wait(const std::string& host, uint64_t revision, Time until, Answer answer);
  // For so long nobody here listened: that is no host's silence.
  void Excuse(Time::duration deaf);
  // Those that have just been silent for too long.
  [[nodiscard]] std::vector<std::string> Silent(Time now);
  // Who is to be answered now, with the orders as they are.
  void AnswerWith(const std::function<scheduler::HostOrders(const std::string& host)>& orders,
                  uint64_t revision, Time now);

 private:
  struct Waiter {
    uint64_t revision;
    Time until;
    Answer answer;
  };
  struct Host {
    std::string agent;
    Time heard;
    bool is_silent = false;
    std::optional<Waiter> waiter;
  };
  std::chrono::milliseconds silent_after_;
  std::map<std::string, Host> hosts_;
};

}  // namespace spillway::gateway
