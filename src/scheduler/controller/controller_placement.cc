// SPDX-License-Identifier: Apache-2.0
// Where instances go, which of them move (by the controller's own decision, or by an operator's order, which
// it may refuse), and why a replica waits (`trouble`). For how long a GPU that refused is left alone:
// controller.h, `back_off`.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <set>

#include "scheduler/controller/controller.h"
#include "scheduler/make_room.h"

namespace spillway::scheduler {
namespace {

// Times as long: what is less may be chance.
constexpr double kClearlyLonger = 1.25;
// A host kills what does not end after 15 s. What is still there then may hang with its GPU for ever.
constexpr Millis kEndsWithin = 30'000;
constexpr const char* kUnknownGpu = "unknown";  // a GPU of which its host does not say what it is

bool IsListedSomewhere(const Fleet& fleet, const std::string& program) {
  return std::any_of(fleet.hosts.begin(), fleet.hosts.end(),
                     [&](const auto& host) { return host.second.is_up && Lists(host.second, program); });
}

// On a host that is up.
bool HasUndividedGpu(const Fleet& fleet) {
  return std::any_of(fleet.hosts.begin(), fleet.hosts.end(), [](const auto& host) {
    const std::vector<Gpu>& gpus = host.second.gpus;
    return host.second.is_up &&
           std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return !gpu.can_divide; });
  });
}

// Of the hosts that are up; one whose memory is not known may have any.
int LargestMemoryMib(const Fleet& fleet) {
  int largest = 0;
  for (const auto& [name, host] : fleet.hosts)
    for (const Gpu& gpu : host.gpus)
      if (host.is_up) largest = std::max(largest, gpu.memory_mib > 0 ? gpu.memory_mib : INT_MAX);
  return largest;
}

// Some of those to which a model may be moved.
std::string Others(FleetView& view) {
  constexpr size_t kTold = 5;
  const std::vector<Node>& nodes = view.cluster().nodes();
  if (nodes.empty()) return "no other GPU can be used";
  std::string text = "others are";
  for (size_t i = 0; i < std::min(kTold, nodes.size()); ++i) text += (i == 0 ? " " : ", ") + nodes[i].name;
  return nodes.size() > kTold ? fmt::format("{} and {} more", text, nodes.size() - kTold) : text;
}

}  // namespace

Result<void> Controller::MoveModel(const std::string& name, const std::string& gpu, Millis now) {
  Begin(now);
  Reconcile();
  const auto model = fleet_.models.find(name);
  if (model == fleet_.models.end())
    return Fail(ErrorCode::kBadInput, fmt::format("model {} does not exist", name));
  const Instance* mover = nullptr;
  bool is_there = false;
  for (const auto& [id, one] : fleet_.instances) {
    if (!IsSameService(one.model, model->second)) continue;
    if (one.replaces != 0)
      return Fail(ErrorCode::kConflict, fmt::format("model {}: it is moving already", name));
    if (!IsServing(one)) continue;
    if (GpuKey(one.place.host, one.place.gpu) == gpu)
      is_there = true;
    else if (mover == nullptr)
      mover = &one;
  }
  if (!gpu.empty() && gpu.find('/') == std::string::npos)
    return Fail(ErrorCode::kBadInput, fmt::format("to: expected HOST/GPU, such as host1/gpu0, got {}", gpu));
  if (mover == nullptr && is_there)
    return Fail(ErrorCode::kConflict, fmt::format("model {}: it is on {} already", name, gpu));
  if (mover == nullptr)
    return Fail(ErrorCode::kConflict, fmt::format("model {}: no instance is ready to move", name));
  PlaceSearch search(fleet_, options_.rules, options_.policy, GpuKey(mover->place.host, mover->place.gpu));
  const FleetView& view = search.view();
  std::optional<PlaceSearch::Found> found;
  if (gpu.empty()) {
    found = search.Find(model->second);
  } else if (const int node = view.NodeOf(gpu); node < 0) {
    return Fail(ErrorCode::kBadInput,
                fmt::format("GPU {} does not exist or cannot be used now; {}", gpu, Others(search.view())));
  } else if (const std::string& program = model->second.host_program;
             !Lists(fleet_.hosts.at(view.HostOf(node)), program)) {
    return Fail(ErrorCode::kBadInput, fmt::format("model {}: host {} does not list the program {}", name,
                                                  view.HostOf(node), program));
  } else {
    found = search.FindOn(model->second, node);
  }
  if (!found)
    return Fail(ErrorCode::kConflict,
                fmt::format("model {}: no room for it on {}", name, gpu.empty() ? "any other GPU" : gpu));
  Start(model->second, view.PlaceOf(found->job, found->spot), mover->id);
  return {};
}

