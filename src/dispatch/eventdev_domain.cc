// SPDX-License-Identifier: Apache-2.0
#include "dispatch/eventdev_domain.h"

#include <fmt/format.h>
#include <rte_bus_vdev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eventdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_service.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <sstream>

#include "base/mutex.h"
#include "base/relax.h"

namespace spillway::dispatch {
namespace {

constexpr uint32_t kFlowBits = 20;

uint32_t Fold(uint32_t flow) { return (flow ^ flow >> kFlowBits) & ((1u << kFlowBits) - 1); }

// Services count by DPDK's thread number, of which there are 128: threads that DPDK did not start ask for
// one, and give it back when they end. False: none is left.
bool HaveThreadNumber() {
  struct Registration {
    const bool ours = rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0;
    ~Registration() {
      if (ours) rte_thread_unregister();
    }
  };
  thread_local const Registration registration;
  return rte_lcore_id() != LCORE_ID_ANY;
}

struct Device {
  std::string name;
  uint8_t id;
};

// Of 16 event devices and 64 services that DPDK has for a process, an event_sw that is taken away gives back
// only the first: those that nobody uses any more are kept, and the next domain takes one of them.
class IdleDevices {
 public:
  std::optional<Device> Take() {
    const base::MutexLock lock(mutex_);
    if (idle_.empty()) return std::nullopt;
    Device device = std::move(idle_.back());
    idle_.pop_back();
    return device;
  }
  void Put(Device device) {
    const base::MutexLock lock(mutex_);
    idle_.push_back(std::move(device));
  }

 private:
  base::Mutex mutex_;
  std::vector<Device> idle_ SPILLWAY_GUARDED_BY(mutex_);
};

IdleDevices& IdleSoftwareSchedulers() {
  static IdleDevices devices;
  return devices;
}

Result<Device> FindDevice(std::string_view engine) {
  static std::atomic<int> instances{0};
  std::string name(engine);
  int id = -1;
  if (engine == "event_sw") {
    if (auto idle = IdleSoftwareSchedulers().Take()) return *std::move(idle);
  }
  if (engine == "event_dlb2") {
    id = rte_event_dev_get_dev_id(name.c_str());  // found by DPDK on the bus, if there is one
  } else {
    name += std::to_string(instances++);
    if (rte_vdev_init(name.c_str(), nullptr) == 0) id = rte_event_dev_get_dev_id(name.c_str());
  }
  if (id < 0)
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("{}: DPDK has no such event device here, or no more of them (at most {} at a time)",
                    engine, RTE_EVENT_MAX_DEVS));
  return Device{name, static_cast<uint8_t>(id)};
}

class EventdevDomain;

class EventdevPort final : public Port {
 public:
  EventdevPort(EventdevDomain& domain, uint8_t number, bool consumes)
      : domain_(domain), number_(number), consumes_(consumes) {}
  ~EventdevPort() override;
  [[nodiscard]] size_t Enqueue(std::span<const Event> events) override;
  [[nodiscard]] size_t Dequeue(std::span<Event> into, std::chrono::nanoseconds patience) override;
  size_t Release(size_t count) override;
  [[nodiscard]] size_t Held() const override { return held_; }
  void Flush() override;
  [[nodiscard]] PortStatistics Statistics() const override { return statistics_; }

 private:
  size_t Pass(std::span<Event> into);

  EventdevDomain& domain_;
  const uint8_t number_;
  const bool consumes_;
  size_t held_ = 0;
  PortStatistics statistics_;
};

class EventdevDomain final : public Domain {
 public:
  EventdevDomain(std::string device, uint8_t id, const rte_event_dev_info& info, const DomainOptions& options)
      : device_(std::move(device)), id_(id), info_(info), options_(options) {}
  ~EventdevDomain() override {
    if (started_) rte_event_dev_stop(id_);
    // Also what is kept: event_sw miscounts its credits if it is configured anew without having been closed.
    rte_event_dev_close(id_);
    if (device_.starts_with("event_sw"))
      IdleSoftwareSchedulers().Put(Device{device_, id_});
    else
      rte_vdev_uninit(device_.c_str());
  }

