// SPDX-License-Identifier: Apache-2.0
#include "gateway/control/host_table.h"

#include <fmt/format.h>

#include "gateway/control/waiting_reports.h"

namespace spillway::gateway {

using scheduler::HostOrders;

namespace {

constexpr size_t kMaxAgent = 64;  // characters

}  // namespace

Result<void> HostTable::Hear(const std::string& name, const std::string& agent, Time now) {
  if (agent.empty() || agent.size() > kMaxAgent)
    return Fail(ErrorCode::kBadInput, fmt::format("host {}: agent: expected 1 to {} characters, got {}", name,
                                                  kMaxAgent, agent.size()));
  const auto known = hosts_.find(name);
  if (known != hosts_.end() && !known->second.agent.empty() && known->second.agent != agent &&
      now - known->second.heard < silent_after_)
    return Fail(ErrorCode::kConflict,
                fmt::format("host {}: another node agent already registered this host", name));
  if (known == hosts_.end() && hosts_.size() >= kMaxHosts)
    return Fail(ErrorCode::kConflict, fmt::format("host {}: host limit ({}) reached", name, kMaxHosts));
  Host& host = hosts_[name];
  host.agent = agent;
  host.heard = now;
  host.is_silent = false;
  return {};
}

void HostTable::Wait(const std::string& name, uint64_t revision, Time until, Answer answer) {
  Host& host = hosts_[name];
  if (host.waiter) host.waiter->answer(WaitingReports::Replaced(name));
  host.waiter = Waiter{revision, until, std::move(answer)};
}

void HostTable::Excuse(Time::duration deaf) {
  for (auto& [name, host] : hosts_) host.heard += deaf;
}

std::vector<std::string> HostTable::Silent(Time now) {
  std::vector<std::string> silent;
  for (auto& [name, host] : hosts_) {
    if (host.waiter) host.heard = std::max(host.heard, std::min(now, host.waiter->until));
    if (host.is_silent || now - host.heard < silent_after_) continue;
    host.is_silent = true;
    silent.push_back(name);
  }
  return silent;
}

void HostTable::AnswerWith(const std::function<HostOrders(const std::string&)>& orders, uint64_t revision,
                           Time now) {
  for (auto& [name, host] : hosts_) {
    if (!host.waiter || (host.waiter->revision == revision && now < host.waiter->until)) continue;
    const Waiter waiter = std::move(*host.waiter);
    host.waiter.reset();
    host.heard = now;
    waiter.answer(orders(name));
  }
}

}  // namespace spillway::gateway
