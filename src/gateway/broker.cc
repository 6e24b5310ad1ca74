// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace spillway::gateway {
namespace {

using scheduler::kNobody;
using std::chrono::milliseconds;

// A queue is looked through so far behind a request that no slice can take: one model's trouble is not
// another's.
constexpr size_t kLookAhead = 8;

constexpr size_t kMostSlices = 65536;

}  // namespace

Broker::Broker(BrokerOptions options, SlicePort& port)
    : options_(std::move(options)), port_(port), tenants_(options_.tenants.size()) {
  counts_.answers.resize(options_.tenants.size());
}

// ---- executors

uint32_t Broker::GpuNumber(uint32_t executor, const std::string& gpu) {
  const std::string name = fmt::format("{}/{}", executor, gpu);
  const auto found = std::find(gpus_.begin(), gpus_.end(), name);
  if (found != gpus_.end()) return static_cast<uint32_t>(found - gpus_.begin());
  gpus_.push_back(name);
  return static_cast<uint32_t>(gpus_.size() - 1);
}

Result<Broker::Joined> Broker::AddExecutor(const ExecutorOffer& offer, Time now) {
  for (const Executor& other : executors_)
    if (other.alive && other.name == offer.name)
      return Fail(ErrorCode::kConflict, fmt::format("an executor named {} is there already", offer.name));
  for (const ModelCard& card : offer.models)
    for (const SliceOffer& slice : offer.slices)
      if (card.InputBytes(card.most_rows) > slice.input_bytes ||
          card.OutputBytes(card.most_rows) > slice.output_bytes)
        return Fail(ErrorCode::kBadInput, fmt::format("model {}: {} rows do not fit into a cell of slice {}",
                                                      card.name, card.most_rows, slice.name));
  for (const ModelCard& card : offer.models)
    if (const auto fits = CanFit(card.InputBytes(1), card.OutputBytes(1)); !fits)
      return Fail(ErrorCode::kBadInput,
                  fmt::format("model {}: one row: {}", card.name, fits.error().message));
  if (slices_.size() + offer.slices.size() > kMostSlices)
    return Fail(ErrorCode::kConflict, "too many slices");
  for (const ModelCard& card : offer.models)
    if (const auto known = FindModel(card.name)) {
      if (!(models_[*known].card == card) && !models_[*known].slices.empty())
        return Fail(
            ErrorCode::kConflict,
            fmt::format("model {}: another executor's of that name has other tensors or costs", card.name));
    }
  // Numbers of one that left serve again: all its cells were emptied, and the port hears it no more.
  uint32_t executor = 0;
  while (executor < executors_.size() &&
         (executors_[executor].alive || executors_[executor].slices != offer.slices.size()))
    executor++;
  if (executor == executors_.size()) {
    executors_.push_back(
        {"", false, static_cast<uint32_t>(slices_.size()), static_cast<uint32_t>(offer.slices.size())});
    slices_.resize(slices_.size() + offer.slices.size());
    states_.resize(slices_.size());
  }
  executors_[executor].name = offer.name;
  executors_[executor].alive = true;
  const uint32_t first_slice = executors_[executor].first_slice;
  for (uint32_t i = 0; i < offer.slices.size(); i++) {
    const SliceOffer& slice = offer.slices[i];
    slices_[first_slice + i] = {slice, executor, std::vector<uint64_t>(slice.cells, 0)};
    scheduler::SliceState& state = states_[first_slice + i] = {};
    state.gpu = GpuNumber(executor, slice.gpu);
    state.executor = executor;
    state.gflop_per_s = slice.gflop_per_s;
    state.free_at = now;
    state.cells_free = slice.cells;
  }
  for (uint32_t i = 0; i < offer.models.size(); i++) {
    const ModelCard& card = offer.models[i];
    auto known = FindModel(card.name);
    if (!known) {
      models_.push_back({card, {}, {}});
      known = static_cast<uint32_t>(models_.size() - 1);
    }
    Model& model = models_[*known];
    model.card = card;
    model.executors.emplace_back(executor, i);
    for (uint32_t slice = 0; slice < offer.slices.size(); slice++)
      model.slices.push_back(first_slice + slice);
  }
  return Joined{executor, first_slice};
}