// False: there is no place for it now.
bool Controller::AddOne(const ServedModel& model, PlaceSearches& searches) {
  ++searches_;
  const auto trouble = fleet_.model_troubles.find(model.name);
  // Where it failed last it goes only if there is nothing else.
  std::vector<std::string> avoids;
  if (trouble != fleet_.model_troubles.end() && !trouble->second.where.empty())
    avoids.push_back(trouble->second.where);
  avoids.emplace_back();
  for (const std::string& avoid : avoids) {
    PlaceSearch& search = searches.Avoiding(avoid);
    const auto found = search.Find(model);
    if (!found) continue;
    const Spot spot = Quicker(search, model, found->job, found->spot);
    searches.Started(Start(model, search.view().PlaceOf(found->job, spot), 0));
    return true;
  }
  FleetView& view = searches.Avoiding({}).view();
  const size_t looks = view.cluster().nodes().size() * view.JobsOf(model).size();
  effort_left_ -= static_cast<int>(looks / kGpusPerEffort);
  if (PlanRoom(model, searches)) return false;
  Trouble& waits = fleet_.model_troubles[model.name];
  if (waits.failures == 0) {
    const bool any_host = std::any_of(fleet_.hosts.begin(), fleet_.hosts.end(), [](const auto& host) {
      return host.second.is_up && !host.second.HasEnded();
    });
    if (!any_host)
      waits.why = "no host is up";
    else if (!model.host_program.empty() && !IsListedSomewhere(fleet_, model.host_program))
      waits.why = fmt::format("no host that is up lists the program {}", model.host_program);
    else if (model.memory_mib > LargestMemoryMib(fleet_))
      waits.why = fmt::format("no GPU of a host that is up has {} MiB of memory", model.memory_mib);
    else if (options_.rules.isolation == Isolation::kFraction && model.milli < kWholeGpu &&
             HasUndividedGpu(fleet_))
      waits.why =
          "no GPU has room for it; under isolation fraction a GPU without MIG is one instance's alone";
    else
      waits.why = "no GPU has room for it";
  }
  return false;
}

// `spot`, or a place on a GPU model on which its requests were seen to take clearly less, if that switches no
// GPU on that `spot` would leave off.
Spot Controller::Quicker(PlaceSearch& search, const ServedModel& model, const Job& job,
                         const Spot& spot) const {
  // It may be those very GPUs that it fails on.
  const auto trouble = fleet_.model_troubles.find(model.name);
  if (trouble != fleet_.model_troubles.end() && trouble->second.failures > 0) return spot;
  std::vector<double> slowness;  // by the cluster's model of GPU
  for (const std::string& gpu : search.view().gpu_models())
    slowness.push_back(LearnedSpeeds::Slowness(fleet_.service_times, model.name, gpu, fleet_.now));
  const Cluster& cluster = search.view().cluster();
  const double here = slowness[cluster.nodes()[spot.node].model];
  const auto is_on = [&](int node) { return !cluster.JobsOn(node).empty(); };
  std::set<double> quicker;
  for (const double one : slowness)
    if (one * kClearlyLonger <= here) quicker.insert(one);
  for (const double most : quicker) {
    Job narrower = job;
    narrower.models = 0;
    for (size_t kind = 0; kind < slowness.size(); ++kind)
      if (slowness[kind] <= most && job.Accepts(static_cast<int>(kind)))
        narrower.models |= ModelSet{1} << kind;
    if (narrower.models == 0) continue;
    const auto better = search.placer().Decide(narrower);
    if (better && (is_on(better->node) || !is_on(spot.node))) return *better;
  }
  return spot;
}

void Controller::Learn(const std::vector<Took>& took, Millis now) {
  Begin(now);
  std::vector<LearnedSpeeds::Sample> samples;
  for (const Took& one : took) {
    const Instance* instance = Find(one.instance);
    const auto model = fleet_.models.find(one.model);
    if (instance == nullptr || model == fleet_.models.end() || !IsSameService(instance->model, model->second))
      continue;
    const std::string gpu = GpuModelAt(fleet_, instance->place);
    samples.push_back({one.instance, one.model, gpu == kUnknownGpu ? "" : gpu, one.ms, one.requests});
  }
  speeds_.Learn(samples, fleet_.now, fleet_.service_times);
}

