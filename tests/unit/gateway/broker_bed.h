// SPDX-License-Identifier: Apache-2.0
// A broker whose slices are a test's: deliveries are remembered, the test says when they are done.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "gateway/broker/broker.h"

namespace spillway::gateway {

inline constexpr uint32_t kAlice = 0, kBob = 1;  // of TwoTenants

inline ModelCard SmallModel(const std::string& name = "m", double gflop = 0.001) {
  ModelCard card;
  card.name = name;
  card.inputs = {{"input", DataType::kU8, {-1, 4}}};
  card.outputs = {{"output", DataType::kU8, {-1, 2}}};
  card.most_rows = 4;
  card.gflop_per_row = gflop;
  return card;
}

inline ExecutorOffer SmallOffer(const std::string& name, uint32_t slices = 1, uint32_t cells = 2) {
  ExecutorOffer offer{name, {SmallModel()}, {}};
  for (uint32_t i = 0; i < slices; i++)
    offer.slices.push_back({"s" + std::to_string(i), "gpu0", 1.0, cells, 64, 64});
  return offer;
}

inline ExecutorOffer OfOneModel(const std::string& executor, const std::string& model) {
  ExecutorOffer offer = SmallOffer(executor);
  offer.models[0].name = model;
  return offer;
}

class BrokerBed : public SlicePort {
 public:
  explicit BrokerBed(BrokerOptions options = TwoTenants()) : broker(std::move(options), *this) {}

  static BrokerOptions TwoTenants() {
    BrokerOptions options;
    options.tenants = {{"alice", 8}, {"bob", 8}};
    return options;
  }

  bool Deliver(const Delivery& delivery) override {
    if (refuse_deliveries) return false;
    delivered.push_back(delivery);
    return true;
  }
  void Abandon(uint32_t executor) override { abandoned.push_back(executor); }
  void GiveUp(uint32_t, uint32_t, uint64_t id) override { given_up.push_back(id); }

  uint64_t Ask(uint32_t tenant = 0, std::optional<Duration> deadline = {}, uint64_t held = 0,
               uint32_t model = 0) {
    const size_t number = answers.size();
    answers.emplace_back();
    messages.emplace_back();
    Request request;
    request.tenant = tenant;
    request.model = model;
    request.inputs = kInputs;
    request.deadline = deadline;
    request.held_bytes = held;
    request.reply = [this, number](const Answer& answer) {
      answers[number].push_back(answer.status);
      messages[number] = std::string(answer.message);
    };
    return broker.Submit(std::move(request), now);
  }
  // The slice says that delivery number `i` is done.
  bool Done(size_t i, Status status = Status::kOk) {
    return broker.Complete(delivered[i].slice, delivered[i].id, status, kOutputs, Duration(1), now);
  }
  uint32_t Join(const std::string& name, uint32_t slices = 1, uint32_t cells = 2) {
    const auto joined = broker.AddExecutor(SmallOffer(name, slices, cells), now);
    broker.Ready(joined->executor, now);
    return joined->executor;
  }

  static constexpr std::byte kInputs[4] = {}, kOutputs[2] = {};
  Time now{1};
  std::vector<Delivery> delivered;
  std::vector<uint32_t> abandoned;
  std::vector<uint64_t> given_up;
  std::vector<std::vector<Status>> answers;  // of each request, in the order of asking
  std::vector<std::string> messages;
  bool refuse_deliveries = false;
  Broker broker;
};

}  // namespace spillway::gateway
