// SPDX-License-Identifier: Apache-2.0
// A dispatch domain under the benchmark, native or of DPDK's event devices.
#include <bit>

#include "bench/dispatch/crowd.h"
#include "dispatch/remote_producer.h"
#include "dispatch/slot_ring.h"

namespace spillway::bench {
namespace {

using dispatch::Domain;
using dispatch::Event;

class DomainRig final : public Rig {
 public:
  static Result<std::unique_ptr<Rig>> Make(const std::string& engine, const DomainRigOptions& options,
                                           bool two_stage) {
    auto rig = std::make_unique<DomainRig>();
    rig->options_ = options;
    dispatch::DomainOptions domain;
    domain.ports = 4;
    if (options.deadline) domain.deadline = std::chrono::seconds(1);
    auto opened = Domain::Open(engine, domain);
    if (!opened) return tl::make_unexpected(opened.error());
    rig->domain_ = std::move(*opened);
    dispatch::PortOptions worker;
    worker.wait = options.wait;
    for (int stage = 0; stage < (two_stage ? 2 : 1); stage++) {
      auto queue = rig->domain_->AddQueue(options.queue);
      if (!queue) return tl::make_unexpected(queue.error());
      worker.queues.push_back(*queue);
    }
    rig->first_ = worker.queues.front();
    rig->last_ = worker.queues.back();
    auto producer = rig->domain_->AddPort({});
    if (!producer) return tl::make_unexpected(producer.error());
    auto consumer = rig->domain_->AddPort(worker);
    if (!consumer) return tl::make_unexpected(consumer.error());
    rig->producer_ = std::move(*producer);
    rig->worker_ = std::move(*consumer);
    return rig;
  }

  void Prepare(std::span<Event> events) override {
    for (Event& event : events) {
      event.queue = first_;
      event.op = dispatch::Op::kNew;
      event.priority = priority_;
    }
  }

  size_t Put(std::span<Event> events) override {
    const size_t taken = producer_->Enqueue(events);
    if (options_.priorities > 1 && taken == events.size()) {
      priority_ = static_cast<uint8_t>((priority_ + 1) % options_.priorities);
      Prepare(events);
    }
    return taken;
  }

  size_t Get(std::span<Event> events) override {
    // A poller returns to its thread between looks; a sleeper is woken.
    const auto patience = options_.wait == dispatch::Wait::kPoll
                              ? std::chrono::nanoseconds(0)
                              : std::chrono::nanoseconds(std::chrono::milliseconds(20));
    const size_t got = worker_->Dequeue(events, patience);
    if (got == 0) worker_->Flush();
    if (got == 0 || events[0].queue == last_) return got;
    for (size_t i = 0; i < got; i++) events[i].queue = last_;
    for (size_t sent = 0; sent < got;) sent += worker_->Enqueue(events.subspan(sent, got - sent));
    return 0;
  }

  void Flush() override { producer_->Flush(); }

 private:
  DomainRigOptions options_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<dispatch::Port> producer_, worker_;
  uint16_t first_ = 0, last_ = 0;
  alignas(dispatch::kCacheLine) uint8_t priority_ = 0;  // changes with each Put
};

// The producer has a mapping of its own of the window, and nothing else of the domain.
class RemoteRig final : public Rig {
 public:
  static Result<std::unique_ptr<Rig>> Make() {
    auto rig = std::make_unique<RemoteRig>();
    dispatch::DomainOptions domain;
    domain.ports = 4;
    auto opened = Domain::Open("native", domain);
    if (!opened) return tl::make_unexpected(opened.error());
    rig->domain_ = std::move(*opened);
    const auto queue = rig->domain_->AddQueue({});
    if (!queue) return tl::make_unexpected(queue.error());
    auto window = rig->domain_->OpenWindow({.queue = *queue, .rings = 1, .slots = 4096, .priorities = 1});
    if (!window) return tl::make_unexpected(window.error());
    rig->window_ = std::move(*window);
    auto producer = dispatch::RemoteProducer::Map(rig->window_->Fd(), 0);
    if (!producer) return tl::make_unexpected(producer.error());
    rig->producer_ = std::move(*producer);
    dispatch::PortOptions worker;
    worker.queues = {*queue};
    auto port = rig->domain_->AddPort(worker);
    if (!port) return tl::make_unexpected(port.error());
    rig->worker_ = std::move(*port);
    return rig;
  }
  ~RemoteRig() override {
    if (window_) domain_->CloseWindow(*window_);
  }

  size_t Put(std::span<Event> events) override { return producer_->Enqueue(events); }
  size_t Get(std::span<Event> events) override { return worker_->Dequeue(events); }

 private:
  std::unique_ptr<Domain> domain_;
  std::shared_ptr<dispatch::Window> window_;
  std::unique_ptr<dispatch::RemoteProducer> producer_;
  std::unique_ptr<dispatch::Port> worker_;
};

// A port of a domain that others have ports of, too.
class PortRig final : public Rig {
 public:
  PortRig(std::unique_ptr<dispatch::Port> port, uint16_t queue) : port_(std::move(port)), queue_(queue) {}
  void Prepare(std::span<Event> events) override {
    for (Event& event : events) {
      event.queue = queue_;
      event.op = dispatch::Op::kNew;
    }
  }
  size_t Put(std::span<Event> events) override { return port_->Enqueue(events); }
  size_t Get(std::span<Event> events) override {
    const size_t got = port_->Dequeue(events);
    if (got == 0) port_->Flush();
    return got;
  }
  void Flush() override { port_->Flush(); }

 private:
  std::unique_ptr<dispatch::Port> port_;
  uint16_t queue_;
};

}  // namespace

Result<Crowd> MakeDomainCrowd(const RigKind& kind, size_t producers, size_t workers) {
  dispatch::DomainOptions options;
  options.ports = static_cast<uint16_t>(producers + workers + 2);
  auto opened = Domain::Open(kind.engine, options);
  if (!opened) return tl::make_unexpected(opened.error());
  const std::shared_ptr<Domain> domain = std::move(*opened);
  Crowd crowd;
  crowd.engine = domain;
  dispatch::QueueOptions queue;
  if (kind.kind.starts_with("unordered")) queue.kind = dispatch::Kind::kUnordered;
  if (kind.kind.ends_with("sharded")) queue.shards = static_cast<uint16_t>(std::bit_ceil(workers));
  const auto made = domain->AddQueue(queue);
  if (!made) return tl::make_unexpected(made.error());
  for (size_t i = 0; i < producers + workers; i++) {
    dispatch::PortOptions port;
    if (i >= producers) port.queues = {*made};
    auto added = domain->AddPort(port);
    if (!added) return tl::make_unexpected(added.error());
    (i < producers ? crowd.producers : crowd.workers)
        .push_back(std::make_unique<PortRig>(std::move(*added), *made));
  }
  return crowd;
}

Result<std::unique_ptr<Rig>> MakeRemoteRig() { return RemoteRig::Make(); }

Result<std::unique_ptr<Rig>> MakeDomainRig(const std::string& engine, const DomainRigOptions& options,
                                           bool two_stage) {
  return DomainRig::Make(engine, options, two_stage);
}

}  // namespace spillway::bench
