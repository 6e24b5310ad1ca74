// SPDX-License-Identifier: Apache-2.0
// Request queueing and placement state machine: admission (sizes, rows, full queues), per-tenant queues and
// their turns, which slice runs what (scheduler/request_placement.h), deadlines, cancellation, and what
// becomes of requests when an executor dies. No sockets, no clock, no threads: time comes in, deliveries go
// out by an interface. Not thread-safe.
//
// A request's states: queued -> delivered -> answered; delivered -> queued, once, when its executor dies;
// queued or delivered -> answered by a deadline or a cancellation. It is answered exactly once: whatever a
// slice says of it afterwards only frees its cell.
//
// A cell is a slice's place for one request. It is taken from delivery to the slice's completion, even if the
// request was answered before: the slice may still read and write it. It is then told that nobody wants the
// request any more, so that it need not begin it.
//
// A slice works on one request after the other. How long one may take counts from when the slice could begin
// it, and by what such requests took there before (service_time.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/broker/gpu_table.h"
#include "gateway/broker/latency_histogram.h"
#include "gateway/broker/memory_budget.h"
#include "gateway/broker/model_table.h"
#include "gateway/broker/request_queue.h"
#include "gateway/protocol/status.h"
#include "gateway/protocol/tensor.h"
#include "scheduler/request_placement.h"

namespace spillway::gateway {

class SharedMemory;

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::nanoseconds;  // of any steady clock

struct Answer {
  Status status = Status::kOk;
  std::string_view message = {};             // one line, if the status is not kOk
  std::chrono::milliseconds retry_after{0};  // of kBusy and kNoSlice
  std::span<const std::byte> outputs = {};   // as tensor.h lays them; valid during the call
  Duration busy{0};                          // that the slice worked on it
  const ModelCard* model = nullptr;          // whose outputs they are; nullptr: it never came so far
  int64_t rows = 1;
};
using Reply = std::function<void(const Answer&)>;

// Whose memory it is.
struct Account {
  uint32_t tenant = scheduler::kNobody;
  Front front = Front::kNone;
};

struct Request {
  uint32_t tenant = 0;
  Front front = Front::kNone;
  uint32_t model = 0;  // index, from FindModel
  int64_t rows = 1;
  std::span<const std::byte> inputs;   // stays valid until the answer: `keeper` sees to that
  std::shared_ptr<const void> keeper;  // may be null if the memory outlives the request anyway
  // Where inputs lie in memory from which the client may take pages at any time: copies go by its Read.
  const SharedMemory* peer = nullptr;
  uint64_t held_bytes = 0;            // of the gateway's memory, counted against its limit
  uint64_t most_output = UINT64_MAX;  // room that the asker has
  std::optional<Duration> deadline;   // from when it came
  std::optional<Time> came;           // if not now
  Reply reply;
};

struct TenantLimits {
  std::string name;
  uint32_t queue = 256;          // requests that wait
  uint64_t reserve = 0;          // bytes of the memory that others leave free for it
  uint64_t windows_reserve = 0;  // and of the windows'
};

struct BrokerOptions {
  scheduler::Isolation isolation = scheduler::Isolation::kFraction;
  uint64_t memory = 256 << 20;   // bytes of requests that wait or run, and of answers until they are sent
  uint64_t windows = 256 << 20;  // bytes of clients' windows
  std::array<uint64_t, kFronts> front_reserves{};  // of the memory, by Front
  Duration default_deadline = std::chrono::seconds(5);
  Duration longest_deadline = std::chrono::seconds(60);
  Duration stuck_after = std::chrono::seconds(10);  // beyond the expected end: the executor counts as dead
  std::vector<TenantLimits> tenants;
};

// One cell's worth of work, for the interface below.
struct Delivery {
  uint64_t id;     // comes back in Complete
  uint32_t slice;  // index in the broker
  uint32_t cell;
  uint32_t model;  // index in the executor's own list
  int64_t rows;
  std::span<const std::byte> inputs;
  uint64_t output_bytes;
  bool wipe;  // the slice held another tenant's requests before: nothing of them may stay
  const SharedMemory* peer = nullptr;  // as the request's
};

// How deliveries reach slices. The gateway writes shared memory and rings; tests remember.
class SlicePort {
 public:
  virtual ~SlicePort() = default;
  // False: the slice does not take it (its ring is broken or full). The broker then counts it as dead.
  virtual bool Deliver(const Delivery& delivery) = 0;
  // The broker gives up on an executor that neither answers nor dies. Not to call the broker from here:
  // RemoveExecutor comes later.
  virtual void Abandon(uint32_t executor) = 0;
  // Nobody wants the request in that cell any more: if the slice has not begun it, it need not.
  virtual void GiveUp(uint32_t slice, uint32_t cell, uint64_t id) = 0;
};

struct SliceOffer {
  std::string name, gpu;
  double gflop_per_s = 1;
  uint32_t cells = 1;
  uint64_t input_bytes = 0, output_bytes = 0;  // of a cell
  // The GPU's UUID, a MIG instance's parent's; empty: not known (GpuTable::IdentityOf).
  std::string gpu_uuid = {};
  // What inputs are delivered into: "host" (from where they may be copied once more), "pinned-host", from
  // where the GPU copies by itself, or the GPU's own memory, "gpu-dmabuf" or "gpu-peermem" by how the RDMA
  // device was given it. For people alone.
  std::string memory = "host";
};

struct ExecutorOffer {
  std::string name;
  std::vector<ModelCard> models;
  std::vector<SliceOffer> slices;
  // Equal for all executors of one host: what they say, else their address as the gateway sees it; empty: the
  // gateway's own.
  std::string host = {};
  bool is_starting =
      false;  // its engines are not made yet: it takes requests once it says so (Broker::Ready)
};

struct BrokerCounts {
  std::vector<std::array<uint64_t, kStatuses>> answers;  // by tenant and status
  // By tenant, of requests that were answered `ok`: from when they came to the answer, and until a slice had
  // them.
  std::vector<LatencyHistogram> took, waited;
  uint64_t delivered = 0, replaced = 0, executors_lost = 0, wipes = 0;
  uint64_t late_completions = 0;  // of requests that were answered before: deadlines, cancellations
};

class Broker {
 public:
  Broker(BrokerOptions options, SlicePort& port);

