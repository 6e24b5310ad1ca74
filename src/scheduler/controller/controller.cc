// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace spillway::scheduler {
namespace {

constexpr const char* kExecutorLeft = "its executor left";
constexpr Millis kHour = 3'600'000;
// Instances that were ready for so long have got over what was wrong before.
constexpr Millis kSteady = 10'000;

}  // namespace

Controller::Controller(ControllerOptions options, Fleet fleet)
    : options_(std::move(options)), fleet_(std::move(fleet)), heard_(fleet_.now) {
  if (fleet_.revision == 0) {
    fleet_.revision = 1;
    fleet_.moves_left = options_.moves_per_hour;
  }
}

// -- operators

Result<void> Controller::AddModel(const ServedModel& model, Millis now) {
  if (model.name.empty() || model.replicas < 0 || model.milli < 1 || model.milli > kWholeGpu ||
      model.memory_mib < 0)
    return Fail(ErrorCode::kBadInput,
                "expected a name, replicas from 0, a share of 1 to 1000 and a memory from 0");
  Begin(now);
  const auto there = fleet_.models.find(model.name);
  if (there != fleet_.models.end() && !IsSameService(there->second, model))
    return Fail(ErrorCode::kConflict,
                fmt::format("model {}: exists already with other settings ({}): remove it first", model.name,
                            ServiceDifference(there->second, model)));
  if (auto within = WithinQuota(model); !within) return within;
  if (there == fleet_.models.end() || !(there->second == model)) {
    fleet_.models[model.name] = model;
    fleet_.model_troubles.erase(model.name);
    Changed();
  }
  Reconcile();
  return {};
}

// What is served already stays, though the quota was made smaller; only to ask for more is refused.
Result<void> Controller::WithinQuota(const ServedModel& model) const {
  auto quota = options_.gpu_quotas.find(model.tenant);
  if (quota == options_.gpu_quotas.end()) quota = options_.gpu_quotas.find("*");
  if (quota == options_.gpu_quotas.end()) return {};
  // What it would hold: the larger of its shares of compute and memory, or the whole of its MIG profile.
  Fleet with = fleet_;
  with.models[model.name] = model;
  const FleetView view(with, options_.rules);
  const auto asked = [&](const ServedModel& one) {
    const Job job = view.JobOf(one);
    const bool is_sliced = options_.rules.isolation == Isolation::kFraction && job.Fractional();
    constexpr double kSevenths = 7;
    return one.replicas * std::max(job.milli / double{kWholeGpu},
                                   is_sliced && job.profile ? ShapeOf(*job.profile).compute / kSevenths : 0);
  };
  double before = 0, others = 0;
  for (const auto& [name, one] : fleet_.models)
    if (one.tenant == model.tenant) (name == model.name ? before : others) += asked(one);
  // Of models that were removed and have not ended yet, though others have their names by now.
  for (const auto& [id, one] : fleet_.instances) {
    const auto now = with.models.find(one.model.name);
    if (one.model.tenant != model.tenant ||
        (now != with.models.end() && IsSameService(one.model, now->second)))
      continue;
    ServedModel ending = one.model;
    ending.replicas = 1;
    others += asked(ending);
  }
  constexpr double kRounding = 1e-9;
  if (asked(model) <= before || others + asked(model) <= quota->second + kRounding) return {};
  return Fail(ErrorCode::kConflict,
              fmt::format("model {}: tenant {} has a quota of {:g} GPUs, and this makes {:g}", model.name,
                          model.tenant, quota->second, others + asked(model)));
}

Result<void> Controller::RemoveModel(const std::string& name, Millis now) {
  Begin(now);
  if (fleet_.models.erase(name) == 0)
    return Fail(ErrorCode::kBadInput, fmt::format("model {} does not exist", name));
  fleet_.model_troubles.erase(name);
  fleet_.downtime_ms.erase(name);
  fleet_.service_times.erase(name);
  Changed();
  Reconcile();
  return {};
}

// -- executors

