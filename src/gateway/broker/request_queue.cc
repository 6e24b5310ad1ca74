// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/request_queue.h"

#include <algorithm>

namespace spillway::gateway {

void RequestQueue::PushBack(const Entry& entry) {
  models_[entry.model].push_back(entry.id);
  size_++;
}

void RequestQueue::PushFront(const Entry& entry) {
  models_[entry.model].push_front(entry.id);
  size_++;
}

void RequestQueue::Erase(const Entry& entry) {
  const auto model = models_.find(entry.model);
  if (model == models_.end()) return;
  auto& queue = model->second;
  if (queue.front() == entry.id) {
    queue.pop_front();
    size_--;
  } else {
    size_ -= std::erase(queue, entry.id);
  }
  if (queue.empty()) models_.erase(model);
}

std::vector<uint64_t> RequestQueue::TakeModel(uint32_t number) {
  const auto model = models_.find(number);
  if (model == models_.end()) return {};
  const std::vector<uint64_t> taken(model->second.begin(), model->second.end());
  size_ -= taken.size();
  models_.erase(model);
  return taken;
}

std::vector<RequestQueue::Entry> RequestQueue::Heads() const {
  std::vector<Entry> heads;
  for (const auto& [model, queue] : models_) heads.push_back({model, queue.front()});
  std::sort(heads.begin(), heads.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  return heads;
}

}  // namespace spillway::gateway
