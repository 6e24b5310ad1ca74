// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace spillway::gateway {
namespace {

using scheduler::kNobody;
using std::chrono::milliseconds;

}  // namespace

Broker::Broker(BrokerOptions options, SlicePort& port)
    : options_(std::move(options)),
      port_(port),
      gpus_(options_.tenants.size()),
      memory_(MemoryOf(options_)),
      windows_(WindowsOf(options_)) {
  counts_.answers.resize(options_.tenants.size());
  counts_.took.resize(options_.tenants.size());
  counts_.waited.resize(options_.tenants.size());
  for (const auto& tenant : options_.tenants) queues_.emplace_back(tenant.queue);
}

// ---- requests

void Broker::Refuse(const Request& request, Status status, const std::string& message,
                    milliseconds retry_after) {
  counts_.answers[request.tenant][static_cast<size_t>(status)]++;
  Answer answer;
  answer.status = status;
  answer.message = message;
  answer.retry_after = retry_after;
  request.reply(answer);
}

uint64_t Broker::Submit(Request request, Time now) {
  KnownModel* const known = models_.Get(request.model);
  if (known == nullptr) {
    Refuse(request, Status::kNoModel,
           "unknown model number (the model may have been replaced); look it up by name");
    return 0;
  }
  const ModelCard& card = *known->card;
  const Account account{request.tenant, request.front};
  const Time came = request.came.value_or(now);
  if (closed_ && came >= *closed_) {
    Refuse(request, Status::kBusy, "the gateway is shutting down", milliseconds(1000));
    return 0;
  }
  if (known->replaced) {
    Refuse(request, Status::kNoModel, fmt::format("model {}: replaced by one with other tensors", card.name));
    return 0;
  }
  if (request.rows < 1 || request.rows > card.most_rows) {
    Refuse(request, Status::kBadRequest,
           fmt::format("model {}: {} rows, expected 1 to {}", card.name, request.rows, card.most_rows));
    return 0;
  }
  const uint64_t expected = card.InputBytes(request.rows);
  if (request.inputs.size() != expected) {
    Refuse(request, Status::kBadRequest,
           fmt::format("model {}: {} bytes of inputs, expected {} for {} rows", card.name,
                       request.inputs.size(), expected, request.rows));
    return 0;
  }
  if (card.OutputBytes(request.rows) > request.most_output) {
    Refuse(request, Status::kTooLarge,
           fmt::format("model {}: {} bytes of outputs do not fit into the space for them", card.name,
                       card.OutputBytes(request.rows)));
    return 0;
  }
  const uint64_t inputs = std::min<uint64_t>(request.inputs.size(), request.held_bytes);
  if (const auto fits = CanFit(inputs, request.held_bytes - inputs, account); !fits) {
    Refuse(request, Status::kTooLarge, fmt::format("model {}: {}", card.name, fits.error().message));
    return 0;
  }
  if (Full(account, request.held_bytes)) {
    const RequestQueue& queue = queues_[request.tenant];
    Refuse(request, Status::kBusy,
           queue.IsFull() ? fmt::format("the tenant's queue of {} requests is full", queue.limit())
                          : std::string("the gateway's memory for requests is full"),
           milliseconds(1000));
    return 0;
  }
  const uint64_t id = ++last_id_;
  Job job;
  const Duration wish = request.deadline.value_or(options_.default_deadline);
  job.came = came;
  job.deadline = came + std::min(wish, options_.longest_deadline);
  Hold(request.held_bytes, account);
  known->requests++;
  const RequestQueue::Entry entry{request.model, id};
  RequestQueue& queue = queues_[request.tenant];
  job.request = std::move(request);
  KeepDeadline(job.deadline, id);
  Job& kept = jobs_.emplace(id, std::move(job)).first->second;
  // The common case: nobody waits, and a slice is free.
  if (queue.empty() && !placing_ && PlaceOne(id, kept, now)) return id;
  queue.PushBack(entry);
  if (queue.size() > 1) Place(now);
  return id;
}