void Controller::Joined(uint64_t id, Millis now) {
  Begin(now);
  if (Instance* one = Find(id)) {
    one->is_unseen = false;
    ++changes_;
    if (one->phase == Phase::kStarting) To(*one, Phase::kReady);
  }
  Reconcile();
}

void Controller::Left(uint64_t id, Millis now) {
  Begin(now);
  if (Instance* one = Find(id)) {
    if (one->phase == Phase::kReady) GiveUp(*one, kExecutorLeft);
    if (one->phase == Phase::kDraining) EndDraining(*one);
  }
  Reconcile();
}

void Controller::Idle(uint64_t id, Millis now) {
  Begin(now);
  if (Instance* one = Find(id); one != nullptr && one->phase == Phase::kDraining) EndDraining(*one);
  Reconcile();
}

// The mean of late: one outlier is half forgotten with the next.
void Controller::Measured(const std::string& model, Millis downtime_ms, Millis now) {
  Begin(now);
  if (fleet_.models.count(model) != 0) {
    const auto [at, is_first] = fleet_.downtime_ms.emplace(model, downtime_ms);
    if (!is_first) at->second = (at->second + downtime_ms) / 2;
    ++changes_;
  }
  Reconcile();
}

void Controller::Tick(Millis now) {
  Begin(now);
  effort_left_ = kEffortPerTurn;
  Reconcile();
}

void Controller::Restarted(Millis now) {
  Begin(now);
  for (auto& [id, one] : fleet_.instances) {
    one.since = fleet_.now;
    if (one.phase == Phase::kReady) one.is_unseen = true;
  }
  ++changes_;
  Reconcile();
}

// -- what follows

// The fleet's own time never goes back, and goes on from where it is when the caller's does.
void Controller::Begin(Millis now) {
  const Millis passed = std::max<Millis>(0, now - std::exchange(heard_, now));
  fleet_.gpu_ms += passed * static_cast<Millis>(GpusOn());
  // Saved up to an hour's, and to one move where that is less.
  fleet_.moves_left =
      std::min(options_.moves_per_hour > 0 ? std::max(options_.moves_per_hour, 1.0) : 0,
               fleet_.moves_left + options_.moves_per_hour * static_cast<double>(passed) / kHour);
  fleet_.now += passed;
}

void Controller::Reconcile() {
  EndLate();
  // Who is ready takes over from the one that it replaces.
  for (auto& [id, one] : fleet_.instances)
    if (one.replaces != 0 && IsServing(one))
      if (Instance* old = Find(one.replaces); old != nullptr && old->phase == Phase::kReady)
        To(*old, Phase::kDraining);
  TrimReplicas();
  ForgetTroubles();
  AddReplicas();
  StartPlanned();
  PlanMoves();
}

void Controller::EndLate() {
  std::vector<uint64_t> ids;
  for (const auto& [id, one] : fleet_.instances) ids.push_back(id);
  for (const uint64_t id : ids) {
    Instance& one = *Find(id);
    const Millis waits = fleet_.now - one.since;
    if (one.phase == Phase::kStarting && waits > options_.start_limit)
      GiveUp(one,
             fmt::format("it was not ready within {:g} s (controller.start); its log is in the node agent's "
                         "state folder on {}",
                         static_cast<double>(options_.start_limit) / 1e3, one.place.host));
    else if (one.phase == Phase::kReady && one.is_unseen && waits > options_.start_limit)
      GiveUp(one, "its executor did not come back");
    else if (one.phase == Phase::kDraining && waits > options_.drain_limit)
      EndDraining(one);
  }
}

void Controller::ForgetTroubles() {
  std::map<std::string, int> steady;  // of models in trouble
  for (const auto& [name, trouble] : fleet_.model_troubles) steady[name] = 0;
  for (const auto& [id, one] : fleet_.instances)
    if (one.phase == Phase::kReady && fleet_.now - one.since >= kSteady)
      if (const auto at = steady.find(one.model.name); at != steady.end()) ++at->second;
  std::erase_if(fleet_.model_troubles, [&](const auto& entry) {
    const auto model = fleet_.models.find(entry.first);
    return model == fleet_.models.end() ||
           (steady.at(entry.first) >= model->second.replicas && entry.second.not_before <= fleet_.now);
  });
  std::erase_if(fleet_.gpu_troubles, [&](const auto& entry) {
    return entry.second.not_before + options_.longest_back_off <= fleet_.now;
  });
}