  [[nodiscard]] Result<uint16_t> AddQueue(const QueueOptions& options) override {
    const base::MutexLock lock(mutex_);
    if (started_) return TooLate("queue");
    if (options.kind == Kind::kOrdered && device_.starts_with("event_dsw"))
      return Fail(ErrorCode::kUnavailable, "event_dsw has no ordered queues");
    if (options.on_occupancy)
      return Fail(ErrorCode::kUnavailable,
                  "on_occupancy needs the engine native: event devices do not report their occupancy");
    if (queues_.size() == info_.max_event_queues)
      return Fail(ErrorCode::kUnavailable, fmt::format("{} has {} queues", device_, info_.max_event_queues));
    queues_.push_back(options);
    return static_cast<uint16_t>(queues_.size() - 1);
  }

  [[nodiscard]] Result<std::unique_ptr<Port>> AddPort(const PortOptions& options) override {
    const base::MutexLock lock(mutex_);
    if (started_) return TooLate("port");
    for (uint16_t queue : options.queues) {
      if (queue >= queues_.size())
        return Fail(ErrorCode::kBadInput, fmt::format("port {}: no such queue: {}", options.name, queue));
    }
    if (!options.implicit_release && !(info_.event_dev_cap & RTE_EVENT_DEV_CAP_IMPLICIT_RELEASE_DISABLE))
      return Fail(ErrorCode::kUnavailable, fmt::format("{} releases at every dequeue", device_));
    if (options.wait == Wait::kSleep || options.event_fd)
      return Fail(ErrorCode::kUnavailable, "ports of event devices only poll");
    if (ports_.size() == info_.max_event_ports)
      return Fail(ErrorCode::kUnavailable, fmt::format("{} has {} ports", device_, info_.max_event_ports));
    ports_.push_back(options);
    return std::make_unique<EventdevPort>(*this, static_cast<uint8_t>(ports_.size() - 1),
                                          !options.queues.empty());
  }

  [[nodiscard]] DomainStatistics Statistics() const override {
    const base::MutexLock lock(mutex_);
    DomainStatistics statistics;
    for (const QueueOptions& queue : queues_) statistics.queues.push_back({queue.name, queue.kind, 0, 0});
    statistics.credits = options_.credits;
    return statistics;
  }

  // For ports. False: the device did not take the configuration; Complaint says why.
  bool Started() {
    if (running_.load(std::memory_order_acquire)) [[likely]]
      return true;
    const base::MutexLock lock(mutex_);
    if (!started_) {
      started_ = true;
      running_.store(Start(), std::memory_order_release);
    }
    return running_.load(std::memory_order_relaxed);
  }
  uint8_t id() const { return id_; }
  // These two are for ports that have Started, or that Start: without the mutex, as no queue is added any
  // more, which clang cannot know.
  uint8_t ScheduleTypeOf(uint16_t queue) const SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    switch (queues_[queue].kind) {
      case Kind::kOrdered:
        return RTE_SCHED_TYPE_ORDERED;
      case Kind::kUnordered:
        return RTE_SCHED_TYPE_PARALLEL;
      default:
        return RTE_SCHED_TYPE_ATOMIC;
    }
  }
  size_t queues() const SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { return queues_.size(); }
  bool needs_flush() const { return !(info_.event_dev_cap & RTE_EVENT_DEV_CAP_MAINTENANCE_FREE); }
  void Schedule() {
    if (has_service_ && HaveThreadNumber()) rte_service_run_iter_on_app_lcore(service_, 1);
  }

 private:
  tl::unexpected<Error> TooLate(const char* what) const {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: cannot add a {} after the first event", device_, what));
  }

