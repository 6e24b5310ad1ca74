// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extender/books.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace spillway::scheduler {
namespace {

constexpr size_t kMaxModelsShown = 200;  // bytes, of what a pod asked for

std::string WholeText(uint32_t gpus) {
  std::string text;
  for (int gpu = 0; gpu < kMostGpus; ++gpu)
    if ((gpus >> gpu & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ",", gpu);
  return text;
}

// "0,3" as bits; nullopt: no such list.
std::optional<uint32_t> GpuBits(const std::string& text) {
  uint32_t bits = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int gpu = -1;
    const auto [rest, error] = std::from_chars(at, end, gpu);
    if (error != std::errc() || gpu < 0 || gpu >= kMostGpus || (rest != end && *rest != ','))
      return std::nullopt;
    bits |= 1u << gpu;
    at = rest == end ? end : rest + 1;
  }
  return bits == 0 ? std::nullopt : std::optional(bits);
}

constexpr size_t kMostGone = 10'000;  // pods that are remembered to have gone

const char* const kOtherGiver[] = {"", "the device plugin, which does not know of parts of GPUs,",
                                   "Spillway, which the device plugin does not know of,"};

}  // namespace

const char* ToString(Books::State state) {
  switch (state) {
    case Books::State::kFixed:
      return "fixed";
    case Books::State::kReserved:
      return "reserved";
    case Books::State::kConfirmed:
      return "confirmed";
    case Books::State::kDoubtful:
      break;
  }
  return "doubtful";
}

Books::Books(const ClusterFile& file)
    : rules_(file.cluster.rules()), file_models_(file.cluster.models()), tenants_(file.tenants) {
  for (const Node& node : file.cluster.nodes()) {
    file_nodes_.push_back(
        {node.name, file_models_[static_cast<size_t>(node.model)].name, node.gpus, node.cpu_milli, ""});
    nodes_[node.name] = file_nodes_.back();
  }
  std::map<int, std::string> tenant_names;
  for (const auto& [name, number] : file.tenants) tenant_names[number] = name;
  for (JobId id = 0; id < file.jobs.size(); ++id) {
    Booking booking;
    booking.job = file.jobs[id];
    booking.pod = file.job_names[id].empty() ? fmt::format("cluster file, job {}", id + 1)
                                             : fmt::format("cluster file, {}", file.job_names[id]);
    const Spot& spot = file.cluster.SpotOf(id);
    const Node& node = file.cluster.nodes()[static_cast<size_t>(spot.node)];
    booking.node = node.name;
    booking.tenant = tenant_names[booking.job.tenant];
    booking.ask.giver = booking.job.gpus > 0 ? Giver::kSpillway : Giver::kNobody;
    booking.ask.job = booking.job;
    booking.want.gpu =
        booking.job.Fractional() ? std::to_string(spot.gpu) : WholeText(file.cluster.WholeGpusOf(id));
    if (spot.start >= 0)
      booking.want.slice =
          fmt::format("{}@{}", ShapeOf(SliceOf(booking.job, rules_.slice_rule)).name, spot.start);
    bookings_[fmt::format("file:{}", id + 1)] = std::move(booking);
  }
  Rebuild();
}

void Books::Sync(const std::vector<KubeNode>& nodes, const std::vector<BoundPod>& pods, uint64_t started,
                 const std::vector<UnclearPod>& unclear, std::map<std::string, int64_t> other_cpu) {
  nodes_.clear();
  for (const KubeNode& node : nodes)
    if (nodes_.size() < kMostNodes) nodes_[node.name] = node;
  unclear_ = unclear;
  for (const KubeNode& node : file_nodes_) {
    const auto at = nodes_.find(node.name);
    const int cpu =
        at != nodes_.end() && node.cpu_milli == kUnlimited ? at->second.cpu_milli : node.cpu_milli;
    nodes_[node.name] = node;
    nodes_[node.name].cpu_milli = cpu;
  }
  other_cpu_ = std::move(other_cpu);
  std::map<std::string, Booking> listed;
  for (const BoundPod& pod : pods) {
    if (pod.finished || pod.node.empty() || gone_.contains(pod.ask.uid)) continue;
    if (pod.ask.giver == Giver::kNobody) {
      other_cpu_[pod.node] += pod.ask.job.cpu_milli;
      continue;
    }
    Booking booking = BookingOf(pod);
    // What we gave it, or knew before, is what it has, whatever somebody has made of the annotation since.
    if (const auto own = bookings_.find(pod.ask.uid); own != bookings_.end() && own->second.node == pod.node)
      if (Place had = PlaceOf(own->second); !had.gpu.empty()) booking.want = std::move(had);
    listed[pod.ask.uid] = std::move(booking);
  }
  for (auto& [uid, booking] : bookings_) {
    const bool keep =
        booking.state == State::kFixed || booking.state == State::kReserved || booking.since > started;
    if (!keep || listed.contains(uid)) continue;
    if (booking.id) booking.want = PlaceOf(booking);
    listed[uid] = std::move(booking);
  }
  for (const auto& [uid, booking] : listed) {
    waiting_.erase(uid);
    if (!bookings_.contains(uid)) Changed();
  }
  bookings_ = std::move(listed);
  Rebuild();
}