// Ends those whose model is gone, or is another by now, and those that are too many: those that do not serve
// before those that do, and of these the youngest first.
void Controller::TrimReplicas() {
  std::vector<Instance*> eldest_first;
  for (auto& [id, one] : fleet_.instances)
    if (one.phase != Phase::kDraining && one.phase != Phase::kStopping) eldest_first.push_back(&one);
  std::stable_partition(eldest_first.begin(), eldest_first.end(),
                        [](const Instance* one) { return IsServing(*one); });
  std::map<std::string, int> there;
  for (Instance* const each : eldest_first) {
    Instance& one = *each;
    const auto model = fleet_.models.find(one.model.name);
    bool stays = model != fleet_.models.end() && IsSameService(one.model, model->second);
    if (stays) one.model = model->second;
    if (stays && !(one.replaces != 0 && one.phase == Phase::kStarting))
      stays = ++there[one.model.name] <= model->second.replicas;
    if (stays) continue;
    if (IsServing(one))
      To(one, Phase::kDraining);
    else
      Stop(one);
  }
}

void Controller::AddReplicas() {
  std::map<std::string, int> there = Replicas();
  PlaceSearches searches(fleet_, options_.rules, options_.policy);
  has_more_ = false;
  auto at = fleet_.models.lower_bound(next_model_);
  for (size_t i = 0; i < fleet_.models.size(); ++i, ++at) {
    if (at == fleet_.models.end()) at = fleet_.models.begin();
    const auto& [name, model] = *at;
    const bool has_all = AddReplicasOf(model, there[name], searches);
    // That there was no room is over; what failed is told until all have been steady.
    const auto trouble = fleet_.model_troubles.find(name);
    if (has_all && trouble != fleet_.model_troubles.end() && trouble->second.failures == 0)
      fleet_.model_troubles.erase(trouble);
  }
  if (!has_more_) next_model_.clear();
}

// False: some are still missing.
bool Controller::AddReplicasOf(const ServedModel& model, int there, PlaceSearches& searches) {
  for (Instance* spare; there < model.replicas && (spare = SpareOf(model)) != nullptr; ++there) {
    To(*spare, Phase::kReady);
    searches.Clear();  // it may move
  }
  for (; there < model.replicas; ++there) {
    const auto trouble = fleet_.model_troubles.find(model.name);
    if (trouble != fleet_.model_troubles.end() && trouble->second.not_before > fleet_.now) return false;
    if (!MayFindPlace(model.name)) return false;
    if (effort_left_ <= 0) {
      if (!has_more_) next_model_ = model.name;
      has_more_ = true;
      return false;
    }
    --effort_left_;
    if (AddOne(model, searches)) continue;
    unplaceable_.insert(model.name);
    return false;
  }
  return true;
}

// A search costs time that grows with the fleet, and turns come ten times a second.
bool Controller::MayFindPlace(const std::string& model) {
  if (const PlacementInputs now = InputsNow(); !(now == inputs_)) {
    inputs_ = now;
    unplaceable_.clear();
  }
  return unplaceable_.count(model) == 0;
}

Controller::PlacementInputs Controller::InputsNow() const {
  const auto waiting = [&](const std::map<std::string, Trouble>& troubles) {
    return std::count_if(troubles.begin(), troubles.end(),
                         [&](const auto& entry) { return entry.second.not_before > fleet_.now; });
  };
  return {changes_, waiting(fleet_.gpu_troubles), waiting(fleet_.model_troubles), !fleet_.planned.empty(),
          static_cast<int>(std::min<double>(kMaxPushed, fleet_.moves_left))};
}

// -- steps

Instance* Controller::Find(uint64_t id) {
  const auto at = fleet_.instances.find(id);
  return at == fleet_.instances.end() ? nullptr : &at->second;
}