  bool Start() SPILLWAY_REQUIRES(mutex_) {
    rte_event_dev_config config{};
    config.nb_event_queues = static_cast<uint8_t>(queues_.size());
    config.nb_event_ports = static_cast<uint8_t>(ports_.size());
    config.nb_events_limit = static_cast<int32_t>(std::min<uint32_t>(
        options_.credits,
        info_.max_num_events > 0 ? static_cast<uint32_t>(info_.max_num_events) : options_.credits));
    config.nb_event_queue_flows = info_.max_event_queue_flows;
    config.nb_event_port_dequeue_depth = info_.max_event_port_dequeue_depth;
    config.nb_event_port_enqueue_depth = info_.max_event_port_enqueue_depth;
    config.dequeue_timeout_ns = info_.min_dequeue_timeout_ns;
    for (const QueueOptions& queue : queues_)
      config.nb_single_link_event_port_queues += queue.kind == Kind::kDirected;
    if (rte_event_dev_configure(id_, &config) < 0) return false;
    for (size_t i = 0; i < queues_.size(); i++) {
      rte_event_queue_conf queue{};
      rte_event_queue_default_conf_get(id_, static_cast<uint8_t>(i), &queue);
      // The default is an ordered queue of one event at a time.
      queue.nb_atomic_order_sequences = 1024;
      queue.schedule_type = ScheduleTypeOf(static_cast<uint16_t>(i));
      queue.event_queue_cfg = queues_[i].kind == Kind::kDirected ? RTE_EVENT_QUEUE_CFG_SINGLE_LINK : 0;
      if (rte_event_queue_setup(id_, static_cast<uint8_t>(i), &queue) < 0) return false;
    }
    for (size_t i = 0; i < ports_.size(); i++) {
      rte_event_port_conf port{};
      rte_event_port_default_conf_get(id_, static_cast<uint8_t>(i), &port);
      port.new_event_threshold = config.nb_events_limit;
      if (!ports_[i].implicit_release) port.event_port_cfg |= RTE_EVENT_PORT_CFG_DISABLE_IMPL_REL;
      for (uint16_t queue : ports_[i].queues) {
        if (queues_[queue].kind == Kind::kDirected) port.event_port_cfg |= RTE_EVENT_PORT_CFG_SINGLE_LINK;
      }
      if (rte_event_port_setup(id_, static_cast<uint8_t>(i), &port) < 0) return false;
      std::vector<uint8_t> links(ports_[i].queues.begin(), ports_[i].queues.end());
      if (!links.empty() &&
          rte_event_port_link(id_, static_cast<uint8_t>(i), links.data(), nullptr,
                              static_cast<uint16_t>(links.size())) != static_cast<int>(links.size()))
        return false;
    }
    if (!(info_.event_dev_cap & RTE_EVENT_DEV_CAP_DISTRIBUTED_SCHED) &&
        rte_event_dev_service_id_get(id_, &service_) == 0) {
      has_service_ = true;
      rte_service_runstate_set(service_, 1);
      rte_service_set_runstate_mapped_check(service_, 0);
    }
    return rte_event_dev_start(id_) >= 0;
  }

  const std::string device_;
  const uint8_t id_;
  const rte_event_dev_info info_;
  const DomainOptions options_;
  mutable base::Mutex mutex_;
  std::vector<QueueOptions> queues_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<PortOptions> ports_ SPILLWAY_GUARDED_BY(mutex_);
  bool started_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::atomic<bool> running_{false};
  bool has_service_ = false;  // read only once it is running, as the next
  uint32_t service_ = 0;
};

EventdevPort::~EventdevPort() {
  if (held_ > 0) Release(held_);
  Flush();
}

size_t EventdevPort::Enqueue(std::span<const Event> events) {
  if (!domain_.Started()) return 0;
  size_t done = 0;
  while (done < events.size()) {
    rte_event burst[32];
    uint16_t count = 0;
    size_t held = held_;
    bool bad = false;
    for (; count < std::size(burst) && done + count < events.size(); count++) {
      const Event& event = events[done + count];
      bad =
          (event.op != Op::kRelease && (event.queue >= domain_.queues() || event.priority >= kPriorities)) ||
          (event.op != Op::kNew && held == 0);
      if (bad) break;
      if (event.op != Op::kNew) held--;
      rte_event& out = burst[count];
      out.event = 0;
      out.flow_id = Fold(event.flow);
      out.op = event.op == Op::kNew       ? RTE_EVENT_OP_NEW
               : event.op == Op::kForward ? RTE_EVENT_OP_FORWARD
                                          : RTE_EVENT_OP_RELEASE;
      out.queue_id = static_cast<uint8_t>(event.queue);
      if (event.op != Op::kRelease) out.sched_type = domain_.ScheduleTypeOf(event.queue) & 3;
      out.priority = static_cast<uint8_t>(event.priority * (256 / kPriorities));
      out.u64 = event.user;
    }
    const uint16_t taken = count == 0 ? 0 : rte_event_enqueue_burst(domain_.id(), number_, burst, count);
    for (uint16_t i = 0; i < taken; i++) {
      const Op op = events[done + i].op;
      held_ -= op != Op::kNew;
      (op == Op::kNew       ? statistics_.enqueued
       : op == Op::kForward ? statistics_.forwarded
                            : statistics_.released)++;
    }
    done += taken;
    if (taken < count) {
      statistics_.refused_credit += events.size() - done;
      break;
    }
    if (bad) {
      statistics_.refused_bad += events.size() - done;
      break;
    }
  }
  return done;
}