Books::Booking Books::BookingOf(const BoundPod& pod) const {
  Booking booking;
  booking.pod = pod.ask.space + "/" + pod.ask.name;
  booking.node = pod.node;
  booking.ask = pod.ask;
  booking.job = pod.ask.job;
  booking.want = {pod.gpu, pod.slice};
  booking.state = State::kConfirmed;
  return booking;
}

void Books::Learn(const std::vector<KubeNode>& nodes) {
  bool news = false;
  for (const KubeNode& node : nodes) {
    const auto at = nodes_.find(node.name);
    if (at == nodes_.end() ? nodes_.size() >= kMostNodes : at->second == node) continue;
    if (std::any_of(file_nodes_.begin(), file_nodes_.end(),
                    [&](const auto& own) { return own.name == node.name; }))
      continue;
    nodes_[node.name] = node;
    news = true;
  }
  if (!news) return;
  for (auto& [uid, booking] : bookings_)
    if (booking.id) booking.want = PlaceOf(booking);
  Rebuild();
}

// The cluster afresh from nodes_ and bookings_: those whose place is known first.
void Books::Rebuild() {
  std::vector<GpuModel> models = file_models_;
  std::vector<Node> nodes;
  node_at_.clear();
  surplus_.clear();
  for (const auto& [name, node] : nodes_) {
    if (node.gpus == 0) continue;
    auto model = std::find_if(models.begin(), models.end(),
                              [&, &wanted = node.model](const GpuModel& one) { return one.name == wanted; });
    if (model == models.end()) {
      if (models.size() == kMostModels) {
        surplus_[name] =
            fmt::format("its GPUs are of one model more than the {} that Spillway keeps", kMostModels);
        continue;
      }
      models.push_back(ModelByName(node.model));
      model = models.end() - 1;
    }
    Node one;
    one.name = name;
    one.gpus = node.gpus;
    one.model = static_cast<int>(model - models.begin());
    // The scheduler of Kubernetes sees to CPU and memory; CPU is here for what it does to fragmentation.
    const auto other = other_cpu_.find(name);
    const int64_t taken = other == other_cpu_.end() ? 0 : other->second;
    one.cpu_milli = static_cast<int>(std::max<int64_t>(0, node.cpu_milli - taken));
    node_at_[name] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(one));
  }
  givers_.assign(nodes.size(), {});
  unknown_.assign(nodes.size(), 0);
  // Prices hold for these nodes and models; a list that comes back the same every few seconds changes
  // nothing.
  const auto alike = [](const Node& a, const Node& b) {
    return a.name == b.name && a.gpus == b.gpus && a.model == b.model;
  };
  if (cluster_ == nullptr ||
      !std::equal(nodes.begin(), nodes.end(), cluster_->nodes().begin(), cluster_->nodes().end(), alike)) {
    ++layout_;
    learn_at_ = 0;
  }
  cluster_ = std::make_unique<Cluster>(std::move(nodes), std::move(models), rules_);
  next_id_ = 0;
  free_ids_.clear();
  for (auto& [uid, booking] : bookings_) {
    booking.id.reset();
    Count(booking.node, booking.ask.giver, 1);
  }
  for (const UnclearPod& pod : unclear_)
    for (const Giver giver : pod.givers) {
      Count(pod.node, giver, 1);
      CountUnknown(pod.node, giver, 1);
    }
  for (const bool exact : {true, false})
    for (auto& [uid, booking] : bookings_)
      if (!booking.id && booking.want.gpu.empty() != exact) Put(booking);
  for (const auto& [uid, booking] : bookings_)
    if (!booking.id) CountUnknown(booking.node, booking.ask.giver, 1);
}

