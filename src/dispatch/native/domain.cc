// SPDX-License-Identifier: Apache-2.0
#include "dispatch/native/domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <random>

#include "dispatch/native/port.h"

namespace spillway::dispatch {
namespace {

void Add(PortStatistics& sum, const PortStatistics& more) {
  sum.enqueued += more.enqueued;
  sum.refused_credit += more.refused_credit;
  sum.refused_bad += more.refused_bad;
  sum.refused_lost += more.refused_lost;
  sum.dequeued += more.dequeued;
  sum.released += more.released;
  sum.forwarded += more.forwarded;
  sum.pulls += more.pulls;
  sum.empty += more.empty;
  sum.flows_taken += more.flows_taken;
  sum.deferred += more.deferred;
  sum.slept += more.slept;
  sum.woke_others += more.woke_others;
}

}  // namespace

NativeDomain::NativeDomain(const DomainOptions& options)
    : options_(options), credits_(options.credits), flow_seed_(std::random_device()()) {}

NativeDomain::~NativeDomain() = default;

Result<uint16_t> NativeDomain::AddQueue(const QueueOptions& options) {
  if (!std::has_single_bit(unsigned{options.shards}) || options.shards > NativeQueue::kMaxShards)
    return Fail(ErrorCode::kBadInput, fmt::format("queue {}: {} shards, expected a power of two, 1 to {}",
                                                  options.name, options.shards, NativeQueue::kMaxShards));
  if (options.kind == Kind::kDirected && options.shards != 1)
    return Fail(ErrorCode::kBadInput, fmt::format("queue {}: a directed queue has one shard", options.name));
  if (options.on_occupancy && options.low >= options.high)
    return Fail(ErrorCode::kBadInput, fmt::format("queue {}: occupancy low {} is not below high {}",
                                                  options.name, options.low, options.high));
  const base::MutexLock lock(mutex_);
  if (queue_owners_.size() == kMaxQueues)
    return Fail(ErrorCode::kBadInput, fmt::format("more than {} queues in a domain", kMaxQueues));
  const auto number = static_cast<uint16_t>(queue_owners_.size());
  queue_owners_.push_back(std::make_unique<NativeQueue>(number, options, completed_, options_.credits,
                                                        options_.starvation_guard, flow_seed_));
  queues_[number].store(queue_owners_.back().get(), std::memory_order_release);
  if (options.on_occupancy) any_watched_ = true;
  return number;
}

Result<std::unique_ptr<Port>> NativeDomain::AddPort(const PortOptions& options) {
  const base::MutexLock lock(mutex_);
  if (ports_.size() == options_.ports)
    return Fail(ErrorCode::kBadInput,
                fmt::format("port {}: the domain was opened for {} ports", options.name, options_.ports));
  if (options.event_fd && options.wait != Wait::kSleep)
    return Fail(ErrorCode::kBadInput,
                fmt::format("port {}: event_fd is allowed only with wait: sleep", options.name));
  std::vector<NativeQueue*> queues;
  for (uint16_t number : options.queues) {
    NativeQueue* const linked = queue(number);
    if (linked == nullptr)
      return Fail(ErrorCode::kBadInput, fmt::format("port {}: no such queue: {}", options.name, number));
    if (std::find(queues.begin(), queues.end(), linked) != queues.end())
      return Fail(ErrorCode::kBadInput, fmt::format("port {}: queue {} twice", options.name, number));
    if (linked->kind() == Kind::kDirected && linked->linked.load() != 0)
      return Fail(ErrorCode::kConflict,
                  fmt::format("port {}: directed queue {} already has a port", options.name, number));
    queues.push_back(linked);
  }
  uint32_t worker = 0;
  if (!queues.empty()) {
    if (~workers_ == 0)
      return Fail(ErrorCode::kBadInput,
                  fmt::format("port {}: more than {} workers", options.name, kMaxWorkers));
    worker = static_cast<uint32_t>(std::countr_one(workers_)) + 1;
    workers_ |= 1ULL << (worker - 1);
  }
  auto port = std::make_unique<NativePort>(*this, options, static_cast<uint32_t>(ports_.size()), worker,
                                           sequences_[worker], queues);
  for (NativeQueue* linked : queues) linked->linked.fetch_or(1ULL << (worker - 1));
  ports_.push_back(port.get());
  return port;
}

void NativeDomain::Remove(NativePort& port) {
  const base::MutexLock lock(mutex_);
  ports_.erase(std::find(ports_.begin(), ports_.end(), &port));
  if (port.worker() != 0) {
    const uint64_t bit = 1ULL << (port.worker() - 1);
    for (NativeQueue* linked : port.queues()) linked->linked.fetch_and(~bit);
    workers_ &= ~bit;
    sequences_[port.worker()] = port.sequence();
    // What waited for this one waits for anybody now, and nobody else may be awake.
    for (NativeQueue* linked : port.queues()) WakeFor(*linked);
  }
  Add(departed_, port.Statistics());
}

Result<std::shared_ptr<Window>> NativeDomain::OpenWindow(const WindowOptions& options) {
  NativeQueue* const target = queue(options.queue);
  if (target == nullptr)
    return Fail(ErrorCode::kBadInput, fmt::format("window: no such queue: {}", options.queue));
  if (target->shards() != 1)
    return Fail(ErrorCode::kBadInput, fmt::format("window: queue {} has several shards", options.queue));
  return Window::Create(options).map([&](std::shared_ptr<Window> window) {
    target->shard(0).AttachWindow(window);
    // Who sleeps already would not hear of what comes by it.
    uint64_t asleep = sleepers_.Asleep(target->linked.load(std::memory_order_relaxed));
    for (; asleep != 0; asleep &= asleep - 1)
      sleepers_.Wake(static_cast<uint32_t>(std::countr_zero(asleep)) + 1);
    return window;
  });
}

void NativeDomain::CloseWindow(const Window& window) {
  if (NativeQueue* const target = queue(window.header().queue)) target->shard(0).DetachWindow(window);
}

size_t NativeDomain::HandOnHung() {
  if (options_.deadline.count() == 0) return 0;
  const base::MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  size_t handed_on = 0;
  for (NativePort* port : ports_) {
    const int64_t events = port->HandOnIfHung(now);
    if (events < 0) continue;
    workers_lost_++;
    handed_on += static_cast<size_t>(events);
    // A directed queue is free for another port; wake-ups go to those who hear them.
    for (NativeQueue* linked : port->queues()) {
      linked->linked.fetch_and(~(1ULL << (port->worker() - 1)));
      WakeFor(*linked);
    }
  }
  events_handed_on_ += handed_on;
  return handed_on;
}

void NativeDomain::LookAtOccupancy() {
  if (!any_watched_.load(std::memory_order_relaxed)) return;
  for (const auto& slot : queues_) {
    NativeQueue* const queue = slot.load(std::memory_order_acquire);
    if (queue == nullptr) return;
    if (queue->watched()) queue->LookAtOccupancy();
  }
}

DomainStatistics NativeDomain::Statistics() const {
  const base::MutexLock lock(mutex_);
  DomainStatistics statistics;
  for (const auto& queue : queue_owners_)
    statistics.queues.push_back({queue->name(), queue->kind(), queue->Waiting(), queue->Enqueued()});
  statistics.credits = options_.credits;
  statistics.credits_free = credits_.Free();
  statistics.workers_lost = workers_lost_;
  statistics.events_handed_on = events_handed_on_;
  statistics.ports = departed_;
  for (const NativePort* port : ports_) Add(statistics.ports, port->Statistics());
  return statistics;
}

}  // namespace spillway::dispatch