Instance* Controller::ReplacementOf(uint64_t id) {
  for (auto& [other, one] : fleet_.instances)
    if (one.replaces == id && one.phase != Phase::kStopping) return &one;
  return nullptr;
}

// One that drains though nobody takes its place.
Instance* Controller::SpareOf(const ServedModel& model) {
  for (auto& [id, one] : fleet_.instances)
    if (one.phase == Phase::kDraining && IsSameService(one.model, model) && ReplacementOf(id) == nullptr)
      return &one;
  return nullptr;
}

bool Controller::IsMoving() const {
  return std::any_of(fleet_.instances.begin(), fleet_.instances.end(),
                     [](const auto& entry) { return entry.second.replaces != 0; });
}

std::map<std::string, int> Controller::Replicas() const {
  std::map<std::string, int> replicas;
  for (const auto& [id, one] : fleet_.instances)
    if (one.phase == Phase::kReady || (one.phase == Phase::kStarting && one.replaces == 0))
      ++replicas[one.model.name];
  return replicas;
}

size_t Controller::GpusOn() const {
  std::set<std::string> gpus;
  for (const auto& [id, one] : fleet_.instances)
    if (!IsStranded(fleet_, one)) gpus.insert(GpuKey(one.place.host, one.place.gpu));
  return gpus.size();
}

std::vector<WantedInstance> Controller::Wanted(const std::string& host) const {
  std::vector<WantedInstance> wanted;
  for (const auto& [id, one] : fleet_.instances)
    if (one.place.host == host && one.phase != Phase::kStopping) wanted.push_back({id, one.model, one.place});
  return wanted;
}

void Controller::Changed() {
  fleet_.changed = fleet_.now;
  ++changes_;
}

void Controller::To(Instance& one, Phase phase) {
  one.phase = phase;
  one.since = fleet_.now;
  Changed();
}

const Instance& Controller::Start(const ServedModel& model, const SlicePlace& place, uint64_t replaces) {
  Instance one;
  one.id = ++fleet_.last_id;
  one.model = model;
  one.place = place;
  one.replaces = replaces;
  To(one, Phase::kStarting);
  ++fleet_.revision;
  return fleet_.instances[one.id] = one;
}

// Whoever is to take its place must be there for certain.
void Controller::EndDraining(Instance& one) {
  const Instance* next = ReplacementOf(one.id);
  if (next != nullptr && next->is_unseen) return;
  Stop(one);
}

void Controller::Stop(Instance& one) {
  if (Instance* next = ReplacementOf(one.id)) {
    next->replaces = 0;
    if (one.phase == Phase::kDraining) ++fleet_.moves_done;
  }
  if (one.replaces != 0) ++fleet_.moves_failed;  // AddReplicas gives the old one its requests back
  one.replaces = 0;
  one.is_unseen = false;
  one.dropped = ++fleet_.revision;
  To(one, Phase::kStopping);
}

void Controller::GiveUp(Instance& one, const std::string& why) {
  if (fleet_.models.count(one.model.name) != 0) {
    Trouble& trouble = fleet_.model_troubles[one.model.name];
    CountFailure(trouble, why);
    trouble.where = GpuKey(one.place.host, one.place.gpu);
  }
  fleet_.planned.clear();
  Stop(one);
}

// The gateway sees that an executor is gone before its host says why.
void Controller::Explain(const Instance& one, const std::string& why) {
  const auto trouble = fleet_.model_troubles.find(one.model.name);
  if (trouble != fleet_.model_troubles.end() && trouble->second.why == kExecutorLeft &&
      trouble->second.where == GpuKey(one.place.host, one.place.gpu))
    trouble->second.why = why;
}

// Of several at once, as when a host goes with all that it had, one counts.
void Controller::CountFailure(Trouble& trouble, const std::string& why) const {
  trouble.why = why;
  if (fleet_.now < trouble.not_before) return;
  const int doublings = std::min(trouble.failures++, 20);
  trouble.not_before = fleet_.now + std::min(options_.longest_back_off, options_.back_off << doublings);
}

void Controller::Gone(uint64_t id) {
  fleet_.instances.erase(id);
  Changed();
}

}  // namespace spillway::scheduler