std::optional<int> Books::NodeAt(const std::string& name) const {
  const auto at = node_at_.find(name);
  return at == node_at_.end() ? std::nullopt : std::optional(at->second);
}

int Books::TenantNumber(const std::string& name) {
  return tenants_.emplace(name, static_cast<int>(tenants_.size())).first->second;
}

const std::string& Books::TenantOf(const PodAsk& ask) const {
  const auto named = tenant_of_space_.find(ask.space);
  return named == tenant_of_space_.end() ? ask.space : named->second;
}

// What the pod is on that node, whose CPU and memory are not our business.
std::optional<Job> Books::JobOn(const PodAsk& ask, const Node& node, FilterVerdict& verdict) const {
  Job job = ask.job;
  const GpuModel& model = cluster_->models()[static_cast<size_t>(node.model)];
  job.memory_mib = 0;
  job.cpu_milli = std::min(job.cpu_milli, node.free_cpu);
  const auto tenant = tenants_.find(TenantOf(ask));
  job.tenant = tenant == tenants_.end() ? static_cast<int>(tenants_.size()) : tenant->second;
  const auto never = [&](std::string why) {
    verdict = {std::move(why), true};
    return std::nullopt;
  };
  if (!ask.models.empty()) {
    if (std::find(ask.models.begin(), ask.models.end(), model.name) == ask.models.end())
      return never(fmt::format("its GPUs are {}, asked for: {}", model.name,
                               fmt::format("{}", fmt::join(ask.models, "|")).substr(0, kMaxModelsShown)));
    for (size_t i = 0; i < cluster_->models().size(); ++i)
      if (std::find(ask.models.begin(), ask.models.end(), cluster_->models()[i].name) != ask.models.end())
        job.models |= ModelSet{1} << i;
  }
  if (!ask.mig.empty()) {
    if (rules_.isolation != Isolation::kFraction)
      return never("MIG slices are placed under isolation fraction only, see the cluster file");
    job.profile = ProfileOn(model, ask.mig);
    if (!job.profile) return never(fmt::format("its {} has no slice {}", model.name, ask.mig));
    job.milli = ShapeOf(*job.profile).compute * kWholeGpu / 7;
  }
  if (job.gpus > node.gpus) return never(fmt::format("it has {} GPUs, asked for: {}", node.gpus, job.gpus));
  return job;
}

FilterVerdict Books::Judge(const PodAsk& ask, const std::string& name) const {
  if (ask.giver == Giver::kNobody) return {};
  const auto n = NodeAt(name);
  if (!n) {
    const auto known = nodes_.find(name);
    if (known != nodes_.end() && !known->second.problem.empty()) return {known->second.problem, true};
    if (const auto surplus = surplus_.find(name); surplus != surplus_.end()) return {surplus->second, true};
    if (known == nodes_.end() && nodes_.size() >= kMostNodes)
      return {fmt::format("it is one node more than the {} that Spillway keeps", kMostNodes), true};
    return {"Spillway knows of no GPUs there", true};
  }
  const Node& node = cluster_->nodes()[static_cast<size_t>(*n)];
  FilterVerdict verdict;
  const auto job = JobOn(ask, node, verdict);
  if (!job) return verdict;
  if (const auto own = bookings_.find(ask.uid);
      own != bookings_.end() && own->second.state == State::kDoubtful) {
    if (own->second.node != name)
      return {fmt::format("{} may be on {} already, or soon: the API server has not told yet",
                          own->second.pod, own->second.node),
              false};
    if (own->second.id) return {};  // what it has is not in its way
  }
  const auto giver = static_cast<size_t>(ask.giver);
  if (givers_[static_cast<size_t>(*n)][3 - giver] > 0)
    return {
        fmt::format("its GPUs are now given out by {} and this pod asks the other way", kOtherGiver[giver]),
        false};
  if (ask.giver == Giver::kSpillway)
    if (const auto at = nodes_.find(name); at != nodes_.end() && !at->second.closed.empty())
      return {at->second.closed, false};
  // The device plugin knows what it has given, to whomever; we do not.
  if (ask.giver == Giver::kSpillway && unknown_[static_cast<size_t>(*n)] > 0)
    return {"a pod there has a GPU of which Spillway does not know which", false};
  if (cluster_->FitsNode(*job, *n)) return {};
  if (!job->Fractional())
    return {fmt::format("{} of its {} GPUs are idle, asked for: {}", node.IdleGpus(), node.gpus, job->gpus),
            false};
  Job anyone = *job;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    anyone.tenant = node.tenant[static_cast<size_t>(gpu)];
    if (cluster_->FitsGpu(anyone, *n, gpu)) return {"its room is on GPUs of another tenant", false};
  }
  if (rules_.isolation == Isolation::kFraction)
    return {fmt::format("no GPU has room for a slice {}", ShapeOf(SliceOf(*job, rules_.slice_rule)).name),
            false};
  const int most = *std::max_element(node.free.begin(), node.free.begin() + node.gpus);
  return {fmt::format("the most that a GPU has left is {} milli, asked for: {}", most, job->milli), false};
}

