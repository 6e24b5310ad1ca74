// SPDX-License-Identifier: Apache-2.0
// Executors that come and go, their slices and models, and what is known of them.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/broker/broker.h"

namespace spillway::gateway {
namespace {

constexpr size_t kMaxSlices = 65536;

}  // namespace

void Broker::RefuseWaiting(uint32_t model) {
  for (uint32_t tenant = 0; tenant < queues_.size(); tenant++) {
    const auto waiting = queues_[tenant].TakeModel(model);
    if (!waiting.empty()) BreakPromises(tenant);
    for (const uint64_t id : waiting) {
      AnswerJob(jobs_.at(id),
                {.status = Status::kNoModel, .message = "the model was replaced by one with other tensors"});
      Erase(id);
    }
  }
}

Result<Broker::Joined> Broker::AddExecutor(const ExecutorOffer& offer, Time now) {
  for (const Executor& other : executors_)
    if (other.alive && other.name == offer.name)
      return Fail(ErrorCode::kConflict, fmt::format("an executor named {} is already connected", offer.name));
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
  if (slices_.size() + offer.slices.size() > kMaxSlices) return Fail(ErrorCode::kConflict, "too many slices");
  for (const ModelCard& card : offer.models)
    if (const auto known = FindModel(card.name)) {
      if (!(*models_[*known].card == card) && !models_[*known].slices.empty())
        return Fail(
            ErrorCode::kConflict,
            fmt::format(
                "model {}: another executor serves a model of this name with different tensors or costs",
                card.name));
    }
  if (auto room = models_.MakeRoomFor(offer.models); !room) return tl::make_unexpected(room.error());
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
    for (size_t i = slices_.size() - offer.slices.size(); i < slices_.size(); i++) states_[i].alive = false;
  }
  executors_[executor].name = offer.name;
  executors_[executor].alive = true;
  executors_[executor].beat = now;
  executors_[executor].is_starting = offer.is_starting;
  const uint32_t first_slice = executors_[executor].first_slice;
  for (uint32_t i = 0; i < offer.slices.size(); i++) {
    const SliceOffer& slice = offer.slices[i];
    slices_[first_slice + i] = {slice, executor, std::vector<uint64_t>(slice.cells, 0)};
    scheduler::SliceState& state = states_[first_slice + i] = {};
    state.gpu = gpus_.Join(GpuTable::IdentityOf(offer.host, slice.gpu, slice.gpu_uuid));
    state.executor = executor;
    state.gflop_per_s = slice.gflop_per_s;
    state.free_at = now;
    state.cells_free = slice.cells;
  }
  MarkSlices();
  for (uint32_t i = 0; i < offer.models.size(); i++) {
    std::optional<uint32_t> replaced;
    KnownModel& model = models_[models_.Add(offer.models[i], replaced)];
    if (replaced) RefuseWaiting(*replaced);
    model.executors.emplace_back(executor, i);
    for (uint32_t slice = 0; slice < offer.slices.size(); slice++) {
      model.slices.push_back(first_slice + slice);
      model.times.emplace_back();
    }
  }
  return Joined{executor, first_slice};
}

void Broker::RemoveExecutor(uint32_t number, Time now) {
  Executor& executor = executors_[number];
  if (!executor.alive) return;
  executor.alive = false;
  counts_.executors_lost++;
  models_.RemoveSlices(number, executor.first_slice, executor.slices);
  std::vector<uint64_t> orphans;
  for (uint32_t i = executor.first_slice; i < executor.first_slice + executor.slices; i++) {
    states_[i].alive = false;
    gpus_.Leave(states_[i].gpu);
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
      AnswerJob(
          job, {.status = Status::kExecutorLost, .message = "two executors died while running this request"});
      Erase(id);
    } else {
      counts_.replaced++;
      job.state = State::kQueued;
      job.not_executor = number;
      queues_[job.request.tenant].PushFront({job.request.model, id});
    }
  }
  Place(now);
}

void Broker::Drain(std::set<std::string, std::less<>> executors, Time now) {
  draining_ = std::move(executors);
  MarkSlices();
  Place(now);
}

void Broker::Ready(uint32_t executor, Time now) {
  executors_[executor].is_starting = false;
  MarkSlices();
  Place(now);
}

void Broker::MarkSlices() {
  for (uint32_t i = 0; i < states_.size(); i++) {
    const Executor& executor = executors_[slices_[i].executor];
    states_[i].is_starting = executor.is_starting;
    states_[i].is_draining = draining_.contains(executor.name);
    if (!states_[i].TakesMore()) states_[i].promised_to = scheduler::kNobody;
  }
}

size_t Broker::InHand(std::string_view executor) const {
  size_t all = 0;
  for (uint32_t i = 0; i < states_.size(); i++)
    if (states_[i].alive && executors_[slices_[i].executor].name == executor) all += states_[i].in_hand;
  return all;
}

void Broker::Beat(uint32_t executor, Time now) { executors_[executor].beat = now; }

std::optional<uint32_t> Broker::FindModel(std::string_view name) const { return models_.Find(name); }

const ModelCard* Broker::model(uint32_t index) const {
  const KnownModel* known = models_.Get(index);
  return known == nullptr ? nullptr : known->card.get();
}

bool Broker::ModelReady(uint32_t index) const {
  const KnownModel* known = models_.Get(index);
  return known != nullptr && std::any_of(known->slices.begin(), known->slices.end(), [&](uint32_t slice) {
           return !executors_[slices_[slice].executor].is_starting;
         });
}

std::vector<Broker::NumberedCard> Broker::Cards() const {
  std::vector<NumberedCard> cards;
  for (const auto& [number, model] : models_)
    if (!model.replaced) cards.push_back({number, model.card});
  return cards;
}

std::optional<uint32_t> Broker::FindTenant(std::string_view name) const {
  for (uint32_t i = 0; i < options_.tenants.size(); i++)
    if (options_.tenants[i].name == name) return i;
  return std::nullopt;
}

size_t Broker::queued() const {
  size_t all = 0;
  for (const RequestQueue& queue : queues_) all += queue.size();
  return all;
}

std::vector<Broker::SliceView> Broker::Slices() const {
  std::vector<SliceView> views;
  for (uint32_t i = 0; i < slices_.size(); i++) {
    const Slice& slice = slices_[i];
    views.push_back({executors_[slice.executor].name, slice.offer.gpu, gpus()[states_[i].gpu].identity,
                     slice.offer.name, slice.offer.memory, states_[i].alive, states_[i].is_starting,
                     static_cast<uint32_t>(slice.cells.size()) - states_[i].cells_free,
                     static_cast<uint32_t>(slice.cells.size()), slice.requests});
  }
  return views;
}

std::vector<Broker::ServiceView> Broker::ServiceTimes() const {
  std::vector<ServiceView> views;
  for (const auto& [number, model] : models_) {
    if (model.replaced) continue;
    for (size_t i = 0; i < model.slices.size(); i++)
      if (const auto expected = model.times[i].Expect(1, model.work))
        views.push_back({model.card->name, model.slices[i], *expected, model.times[i].Mean()});
  }
  return views;
}

}  // namespace spillway::gateway