  // -- executors. Slices are numbered from first_slice on, models as in the offer. An executor of that name
  // that is there already is a kConflict; one whose model differs from what others call by that name, too.
  // One whose model's single row would not fit into the memory for requests is a kBadInput. Ready then gives
  // it what waits.
  struct Joined {
    uint32_t executor, first_slice;
  };
  [[nodiscard]] Result<Joined> AddExecutor(const ExecutorOffer& offer, Time now);
  // It takes requests from now on: its engines are made.
  void Ready(uint32_t executor, Time now);
  void RemoveExecutor(uint32_t executor, Time now);
  // These get no requests any more, by name, here already or still to come, and no others: what they have in
  // hand they finish.
  void Drain(std::set<std::string, std::less<>> executors, Time now);
  [[nodiscard]] bool IsDraining(const std::string& executor) const { return draining_.contains(executor); }
  // Requests that the executor of that name has; 0 where there is none.
  [[nodiscard]] size_t InHand(std::string_view executor) const;
  // The executor says that it is at work: what it has in hand may take until stuck_after from now, but no
  // longer than anybody could still want it.
  void Beat(uint32_t executor, Time now);

  // -- requests. Answers at once what cannot be admitted. Returns the request's number, 0 if it was answered.
  uint64_t Submit(Request request, Time now);
  void Cancel(uint64_t id, Time now);
  // `outputs`: what the slice says it wrote into the cell; checked by the caller to be within the cell.
  // False: the slice never had such a request.
  bool Complete(uint32_t slice, uint64_t id, Status status, std::span<const std::byte> outputs, Duration busy,
                Time now);
  // Deadlines. When to call again, if anything waits: the earliest deadline.
  void Tick(Time now);
  [[nodiscard]] std::optional<Time> NextTick() const;
  // Takes no requests that come from `now` on; the others go on.
  void Close(Time now) {
    if (!closed_) closed_ = now;
  }