std::vector<Job> Books::Running() const {
  std::vector<Job> usual;
  usual.reserve(bookings_.size() + 1);
  for (const auto& [uid, booking] : bookings_) {
    usual.push_back(booking.id ? cluster_->JobOf(*booking.id) : booking.job);
    usual.back().cpu_milli = booking.job.cpu_milli;
  }
  for (Job& job : usual) job.models &= (ModelSet{1} << cluster_->models().size()) - 1;
  return usual;
}

// What usually comes: what runs, and this one.
JobMix Books::MixWith(const PodAsk& ask) const {
  std::vector<Job> usual = Running();
  usual.push_back(ask.job);
  return {usual, static_cast<int>(cluster_->models().size())};
}

std::optional<Books::Demand> Books::DemandIfOld() const {
  if (rules_.isolation != Isolation::kNone || cluster_->nodes().empty() || changes_ < learn_at_)
    return std::nullopt;
  Demand demand;
  demand.running = Running();
  for (const auto& [uid, one] : waiting_) demand.waiting.push_back(one.job);
  demand.nodes = cluster_->nodes();
  demand.models = cluster_->models().size();
  demand.layout = layout_;
  return demand;
}

void Books::Use(std::shared_ptr<const LookAhead> look_ahead, const Demand& demand) {
  if (demand.layout != layout_) return;
  look_ahead_ = std::move(look_ahead);
  look_ahead_layout_ = layout_;
  learn_at_ = changes_ + LookAhead::GoodFor(demand.running.size());
  ++learnt_;
}

void Books::Waits(const PodAsk& ask) {
  if (ask.giver == Giver::kNobody || ask.uid.empty()) return;
  Job job = ask.job;
  for (size_t i = 0; i < cluster_->models().size(); ++i)
    if (std::find(ask.models.begin(), ask.models.end(), cluster_->models()[i].name) != ask.models.end())
      job.models |= ModelSet{1} << i;
  const auto [at, fresh] = waiting_.try_emplace(ask.uid, Waiting{job, ask.space, 0});
  at->second.since = ++mark_;
  if (!fresh) return;
  Changed();
  std::map<std::string, size_t> of_space;
  for (const auto& [uid, one] : waiting_) ++of_space[one.space];
  const auto most = std::ranges::max_element(of_space, {}, [](const auto& space) { return space.second; });
  if (waiting_.size() <= kMostWaiting && most->second <= kMostWaitingOfSpace) return;
  auto oldest = waiting_.end();
  for (auto one = waiting_.begin(); one != waiting_.end(); ++one)
    if (one->second.space == most->first &&
        (oldest == waiting_.end() || one->second.since < oldest->second.since))
      oldest = one;
  waiting_.erase(oldest);
}

void Books::KeepWaiting(const std::set<std::string>& pending, uint64_t started) {
  const size_t gone = std::erase_if(
      waiting_, [&](const auto& one) { return one.second.since <= started && !pending.contains(one.first); });
  for (size_t i = 0; i < gone; ++i) Changed();
}

