// SPDX-License-Identifier: Apache-2.0
// A domain and its ports, with the verbs that the tests of the dispatcher are told in. One thread drives all
// ports, so a test's order of calls is the schedule.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/domain.h"

namespace spillway::dispatch {

class DomainBed : public testing::Test {
 protected:
  void Open(DomainOptions options = {}, const char* engine = "native") {
    auto opened = Domain::Open(engine, options);
    ASSERT_TRUE(opened) << opened.error().message;
    domain_ = std::move(*opened);
  }
  uint16_t AddQueue(Kind kind, uint16_t shards = 1) {
    QueueOptions options;
    options.name = std::string(ToString(kind));
    options.kind = kind;
    options.shards = shards;
    return AddQueue(options);
  }
  uint16_t AddQueue(const QueueOptions& options) {
    auto added = domain_->AddQueue(options);
    EXPECT_TRUE(added) << added.error().message;
    return added.value_or(0);
  }
  std::unique_ptr<Port> AddPort(std::vector<uint16_t> queues = {}, bool implicit_release = false) {
    PortOptions options;
    options.queues = std::move(queues);
    options.implicit_release = implicit_release;
    auto added = domain_->AddPort(options);
    EXPECT_TRUE(added) << added.error().message;
    return added ? std::move(*added) : nullptr;
  }

  static Event MakeEvent(uint16_t queue, uint32_t flow, uint64_t user, uint8_t priority = 0,
                         Op op = Op::kNew) {
    Event event;
    event.queue = queue;
    event.flow = flow;
    event.user = user;
    event.priority = priority;
    event.op = op;
    return event;
  }
  static size_t Put(Port& port, uint16_t queue, uint32_t flow, uint64_t user, uint8_t priority = 0) {
    const Event event = MakeEvent(queue, flow, user, priority);
    return port.Enqueue({&event, 1});
  }
  static size_t Forward(Port& port, uint16_t queue, uint32_t flow, uint64_t user) {
    const Event event = MakeEvent(queue, flow, user, 0, Op::kForward);
    return port.Enqueue({&event, 1});
  }
  // The `user` words of what one Dequeue gives.
  static std::vector<uint64_t> Take(Port& port, size_t most = 64) {
    std::vector<Event> burst(most);
    burst.resize(port.Dequeue(burst));
    std::vector<uint64_t> users;
    for (const Event& event : burst) users.push_back(event.user);
    return users;
  }

  std::unique_ptr<Domain> domain_;
};

using Users = std::vector<uint64_t>;

}  // namespace spillway::dispatch