// Moves others so that it finds room, where the budget allows it.
bool Controller::PlanRoom(const ServedModel& model, PlaceSearches& searches) {
  if (!fleet_.planned.empty() || IsMoving()) return true;
  if (!options_.is_moving || fleet_.moves_left < 1) return false;
  PlaceSearch& search = searches.Avoiding({});
  FleetView& view = search.view();
  const int most = static_cast<int>(std::min<double>(kMaxPushed, fleet_.moves_left));
  // A replica that is missing is worth slower requests of others, but not their SLO.
  const auto may_move = [&](const Move& move) {
    return view.MayMove(move.job) && LossByMove(view, move.job, move.from, move.to.node) < kImmovable;
  };
  std::vector<Move> moves;
  for (const Job& job : view.JobsOf(model))
    if (moves.empty() && job.Fractional())
      moves = MakeRoom(view.cluster(), search.placer(), view.next_job(), job, most, -1, may_move);
  for (const Move& move : moves)
    fleet_.planned.push_back(
        {view.InstanceOf(move.job), view.PlaceOf(view.cluster().JobOf(move.job), move.to)});
  if (moves.empty()) return false;
  searches.Clear();  // in its view they are made already
  return true;
}

// In GPUs. Requests that take twice as long need twice the share for as many: what that is more than it has.
// Where an SLO is kept now and would not be there, it does not go.
double Controller::LossByMove(const FleetView& view, JobId job, const Spot& from, int node) const {
  const auto instance = fleet_.instances.find(view.InstanceOf(job));
  if (instance == fleet_.instances.end()) return 0;
  const ServedModel& model = instance->second.model;
  const auto here =
      LearnedSpeeds::ExpectedMs(fleet_.service_times, model.name, view.GpuModelOf(from.node), fleet_.now);
  const auto there =
      LearnedSpeeds::ExpectedMs(fleet_.service_times, model.name, view.GpuModelOf(node), fleet_.now);
  if (!here || !there || *there < kClearlyLonger * *here) return 0;
  const auto slo = static_cast<double>(model.slo_ms);
  if (slo > 0 && *here <= slo && *there > slo) return kImmovable;
  const double slower = std::min(*there / *here, LearnedSpeeds::kMost);
  return (slower - 1) * instance->second.place.milli / kWholeGpu;
}

// Moves of others do not wait for it.
bool Controller::MayNeverEnd(const Instance& one) const {
  return IsStranded(fleet_, one) || (one.phase == Phase::kStopping && fleet_.now - one.since > kEndsWithin);
}

void Controller::PlanMoves() {
  if (!options_.is_moving || !fleet_.planned.empty() || IsMoving() || fleet_.moves_left < 1 ||
      fleet_.now - std::max(fleet_.changed, fleet_.considered) < options_.settle)
    return;
  std::map<std::string, int> there = Replicas();
  for (const auto& [name, model] : fleet_.models)
    if (there[name] < model.replicas) return;
  for (const auto& [id, one] : fleet_.instances)
    if (one.phase != Phase::kReady && !MayNeverEnd(one)) return;
  fleet_.considered = fleet_.now;
  FleetView view(fleet_, options_.rules);
  MovePolicy policy;
  policy.move_price = options_.move_price;
  policy.budget = static_cast<int64_t>(fleet_.moves_left);
  std::map<JobId, Spot> homes, ends;
  for (JobId job = 0; job < view.next_job(); ++job) homes[job] = view.cluster().SpotOf(job);
  Consolidator consolidator(view.cluster(), policy);
  // Of moves one after the other that is from where the instance runs, not from where the one before would
  // have it.
  consolidator.PriceBy([&](JobId job, int node) { return LossByMove(view, job, homes.at(job), node); });
  for (const Move& move : consolidator.Consolidate()) ends[move.job] = move.to;
  for (const auto& [job, spot] : ends)
    if (!(spot == homes[job]) && view.MayMove(job))
      fleet_.planned.push_back({view.InstanceOf(job), view.PlaceOf(view.cluster().JobOf(job), spot)});
  StartPlanned();
}

// Those that fit now; the others wait for what must leave first.
void Controller::StartPlanned() {
  std::vector<PlannedMove> rest;
  std::optional<FleetView> view;  // until something is started
  for (const PlannedMove& move : fleet_.planned) {
    const Instance* one = Find(move.instance);
    if (!view) view.emplace(fleet_, options_.rules);
    if (one == nullptr || !IsServing(*one) || ReplacementOf(one->id) != nullptr ||
        view->NodeOf(GpuKey(move.to.host, move.to.gpu)) < 0) {
      fleet_.planned.clear();
      return;
    }
    if (!view->WhyNot(one->model, move.to).empty()) {
      rest.push_back(move);
      continue;
    }
    Start(one->model, move.to, one->id);
    view.reset();
    fleet_.moves_left -= 1;
  }
  bool waits = false;
  for (const auto& [id, one] : fleet_.instances)
    waits = waits || one.replaces != 0 || one.phase == Phase::kDraining ||
            (one.phase == Phase::kStopping && !MayNeverEnd(one));
  fleet_.planned = waits ? rest : std::vector<PlannedMove>();
}

}  // namespace spillway::scheduler