  // -- what is known
  [[nodiscard]] std::optional<uint32_t> FindModel(std::string_view name) const;
  // nullptr: no model has that number, or not any more (model_table.h).
  [[nodiscard]] const ModelCard* model(uint32_t index) const;
  [[nodiscard]] size_t model_count() const { return models_.size(); }
  struct NumberedCard {
    uint32_t index;
    std::shared_ptr<const ModelCard> card;
  };
  // Those that are not replaced.
  [[nodiscard]] std::vector<NumberedCard> Cards() const;
  [[nodiscard]] bool ModelReady(uint32_t index) const;  // some slice that is alive and ready has it
  [[nodiscard]] std::optional<uint32_t> FindTenant(std::string_view name) const;
  [[nodiscard]] const BrokerOptions& options() const { return options_; }
  [[nodiscard]] const BrokerCounts& counts() const { return counts_; }
  [[nodiscard]] size_t queued(uint32_t tenant) const { return queues_[tenant].size(); }
  [[nodiscard]] size_t queued() const;
  [[nodiscard]] size_t running() const { return running_; }
  // When the first of what runs is expected to end, by what such requests took before; it may have been.
  // nullopt: nothing runs.
  [[nodiscard]] std::optional<Time> NextEnd() const;
  [[nodiscard]] uint64_t memory_held() const { return memory_.held(); }
  [[nodiscard]] uint64_t windows_held() const { return windows_.held(); }
  // Whether a request that brings and gets so many bytes could be admitted if it were the only one. An error
  // names both: who asked must not be told to come again.
  [[nodiscard]] Result<void> CanFit(uint64_t inputs, uint64_t outputs, const Account& account = {}) const;
  // Whether there is room for so many bytes more that leaves the others' reserves alone.
  [[nodiscard]] bool HasMemory(const Account& account, uint64_t bytes) const;
  // Whether a request of so many bytes would be refused as kBusy, before it is read.
  [[nodiscard]] bool Full(const Account& account, uint64_t bytes) const;
  // Memory for what is no request yet, or never one: counted as requests' is.
  void Hold(uint64_t bytes, const Account& account = {});
  void Release(uint64_t bytes, const Account& account = {});
  // A window's. kBadInput: it could never be; kConflict: not now.
  [[nodiscard]] Result<void> HoldWindow(uint64_t bytes, uint32_t tenant);
  void ReleaseWindow(uint64_t bytes, uint32_t tenant);
  // Slices by name, for metrics and tests.
  struct SliceView {
    std::string executor, gpu, gpu_id, name;  // the GPU as the executor calls it, and its identity
    std::string memory;                       // SliceOffer's
    bool alive, is_starting;
    uint32_t busy_cells, cells;
    uint64_t requests;
  };
  [[nodiscard]] std::vector<SliceView> Slices() const;
  // What a request of one row is expected to take, of each model and slice of which something was learnt.
  struct ServiceView {
    std::string model;
    uint32_t slice;  // of Slices()
    Duration expected;
    Duration mean;  // of its last requests, whatever their rows
  };
  [[nodiscard]] std::vector<ServiceView> ServiceTimes() const;
  [[nodiscard]] const std::vector<GpuTable::Gpu>& gpus() const { return gpus_.gpus(); }

 private:
  enum class State { kQueued, kDelivered };
  struct Job {
    Request request;
    State state = State::kQueued;
    bool answered = false;
    Time came{0}, deadline{0};
    Time delivered{0};   // when the slice was given it
    uint32_t lives = 2;  // executors that may die with it
    uint32_t not_executor = scheduler::kNobody;
    uint32_t slice = 0, cell = 0;  // while delivered
    Duration expected{0};          // that it takes there
    Time look_at{0};               // whether its slice is stuck
  };
  struct Slice {
    SliceOffer offer;
    uint32_t executor = 0;
    std::vector<uint64_t> cells;  // request in it; 0: free
    uint32_t last_tenant = scheduler::kNobody;
    uint64_t requests = 0;
    Time since{0};         // it has had the request that it works on for so long, at most
    Duration expected{0};  // of all that it has in hand
  };
  struct Executor {
    std::string name;
    bool alive = false;
    uint32_t first_slice = 0, slices = 0;
    Time beat{0};
    bool is_starting = false;
  };

  static MemoryBudget MemoryOf(const BrokerOptions& options);
  static MemoryBudget WindowsOf(const BrokerOptions& options);
  void AnswerJob(Job& job, const Answer& answer);
  void Refuse(const Request& request, Status status, const std::string& message,
              std::chrono::milliseconds retry_after = {});
  void BreakPromises(uint32_t tenant);
  void Erase(uint64_t id);
  void Place(Time now);
  bool PlaceOne(uint64_t id, Job& job, Time now);
  bool DeliverTo(uint32_t slice, uint64_t id, Job& job, Time done_at, Time now);
  void FreeCell(uint32_t slice, uint64_t id, Time now);
  void KeepDeadline(Time at, uint64_t id);
  [[nodiscard]] Duration Expected(const Job& job, uint32_t slice) const;
  [[nodiscard]] Time StuckAt(uint32_t slice) const;
  // Valid until the next one.
  [[nodiscard]] scheduler::RequestDemand DemandOf(const Job& job);
  // Who waits for a model that was replaced is told.
  void RefuseWaiting(uint32_t model);
  void MarkSlices();  // whose executor takes nothing
  [[nodiscard]] MemoryBudget::Owner OwnerOf(const Account& account) const;

  BrokerOptions options_;
  SlicePort& port_;
  ModelTable models_;
  std::vector<Executor> executors_;
  std::vector<Slice> slices_;
  std::vector<scheduler::SliceState> states_;
  GpuTable gpus_;
  std::set<std::string, std::less<>> draining_;  // executors' names
  std::vector<RequestQueue> queues_;             // by tenant
  std::unordered_map<uint64_t, Job> jobs_;
  std::vector<std::pair<Time, uint64_t>> deadlines_;  // a heap; entries of requests that are gone stay in it
  uint64_t last_id_ = 0;
  uint32_t next_tenant_ = 0;
  size_t running_ = 0;
  MemoryBudget memory_, windows_;
  std::vector<Duration> learnt_;  // DemandOf's
  bool placing_ = false, place_again_ = false;
  std::optional<Time> closed_;
  BrokerCounts counts_;
};

}  // namespace spillway::gateway
