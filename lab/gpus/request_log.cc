// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/request_log.h"

#include <chrono>

namespace spillway::lab {

using namespace std::chrono_literals;

RequestLog::RequestLog(gateway::Client client) : client_(std::move(client)), thread_([this] { Loop(); }) {}

RequestLog::~RequestLog() { [[maybe_unused]] const RequestsSeen seen = Finish(); }

void RequestLog::Ask(std::set<std::string> models, std::set<std::string> moving) {
  const base::MutexLock lock(asking_);
  models_ = std::move(models);
  moving_ = std::move(moving);
}

RequestsSeen RequestLog::Finish() {
  {
    const base::MutexLock lock(asking_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
  const base::MutexLock lock(asking_);
  return seen_;
}

void RequestLog::Loop() {
  for (;;) {
    {
      const base::MutexLock lock(asking_);
      if (stop_) return;
      auto next = models_.upper_bound(last_);
      if (next == models_.end()) next = models_.begin();
      if (next != models_.end()) AskOne(last_ = *next);
      // Moves are short: those that move are asked as often as all others together.
      auto moving = moving_.upper_bound(last_moving_);
      if (moving == moving_.end()) moving = moving_.begin();
      if (moving != moving_.end() && models_.contains(*moving)) AskOne(last_moving_ = *moving);
    }
    std::this_thread::sleep_for(1ms);  // others may take the lock; and the load is no flood
  }
}

void RequestLog::AskOne(const std::string& model) {
  const auto lose = [&](const std::string& why) SPILLWAY_REQUIRES(asking_) {
    if (seen_.lost++ == 0) seen_.first_loss = model + ": " + why;
  };
  seen_.asked++;
  auto known = known_.find(model);
  if (known == known_.end()) {
    auto described = client_.Describe(model);
    if (!described) return lose(described.error().message);
    known = known_.emplace(model, std::move(*described)).first;
  }
  const std::vector<std::byte> inputs(known->second.card.InputBytes(1));
  const auto began = std::chrono::steady_clock::now();
  const auto result = client_.Infer(known->second.index, 1, inputs);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  if (!result) return lose(result.error().message);
  if (result->status != gateway::Status::kOk) return lose(result->message);
  (moving_.contains(model) ? seen_.while_moving_ms : seen_.quiet_ms).push_back(took.count());
}

}  // namespace spillway::lab