std::vector<int> Books::Score(const PodAsk& ask, const std::vector<std::string>& names) const {
  std::vector<int> scores(names.size(), 0);
  if (ask.giver == Giver::kNobody) return scores;
  if (InDoubt(ask.uid)) {
    for (size_t i = 0; i < names.size(); ++i)
      if (Judge(ask, names[i]).why.empty()) scores[i] = kMostPriority;
    return scores;
  }
  std::optional<JobMix> mix;
  if (!LooksAhead()) mix.emplace(MixWith(ask));
  Placer placer(*cluster_, mix ? *mix : look_ahead_->mix(), {}, mix ? nullptr : &look_ahead_->fill());
  struct Rated {
    size_t index;
    int node;
    double score;
  };
  std::vector<Rated> rated;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto n = NodeAt(names[i]);
    if (!n || !Judge(ask, names[i]).why.empty()) continue;
    FilterVerdict verdict;
    const auto job = JobOn(ask, cluster_->nodes()[static_cast<size_t>(*n)], verdict);
    if (const auto rating = placer.RateOn(*job, *n)) rated.push_back({i, *n, rating->score});
  }
  if (rated.empty()) return scores;
  const auto by_score = [](const Rated& a, const Rated& b) {
    return a.score != b.score ? a.score < b.score : a.node > b.node;
  };
  const Rated best = *std::max_element(rated.begin(), rated.end(), by_score);
  const double worst = std::min_element(rated.begin(), rated.end(), by_score)->score;
  const double span = std::max(best.score - worst, 1e-9);
  for (const Rated& one : rated)
    scores[one.index] = one.index == best.index
                            ? kMostPriority
                            : static_cast<int>((kMostPriority - 1) * (one.score - worst) / span);
  for (const Rated& one : rated)
    if (one.index != best.index && one.score == best.score) scores[one.index] = kMostPriority - 1;
  return scores;
}

std::optional<Spot> Books::ExactSpot(const Job& job, int n, const Place& want) const {
  const auto bits = GpuBits(want.gpu);
  const Node& node = cluster_->nodes()[static_cast<size_t>(n)];
  if (!bits || *bits >> node.gpus != 0) return std::nullopt;
  Spot spot{n, 0, -1};
  if (!job.Fractional()) {
    spot.whole = *bits;
    return cluster_->FitsSpot(job, spot) ? std::optional(spot) : std::nullopt;
  }
  if ((*bits & (*bits - 1)) != 0) return std::nullopt;
  while ((*bits >> spot.gpu & 1) == 0) ++spot.gpu;
  if (const size_t at = want.slice.find('@');
      at != std::string::npos && rules_.isolation == Isolation::kFraction) {
    const ProfileShape& shape = ShapeOf(SliceOf(job, rules_.slice_rule));
    for (const int start : shape.starts)
      if (want.slice == fmt::format("{}@{}", shape.name, start)) spot.start = start;
    if (spot.start < 0) return std::nullopt;
  }
  return cluster_->FitsSpot(job, spot) ? std::optional(spot) : std::nullopt;
}

// Into the cluster at the place it wants; where none is known, anywhere on its node. False: it is not free,
// or not there. What it holds then counts as idle, but for the givers.
bool Books::Put(Booking& booking) {
  const auto n = NodeAt(booking.node);
  if (!n) return false;
  TenantNumber(booking.state == State::kFixed ? booking.tenant : TenantOf(booking.ask));
  FilterVerdict verdict;
  std::optional<Job> job;
  if (booking.state == State::kFixed) {
    job = booking.job;
    job->cpu_milli = std::min(job->cpu_milli, cluster_->nodes()[static_cast<size_t>(*n)].free_cpu);
    job->memory_mib = 0;
  } else {
    // It is there, whatever models its annotation names by now.
    PodAsk there = booking.ask;
    there.models.clear();
    job = JobOn(there, cluster_->nodes()[static_cast<size_t>(*n)], verdict);
  }
  if (!job) return false;
  std::optional<Spot> spot;
  if (!booking.want.gpu.empty()) {
    spot = ExactSpot(*job, *n, booking.want);
  } else if (!job->Fractional()) {
    if (cluster_->FitsNode(*job, *n)) spot = Spot{*n, 0, -1};
  } else {
    for (int gpu = 0; gpu < cluster_->nodes()[static_cast<size_t>(*n)].gpus && !spot; ++gpu)
      if (cluster_->FitsSpot(*job, {*n, gpu, -1})) spot = Spot{*n, gpu, -1};
  }
  if (!spot) return false;
  booking.id = free_ids_.empty() ? next_id_++ : free_ids_.back();
  if (!free_ids_.empty()) free_ids_.pop_back();
  cluster_->Place(*booking.id, *job, *spot);
  return true;
}