size_t EventdevPort::Pass(std::span<Event> into) {
  rte_event burst[128];
  const auto most = static_cast<uint16_t>(std::min(into.size(), std::size(burst)));
  const uint16_t got = rte_event_dequeue_burst(domain_.id(), number_, burst, most, 0);
  for (uint16_t i = 0; i < got; i++) {
    into[i].flow = burst[i].flow_id;
    into[i].queue = burst[i].queue_id;
    into[i].priority = static_cast<uint8_t>(burst[i].priority / (256 / kPriorities));
    into[i].op = Op::kForward;
    into[i].user = burst[i].u64;
  }
  return got;
}

size_t EventdevPort::Dequeue(std::span<Event> into, std::chrono::nanoseconds patience) {
  if (!consumes_ || !domain_.Started()) return 0;
  const auto give_up =
      std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(patience, std::chrono::hours(24));
  for (;;) {
    // The device releases what was dequeued before, where it does so by itself.
    const size_t got = Pass(into);
    domain_.Schedule();
    if (got > 0) {
      held_ = got;
      statistics_.dequeued += got;
      statistics_.pulls++;
      return got;
    }
    held_ = 0;
    statistics_.empty++;
    if (patience.count() <= 0 || std::chrono::steady_clock::now() >= give_up) return 0;
    base::Relax();
  }
}

size_t EventdevPort::Release(size_t count) {
  count = std::min(count, held_);
  Event release;
  release.op = Op::kRelease;
  size_t released = 0;
  while (released < count && Enqueue({&release, 1}) == 1) released++;
  return released;
}

// An empty burst sends what event_dsw has buffered.
void EventdevPort::Flush() {
  if (domain_.needs_flush() && domain_.Started())
    (void)rte_event_enqueue_burst(domain_.id(), number_, nullptr, 0);
}

}  // namespace

Result<void> StartDpdk() {
  static const Result<void> started = []() -> Result<void> {
    std::vector<std::string> words = {"spillway"};
    const char* own = getenv("SPILLWAY_EAL");
    std::istringstream text(own != nullptr ? own
                                           : "--no-huge --no-pci -m 2048 --no-telemetry --log-level=error");
    for (std::string word; text >> word;) words.push_back(word);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    // DPDK binds the calling thread to a core, and keeps it so.
    cpu_set_t before;
    sched_getaffinity(0, sizeof(before), &before);
    const int result = rte_eal_init(static_cast<int>(arguments.size()), arguments.data());
    sched_setaffinity(0, sizeof(before), &before);
    if (result < 0)
      return Fail(ErrorCode::kUnavailable, fmt::format("DPDK failed to start: {}", rte_strerror(rte_errno)));
    return {};
  }();
  return started;
}

Result<std::unique_ptr<Domain>> OpenEventdev(std::string_view engine, const DomainOptions& options) {
  if (options.deadline.count() > 0)
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: no deadlines with event devices", engine));
  return StartDpdk().and_then([&]() -> Result<std::unique_ptr<Domain>> {
    return FindDevice(engine).map([&](const Device& device) -> std::unique_ptr<Domain> {
      rte_event_dev_info info{};
      rte_event_dev_info_get(device.id, &info);
      return std::make_unique<EventdevDomain>(device.name, device.id, info, options);
    });
  });
}

}  // namespace spillway::dispatch