void Broker::KeepDeadline(Time at, uint64_t id) {
  // Most requests are gone long before their deadline; what they leave here must not grow with the rate.
  if (deadlines_.size() > 4 * jobs_.size() + 1024) {
    std::erase_if(deadlines_, [&](const auto& entry) { return !jobs_.contains(entry.second); });
    std::make_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  }
  deadlines_.emplace_back(at, id);
  std::push_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
}

void Broker::Place(Time now) {
  if (placing_) {
    place_again_ = true;
    return;
  }
  placing_ = true;
  do {
    place_again_ = false;
    // Around the tenants, one request each, until nobody's can be placed. A tenant that could not is not
    // asked again until something changes.
    std::vector<bool> waits(queues_.size(), false);
    for (size_t idle = 0; idle < queues_.size();) {
      const uint32_t tenant = next_tenant_;
      next_tenant_ = next_tenant_ + 1 >= queues_.size() ? 0 : next_tenant_ + 1;
      RequestQueue& queue = queues_[tenant];
      bool placed = false;
      if (!waits[tenant] && !queue.empty())
        for (const RequestQueue::Entry& head : queue.Heads()) {
          placed = PlaceOne(head.id, jobs_.at(head.id), now);
          if (!placed) continue;
          queue.Erase(head);
          break;
        }
      if (!placed) waits[tenant] = true;
      idle = placed ? 0 : idle + 1;
    }
  } while (place_again_);
  placing_ = false;
}

scheduler::RequestDemand Broker::DemandOf(const Job& job) {
  const KnownModel& model = models_[job.request.model];
  learnt_.clear();
  for (const ServiceTime& time : model.times)
    learnt_.push_back(time.Expect(job.request.rows, model.work).value_or(Duration(0)));
  return {.tenant = job.request.tenant,
          .gflop = model.card->GflopFor(job.request.rows),
          .slices = model.slices,
          .not_executor = job.not_executor,
          .learnt = learnt_};
}

bool Broker::PlaceOne(uint64_t id, Job& job, Time now) {
  const scheduler::RequestDemand demand = DemandOf(job);
  const auto placement = scheduler::PlaceRequest(demand, states_, options_.isolation, now);
  if (placement.slice >= 0) {
    const auto slice = static_cast<uint32_t>(placement.slice);
    if (DeliverTo(slice, id, job, placement.done_at, now)) return true;
    // It does not take what it should: the executor is as good as dead. Its socket will say so as well.
    place_again_ = true;
    for (scheduler::SliceState& state : states_)
      if (state.executor == slices_[slice].executor) state.alive = false;
    port_.Abandon(slices_[slice].executor);
    return false;
  }
  const int32_t promise = scheduler::SliceToPromise(demand, states_, options_.isolation);
  if (promise >= 0) states_[static_cast<size_t>(promise)].promised_to = demand.tenant;
  return false;
}

bool Broker::DeliverTo(uint32_t number, uint64_t id, Job& job, Time done_at, Time now) {
  Slice& slice = slices_[number];
  scheduler::SliceState& state = states_[number];
  const KnownModel& model = models_[job.request.model];
  const auto cell = static_cast<uint32_t>(std::find(slice.cells.begin(), slice.cells.end(), uint64_t{0}) -
                                          slice.cells.begin());
  const uint32_t tenant = job.request.tenant;
  Delivery delivery;
  delivery.id = id;
  delivery.slice = number;
  delivery.cell = cell;
  for (const auto& [executor, index] : model.executors)
    if (executor == slice.executor) delivery.model = index;
  delivery.rows = job.request.rows;
  delivery.inputs = job.request.inputs;
  delivery.peer = job.request.peer;
  delivery.output_bytes = model.card->OutputBytes(job.request.rows);
  delivery.wipe = options_.isolation != scheduler::Isolation::kNone && slice.last_tenant != kNobody &&
                  slice.last_tenant != tenant;
  if (!port_.Deliver(delivery)) return false;
  counts_.delivered++;
  counts_.wipes += delivery.wipe;
  if (state.cells_free == slice.cells.size()) slice.since = now;
  slice.cells[cell] = id;
  slice.last_tenant = tenant;
  slice.requests++;
  state.cells_free--;
  state.in_hand++;
  job.expected = done_at - std::max(now, state.free_at);
  slice.expected += job.expected;
  state.tenant = tenant;
  BreakPromises(tenant);  // whatever else of it still waits is promised a slice anew
  state.free_at = done_at;
  job.state = State::kDelivered;
  job.delivered = now;
  job.slice = number;
  job.cell = cell;
  job.look_at = StuckAt(number);
  KeepDeadline(job.look_at, id);
  running_++;
  return true;
}