void Books::Count(const std::string& node, Giver giver, int by) {
  if (const auto n = NodeAt(node)) givers_[static_cast<size_t>(*n)][static_cast<size_t>(giver)] += by;
}

// A job of which it is not known which GPU it has.
void Books::CountUnknown(const std::string& node, Giver giver, int by) {
  if (giver != Giver::kSpillway) return;
  if (const auto n = NodeAt(node)) unknown_[static_cast<size_t>(*n)] += by;
}

void Books::Take(Booking& booking) {
  Count(booking.node, booking.ask.giver, -1);
  if (!booking.id) return CountUnknown(booking.node, booking.ask.giver, -1);
  cluster_->Remove(*booking.id);
  free_ids_.push_back(*booking.id);
  booking.id.reset();
}

Books::Place Books::PlaceOf(const Booking& booking) const {
  if (!booking.id) return booking.want;
  const Job& job = cluster_->JobOf(*booking.id);
  const Spot& spot = cluster_->SpotOf(*booking.id);
  Place place;
  place.gpu = job.Fractional() ? std::to_string(spot.gpu) : WholeText(cluster_->WholeGpusOf(*booking.id));
  if (spot.start >= 0)
    place.slice = fmt::format("{}@{}", ShapeOf(SliceOf(job, rules_.slice_rule)).name, spot.start);
  else if (job.profile)
    place.slice = fmt::format("{}@0", ShapeOf(*job.profile).name);
  return place;
}

Result<Books::Reservation> Books::Reserve(const PodAsk& ask, const std::string& name) {
  if (ask.giver == Giver::kNobody) return Reservation{};
  if (const auto at = bookings_.find(ask.uid); at != bookings_.end()) {
    Booking& own = at->second;
    // How the other call ends is not known yet: whatever this one did would undo the other's.
    if (own.state == State::kReserved)
      return Fail(ErrorCode::kConflict, fmt::format("{} is being bound to {}", own.pod, own.node));
    if (own.state != State::kDoubtful) {
      if (own.node == name && own.id) return Reservation{PlaceOf(own)};
      return Fail(ErrorCode::kConflict, fmt::format("{} is on {} already", own.pod, own.node));
    }
    // Elsewhere it is refused below: an earlier bind may yet be done, and what it was to have would be
    // another's by then.
    if (own.node == name) {
      if (!own.id) return Fail(ErrorCode::kConflict, fmt::format("{}: its GPU there is gone", own.pod));
      own.state = State::kReserved;
      own.since = ++mark_;
      return Reservation{PlaceOf(own), own.since};
    }
  }
  TenantNumber(TenantOf(ask));
  if (const FilterVerdict verdict = Judge(ask, name); !verdict.why.empty())
    return Fail(ErrorCode::kConflict, fmt::format("{}: {}", name, verdict.why));
  const int n = *NodeAt(name);
  FilterVerdict unused;
  const Job job = *JobOn(ask, cluster_->nodes()[static_cast<size_t>(n)], unused);
  std::optional<JobMix> mix;
  if (!LooksAhead()) mix.emplace(MixWith(ask));
  const auto rating =
      Placer(*cluster_, mix ? *mix : look_ahead_->mix(), {}, mix ? nullptr : &look_ahead_->fill())
          .RateOn(job, n);
  if (!rating) return Fail(ErrorCode::kConflict, fmt::format("{}: it does not fit", name));
  Booking booking;
  booking.pod = ask.space + "/" + ask.name;
  booking.node = name;
  booking.ask = ask;
  booking.job = ask.job;
  booking.state = State::kReserved;
  booking.since = ++mark_;
  booking.id = free_ids_.empty() ? next_id_++ : free_ids_.back();
  if (!free_ids_.empty()) free_ids_.pop_back();
  cluster_->Place(*booking.id, job, rating->spot);
  waiting_.erase(ask.uid);
  Changed();
  Count(name, ask.giver, 1);
  booking.want = PlaceOf(booking);
  const Booking& kept = bookings_[ask.uid] = std::move(booking);
  return Reservation{kept.want, kept.since};
}