void Broker::RemoveExecutor(uint32_t number, Time now) {
  Executor& executor = executors_[number];
  if (!executor.alive) return;
  executor.alive = false;
  counts_.executors_lost++;
  const auto gone = [&](uint32_t slice) {
    return slice >= executor.first_slice && slice < executor.first_slice + executor.slices;
  };
  for (Model& model : models_) {
    std::erase_if(model.slices, gone);
    std::erase_if(model.executors, [&](const auto& entry) { return entry.first == number; });
  }
  std::vector<uint64_t> orphans;
  for (uint32_t i = executor.first_slice; i < executor.first_slice + executor.slices; i++) {
    states_[i].alive = false;
    for (uint64_t& id : slices_[i].cells)
      if (id != 0) orphans.push_back(std::exchange(id, 0));
  }
  // The oldest come first again: what is put at the front last is placed first.
  std::sort(orphans.rbegin(), orphans.rend());
  for (const uint64_t id : orphans) {
    Job& job = jobs_.at(id);
    running_--;
    if (job.answered) {
      Erase(id);
    } else if (--job.lives == 0) {
      AnswerJob(job, {.status = Status::kExecutorLost, .message = "two executors died while they had it"});
      Erase(id);
    } else {
      counts_.replaced++;
      job.state = State::kQueued;
      job.not_executor = number;
      tenants_[job.request.tenant].queue.push_front(id);
    }
  }
  Place(now);
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

Result<void> Broker::CanFit(uint64_t inputs, uint64_t outputs) const {
  if (outputs <= options_.memory && inputs <= options_.memory - outputs) return {};
  return Fail(ErrorCode::kBadInput,
              fmt::format("{} bytes of inputs and {} of outputs are more than limits.memory, {} bytes",
                          inputs, outputs, options_.memory));
}

bool Broker::Full(uint32_t tenant, uint64_t bytes) const {
  return tenants_[tenant].queue.size() >= options_.tenants[tenant].queue || bytes > options_.memory ||
         memory_held_ > options_.memory - bytes;
}

uint64_t Broker::Submit(Request request, Time now) {
  const ModelCard& card = models_[request.model].card;
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
           fmt::format("model {}: {} bytes of outputs do not fit where they should go", card.name,
                       card.OutputBytes(request.rows)));
    return 0;
  }
  if (request.held_bytes > options_.memory) {
    const uint64_t outputs = card.OutputBytes(request.rows);
    const auto fits = CanFit(request.held_bytes - std::min(outputs, request.held_bytes), outputs);
    Refuse(request, Status::kTooLarge, fmt::format("model {}: {}", card.name, fits.error().message));
    return 0;
  }
  if (Full(request.tenant, request.held_bytes)) {
    const bool queue = tenants_[request.tenant].queue.size() >= options_.tenants[request.tenant].queue;
    Refuse(request, Status::kBusy,
           queue ? fmt::format("the tenant's queue of {} requests is full",
                               options_.tenants[request.tenant].queue)
                 : std::string("the gateway's memory for requests is full"),
           milliseconds(1000));
    return 0;
  }
  const uint64_t id = ++last_id_;
  Job job;
  const Duration wish = request.deadline.value_or(options_.default_deadline);
  job.deadline = now + std::min(wish, options_.longest_deadline);
  memory_held_ += request.held_bytes;
  const uint32_t tenant = request.tenant;
  job.request = std::move(request);
  KeepDeadline(job.deadline, id);
  Job& kept = jobs_.emplace(id, std::move(job)).first->second;
  // The common case: nobody waits, and a slice is free.
  if (tenants_[tenant].queue.empty() && !placing_ && PlaceOne(id, kept, now)) return id;
  tenants_[tenant].queue.push_back(id);
  if (tenants_[tenant].queue.size() > 1) Place(now);
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
    std::vector<bool> waits(tenants_.size(), false);
    for (size_t idle = 0; idle < tenants_.size();) {
      const uint32_t tenant = next_tenant_;
      next_tenant_ = next_tenant_ + 1 >= tenants_.size() ? 0 : next_tenant_ + 1;
      auto& queue = tenants_[tenant].queue;
      bool placed = false;
      for (size_t i = 0; !waits[tenant] && i < std::min(queue.size(), kLookAhead) && !placed; i++) {
        const uint64_t id = queue[i];
        if (!PlaceOne(id, jobs_.at(id), now)) continue;
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
        placed = true;
      }
      if (!placed) waits[tenant] = true;
      idle = placed ? 0 : idle + 1;
    }
  } while (place_again_);
  placing_ = false;
}

bool Broker::PlaceOne(uint64_t id, Job& job, Time now) {
  const Model& model = models_[job.request.model];
  scheduler::RequestDemand demand;
  demand.tenant = job.request.tenant;
  demand.gflop = model.card.GflopFor(job.request.rows);
  demand.slices = model.slices;
  demand.not_executor = job.not_executor;
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
  job.reason = placement.Reason();
  const int32_t promise = scheduler::SliceToPromise(demand, states_, options_.isolation);
  if (promise >= 0) states_[static_cast<size_t>(promise)].promised_to = demand.tenant;
  return false;
}

bool Broker::DeliverTo(uint32_t number, uint64_t id, Job& job, Time done_at, Time now) {
  Slice& slice = slices_[number];
  scheduler::SliceState& state = states_[number];
  const Model& model = models_[job.request.model];
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
  delivery.output_bytes = model.card.OutputBytes(job.request.rows);
  delivery.scrub = options_.isolation != scheduler::Isolation::kNone && slice.last_tenant != kNobody &&
                   slice.last_tenant != tenant;
  if (!port_.Deliver(delivery)) return false;
  counts_.delivered++;
  counts_.scrubs += delivery.scrub;
  slice.cells[cell] = id;
  slice.last_tenant = tenant;
  slice.requests++;
  state.cells_free--;
  state.tenant = tenant;
  if (state.promised_to == tenant) state.promised_to = kNobody;
  state.free_at = done_at;
  job.state = State::kDelivered;
  job.slice = number;
  job.cell = cell;
  job.stuck_at = std::max(done_at, now) + options_.stuck_after;
  KeepDeadline(job.stuck_at, id);
  running_++;
  return true;
}