// What the request takes on that slice, by what is known now.
Duration Broker::Expected(const Job& job, uint32_t slice) const {
  const KnownModel& model = models_[job.request.model];
  const auto at = std::find(model.slices.begin(), model.slices.end(), slice) - model.slices.begin();
  return std::max(
      model.times[static_cast<size_t>(at)].Longest(),
      scheduler::TimeByFigures(model.card->GflopFor(job.request.rows), states_[slice].gflop_per_s));
}

// When a slice that has done nothing since then has died, as far as can be told. It works on one of what it
// has in hand; which one is its own business.
Time Broker::StuckAt(uint32_t number) const {
  const Slice& slice = slices_[number];
  Duration expected{0};
  for (const uint64_t id : slice.cells)
    if (id != 0) expected = std::max(expected, Expected(jobs_.at(id), number));
  const Time by_word =
      std::min(executors_[slice.executor].beat, slice.since + std::max(expected, options_.longest_deadline));
  return std::max(slice.since + expected, by_word) + options_.stuck_after;
}

void Broker::FreeCell(uint32_t number, uint64_t id, Time now) {
  Slice& slice = slices_[number];
  scheduler::SliceState& state = states_[number];
  const auto cell = std::find(slice.cells.begin(), slice.cells.end(), id);
  *cell = 0;
  running_--;
  slice.since = now;
  slice.expected -= jobs_.at(id).expected;
  state.free_at = now + slice.expected;  // whatever was expected of what it has done
  state.in_hand--;
  if (++state.cells_free == slice.cells.size()) state.tenant = kNobody;
}

bool Broker::Complete(uint32_t slice, uint64_t id, Status status, std::span<const std::byte> outputs,
                      Duration busy, Time now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state != State::kDelivered || found->second.slice != slice ||
      !states_[slice].alive)
    return false;
  Job& job = found->second;
  KnownModel& model = models_[job.request.model];
  const ModelCard& card = *model.card;
  const Duration worked = now - slices_[slice].since;
  gpus_.Charge(states_[slice].gpu, job.request.tenant, worked);
  // Whether or not anybody still wants it. What was given up took no time, and says nothing.
  if (status == Status::kOk) {
    const auto at = std::find(model.slices.begin(), model.slices.end(), slice) - model.slices.begin();
    model.work += worked;
    model.times[static_cast<size_t>(at)].Learn(job.request.rows, busy, worked, model.work);
  }
  if (job.answered) {
    counts_.late_completions++;
  } else if (status != Status::kOk) {
    const std::string text(reinterpret_cast<const char*>(outputs.data()),
                           std::min<size_t>(outputs.size(), 200));
    AnswerJob(job, {.status = Status::kFailed, .message = text.empty() ? "the model failed" : text});
  } else if (outputs.size() != card.OutputBytes(job.request.rows)) {
    AnswerJob(job, {.status = Status::kFailed, .message = "the executor sent outputs of another size"});
  } else {
    counts_.took[job.request.tenant].Add(now - job.came);
    counts_.waited[job.request.tenant].Add(job.delivered - job.came);
    AnswerJob(job, {.outputs = outputs, .busy = busy});
  }
  FreeCell(slice, id, now);
  Erase(id);
  if (queued() > 0) Place(now);
  return true;
}