Books::Booking* Books::Held(const std::string& uid, uint64_t ticket) {
  const auto at = bookings_.find(uid);
  const bool held =
      at != bookings_.end() && at->second.state == State::kReserved && at->second.since == ticket;
  return held ? &at->second : nullptr;
}

void Books::Confirm(const std::string& uid, uint64_t ticket) {
  Booking* const booking = Held(uid, ticket);
  if (booking == nullptr) return;
  booking->state = State::kConfirmed;
  booking->since = ++mark_;
}

void Books::Doubt(const std::string& uid, uint64_t ticket) {
  Booking* const booking = Held(uid, ticket);
  if (booking == nullptr) return;
  booking->state = State::kDoubtful;
  booking->since = ++mark_;
}

bool Books::GiveBack(const std::string& uid, uint64_t ticket) {
  Booking* const booking = Held(uid, ticket);
  if (booking == nullptr) return false;
  Take(*booking);
  bookings_.erase(uid);
  return true;
}

void Books::Adopt(const BoundPod& pod) { AddOnce(pod, State::kConfirmed); }
void Books::Suppose(const BoundPod& pod) { AddOnce(pod, State::kDoubtful); }

void Books::AddOnce(const BoundPod& pod, State state) {
  if (pod.finished || pod.node.empty() || pod.ask.giver == Giver::kNobody) return;
  const auto [at, fresh] = bookings_.try_emplace(pod.ask.uid);
  if (!fresh) return;
  at->second = BookingOf(pod);
  at->second.state = state;
  at->second.since = ++mark_;
  waiting_.erase(pod.ask.uid);
  Changed();
  Count(pod.node, pod.ask.giver, 1);
  if (!Put(at->second)) CountUnknown(pod.node, pod.ask.giver, 1);
}

void Books::See(const BoundPod& pod) {
  if (pod.ask.giver == Giver::kNobody) return;
  if (pod.finished) return Forget(pod.ask.uid);
  if (pod.node.empty() || gone_.contains(pod.ask.uid)) return;
  const auto at = bookings_.find(pod.ask.uid);
  if (at == bookings_.end()) return Adopt(pod);
  Booking& own = at->second;
  // A bind that is under way decides itself; elsewhere than booked, the next look at everything does.
  if (own.state == State::kDoubtful && own.node == pod.node) {
    own.state = State::kConfirmed;
    own.since = ++mark_;
  }
}

void Books::Forget(const std::string& uid) {
  if (uid.empty()) return;
  waiting_.erase(uid);
  if (gone_.insert(uid).second) gone_order_.push_back(uid);
  while (gone_order_.size() > kMostGone) {
    gone_.erase(gone_order_.front());
    gone_order_.pop_front();
  }
  const auto at = bookings_.find(uid);
  if (at == bookings_.end() || at->second.state == State::kReserved || at->second.state == State::kFixed)
    return;
  Take(at->second);
  bookings_.erase(at);
  Changed();
}

bool Books::Knows(const std::string& uid, const std::string& node) const {
  const auto at = bookings_.find(uid);
  return at != bookings_.end() && at->second.node == node;
}

bool Books::InDoubt(const std::string& uid) const {
  const auto at = bookings_.find(uid);
  return at != bookings_.end() && at->second.state == State::kDoubtful;
}

std::vector<Books::View> Books::Bookings() const {
  std::vector<View> views;
  for (const auto& [uid, booking] : bookings_)
    views.push_back({uid, booking.pod, booking.node, PlaceOf(booking),
                     booking.id ? cluster_->JobOf(*booking.id).TotalMilli() : booking.job.TotalMilli(),
                     booking.state, booking.id.has_value()});
  return views;
}

}  // namespace spillway::scheduler