void Broker::FreeCell(uint32_t number, uint64_t id, Time now) {
  Slice& slice = slices_[number];
  scheduler::SliceState& state = states_[number];
  const auto cell = std::find(slice.cells.begin(), slice.cells.end(), id);
  *cell = 0;
  running_--;
  if (++state.cells_free == slice.cells.size()) {
    state.tenant = kNobody;
    state.free_at = now;  // whatever was expected, it is idle
  }
}

bool Broker::Complete(uint32_t slice, uint64_t id, Status status, std::span<const std::byte> outputs,
                      Duration busy, Time now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state != State::kDelivered || found->second.slice != slice ||
      !states_[slice].alive)
    return false;
  Job& job = found->second;
  const ModelCard& card = models_[job.request.model].card;
  if (job.answered) {
    counts_.late_completions++;
  } else if (status != Status::kOk) {
    const std::string text(reinterpret_cast<const char*>(outputs.data()),
                           std::min<size_t>(outputs.size(), 200));
    AnswerJob(job, {.status = Status::kFailed, .message = text.empty() ? "the model failed" : text});
  } else if (outputs.size() != card.OutputBytes(job.request.rows)) {
    AnswerJob(job, {.status = Status::kFailed, .message = "the executor sent outputs of another size"});
  } else {
    AnswerJob(job, {.outputs = outputs, .busy = busy});
  }
  FreeCell(slice, id, now);
  Erase(id);
  if (queued() > 0) Place(now);
  return true;
}

void Broker::AnswerJob(Job& job, const Answer& told) {
  Answer answer = told;
  answer.model = &models_[job.request.model].card;
  answer.rows = job.request.rows;
  counts_.answers[job.request.tenant][static_cast<size_t>(answer.status)]++;
  job.answered = true;
  job.request.reply(answer);
}

void Broker::Erase(uint64_t id) {
  const auto found = jobs_.find(id);
  memory_held_ -= found->second.request.held_bytes;
  jobs_.erase(found);
}

void Broker::Cancel(uint64_t id, Time now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.answered) return;
  Job& job = found->second;
  AnswerJob(job, {.status = Status::kCancelled, .message = "cancelled by its client"});
  if (job.state == State::kDelivered) return;
  std::erase(tenants_[job.request.tenant].queue, id);
  Erase(id);
  Place(now);
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
    if (job.state == State::kDelivered && job.stuck_at <= now) stuck.push_back(slices_[job.slice].executor);
    if (job.answered || job.deadline > now) continue;
    if (job.state == State::kDelivered) {
      AnswerJob(job, {.status = Status::kDeadline, .message = "a slice had it and did not finish in time"});
      continue;
    }
    const std::string text = "no slice until its deadline: " + job.reason;
    AnswerJob(job, {.status = Status::kNoSlice, .message = text, .retry_after = milliseconds(1000)});
    std::erase(tenants_[job.request.tenant].queue, id);
    // A promise that nobody waits for any more keeps others out for nothing.
    if (tenants_[job.request.tenant].queue.empty())
      for (auto& state : states_)
        if (state.promised_to == job.request.tenant) state.promised_to = kNobody;
    Erase(id);
    place_again_ = true;
  }
  std::sort(stuck.begin(), stuck.end());
  stuck.erase(std::unique(stuck.begin(), stuck.end()), stuck.end());
  for (const uint32_t executor : stuck) port_.Abandon(executor);
  if (std::exchange(place_again_, false)) Place(now);
}

std::optional<Time> Broker::NextTick() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.front().first;
}

// ---- what is known

std::optional<uint32_t> Broker::FindModel(std::string_view name) const {
  for (uint32_t i = 0; i < models_.size(); i++)
    if (models_[i].card.name == name) return i;
  return std::nullopt;
}

bool Broker::ModelReady(uint32_t index) const { return !models_[index].slices.empty(); }

std::optional<uint32_t> Broker::FindTenant(std::string_view name) const {
  for (uint32_t i = 0; i < options_.tenants.size(); i++)
    if (options_.tenants[i].name == name) return i;
  return std::nullopt;
}

size_t Broker::queued() const {
  size_t all = 0;
  for (const Tenant& tenant : tenants_) all += tenant.queue.size();
  return all;
}

std::vector<Broker::SliceView> Broker::Slices() const {
  std::vector<SliceView> views;
  for (uint32_t i = 0; i < slices_.size(); i++) {
    const Slice& slice = slices_[i];
    views.push_back({executors_[slice.executor].name, slice.offer.gpu, slice.offer.name, states_[i].alive,
                     static_cast<uint32_t>(slice.cells.size()) - states_[i].cells_free,
                     static_cast<uint32_t>(slice.cells.size()), slice.requests});
  }
  return views;
}

}  // namespace spillway::gateway
