// SPDX-License-Identifier: Apache-2.0
// Events of one source in the order of time, for sources that make them almost in that order: a ring into
// which a late one is inserted from the back. Push costs as many steps as the event overtakes others.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace spillway::sim {

// Event: a time, or a struct with a member `at`. Equal times keep their order.
template <class Event>
class EventQueue {
 public:
  bool empty() const { return head_ == tail_; }
  size_t size() const { return tail_ - head_; }
  const Event& front() const { return ring_[head_ & mask_]; }
  void Pop() { head_++; }
  void Push(const Event& event) {
    if (size() == ring_.size()) Grow();
    size_t i = tail_++;
    for (; i != head_ && At(ring_[(i - 1) & mask_]) > At(event); i--)
      ring_[i & mask_] = ring_[(i - 1) & mask_];
    ring_[i & mask_] = event;
  }
  void Clear() { head_ = tail_; }

 private:
  static auto At(const Event& event) {
    if constexpr (requires { event.at; }) {
      return event.at;
    } else {
      return event;
    }
  }
  void Grow() {
    std::vector<Event> larger(ring_.empty() ? 8 : ring_.size() * 2);
    const size_t count = size();
    for (size_t i = 0; i < count; i++) larger[i] = ring_[(head_ + i) & mask_];
    ring_ = std::move(larger);
    mask_ = ring_.size() - 1;
    head_ = 0;
    tail_ = count;
  }

  std::vector<Event> ring_;  // a power of two; events head_ .. tail_ - 1, modulo its size
  size_t mask_ = 0, head_ = 0, tail_ = 0;
};

}  // namespace spillway::sim