void Broker::AnswerJob(Job& job, const Answer& told) {
  Answer answer = told;
  answer.model = models_[job.request.model].card.get();
  answer.rows = job.request.rows;
  counts_.answers[job.request.tenant][static_cast<size_t>(answer.status)]++;
  job.answered = true;
  job.request.reply(answer);
  // A slice may work on it still; its inputs were copied there, and nobody places it again.
  job.request.inputs = {};
  job.request.peer = nullptr;
  job.request.keeper.reset();
}

void Broker::Erase(uint64_t id) {
  const auto found = jobs_.find(id);
  const Request& request = found->second.request;
  Release(request.held_bytes, {request.tenant, request.front});
  models_[request.model].requests--;
  jobs_.erase(found);
}

void Broker::Cancel(uint64_t id, Time now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.answered) return;
  Job& job = found->second;
  AnswerJob(job, {.status = Status::kCancelled, .message = "cancelled by its client"});
  if (job.state == State::kDelivered) return port_.GiveUp(job.slice, job.cell, id);
  queues_[job.request.tenant].Erase({job.request.model, id});
  BreakPromises(job.request.tenant);
  Erase(id);
  Place(now);
}

// Of a tenant of whom a request waits no more: the promise may have been for that one, and would keep others
// out for nothing. Place promises anew to whoever waits.
void Broker::BreakPromises(uint32_t tenant) {
  for (auto& state : states_)
    if (state.promised_to == tenant) state.promised_to = kNobody;
}

void Broker::Tick(Time now) {
  std::vector<uint32_t> stuck;
  while (!deadlines_.empty() && deadlines_.front().first <= now) {
    const uint64_t id = deadlines_.front().second;
    std::pop_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
    deadlines_.pop_back();
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) continue;
    Job& job = found->second;
    if (job.state == State::kDelivered && job.look_at <= now) {
      job.look_at = StuckAt(job.slice);
      if (job.look_at > now)
        KeepDeadline(job.look_at, id);
      else
        stuck.push_back(slices_[job.slice].executor);
    }
    if (job.answered || job.deadline > now) continue;
    if (job.state == State::kDelivered) {
      AnswerJob(job, {.status = Status::kDeadline, .message = "deadline exceeded while running on a slice"});
      port_.GiveUp(job.slice, job.cell, id);
      continue;
    }
    const auto placement = scheduler::PlaceRequest(DemandOf(job), states_, options_.isolation, now);
    const std::string text =
        "no slice became available before the deadline: " +
        (placement.slice >= 0 ? std::string("other requests came first") : placement.Reason());
    AnswerJob(job, {.status = Status::kNoSlice, .message = text, .retry_after = milliseconds(1000)});
    queues_[job.request.tenant].Erase({job.request.model, id});
    BreakPromises(job.request.tenant);
    Erase(id);
    place_again_ = true;
  }
  std::sort(stuck.begin(), stuck.end());
  stuck.erase(std::unique(stuck.begin(), stuck.end()), stuck.end());
  for (const uint32_t executor : stuck) port_.Abandon(executor);
  if (std::exchange(place_again_, false)) Place(now);
}

std::optional<Time> Broker::NextEnd() const {
  std::optional<Time> first;
  for (size_t i = 0; i < slices_.size(); i++) {
    if (states_[i].in_hand == 0 || !states_[i].alive) continue;
    const Slice& slice = slices_[i];
    std::optional<Duration> least;  // of what the slice has in hand, of which it works on one
    for (const uint64_t id : slice.cells) {
      if (id == 0) continue;
      const Duration expected = jobs_.at(id).expected;
      least = std::min(least.value_or(expected), expected);
    }
    if (least) first = std::min(first.value_or(slice.since + *least), slice.since + *least);
  }
  return first;
}

std::optional<Time> Broker::NextTick() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.front().first;
}

}  // namespace spillway::gateway
