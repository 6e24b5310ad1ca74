// SPDX-License-Identifier: Apache-2.0
#include "scheduler/oracle/milp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

namespace spillway::scheduler {
namespace {

struct Fraction {
  Profile profile;
  int start;
};

// Of alike GPUs, one by one, those matter that are on, and two that are off. One more would do: the newcomer
// needs no more, and what else moves there might as well have stayed.
constexpr int kSpareGpus = 2;

// Every fraction of a GPU, in the order in which variables name them.
std::vector<Fraction> AllFractions() {
  std::vector<Fraction> fractions;
  for (int p = 0; p < kProfiles; ++p) {
    const auto profile = static_cast<Profile>(p);
    if (profile == Profile::k1gMem) continue;
    for (const int start : ShapeOf(profile).starts) fractions.push_back({profile, start});
  }
  return fractions;
}

// The GPUs of a snapshot, numbered node by node.
std::vector<std::pair<int, int>> GpusOf(const Snapshot& snapshot) {
  std::vector<std::pair<int, int>> gpus;
  for (int n = 0; n < static_cast<int>(snapshot.nodes.size()); ++n)
    for (int gpu = 0; gpu < snapshot.nodes[static_cast<size_t>(n)].gpus; ++gpu) gpus.emplace_back(n, gpu);
  return gpus;
}

class Writer {
 public:
  Writer(const Snapshot& snapshot, bool every_fraction)
      : s_(snapshot),
        cluster_(snapshot.nodes, snapshot.models, snapshot.rules),
        every_fraction_(every_fraction),
        at_(GpusOf(snapshot)) {
    const bool slices = s_.rules.isolation == Isolation::kFraction;
    for (const Fraction& one : AllFractions())
      if (slices || every_fraction || one.profile == Profile::k7g) fractions_.push_back(one);
    for (int j = 0; j < static_cast<int>(at_.size()); ++j) {
      const auto& [node, gpu] = at_[static_cast<size_t>(j)];
      if (gpu == 0) first_.push_back(j);
      on_.push_back(false);
    }
    for (size_t i = 0; i < s_.homes.size(); ++i)
      for (const int j : HomesOf(i)) on_[static_cast<size_t>(j)] = true;
    ChooseGpus();
  }

  std::string Write() {
    Objective();
    for (size_t i = 0; i < s_.jobs.size(); ++i)
      s_.jobs[i].Fractional() ? EveryPartOnce(i) : EveryWholeOnce(i);
    for (const int j : gpus_) {
      Capacity(j);
      Slices(j);
      if (s_.rules.isolation == Isolation::kGpu) Tenants(j);
    }
    Moves();
    Order();
    text_ += "Binary\n";
    for (const std::string& name : names_) text_ += " " + name + "\n";
    return text_ + "End\n";
  }

 private:
  bool AllAlike() const {
    const auto whole = [](const Job& job) { return !job.Fractional(); };
    return std::all_of(s_.nodes.begin(), s_.nodes.end(),
                       [&](const Node& n) { return n.gpus == 1 && n.model == s_.nodes.front().model; }) &&
           std::none_of(s_.jobs.begin(), s_.jobs.end(), whole);
  }
  void ChooseGpus() {
    const bool alike = AllAlike();
    const auto gpus = static_cast<int>(at_.size());
    for (int j = 0; j < gpus; ++j)
      if (!alike || on_[static_cast<size_t>(j)]) gpus_.push_back(j);
    for (int j = 0, spare = 0; alike && j < gpus && spare < kSpareGpus; ++j)
      if (!on_[static_cast<size_t>(j)]) gpus_.push_back(j), ++spare;
  }
  std::vector<int> HomesOf(size_t i) const {
    const Spot& home = s_.homes[i];
    if (home.node < 0) return {};
    const int first = first_[static_cast<size_t>(home.node)];
    if (s_.jobs[i].Fractional()) return {first + home.gpu};
    std::vector<int> gpus;
    for (int gpu = 0; gpu < kMaxGpus; ++gpu)
      if ((home.whole >> gpu & 1) != 0) gpus.push_back(first + gpu);
    return gpus;
  }
  const Node& NodeOf(int j) const { return s_.nodes[static_cast<size_t>(at_[static_cast<size_t>(j)].first)]; }
  const GpuModel& ModelOf(int j) const { return s_.models[static_cast<size_t>(NodeOf(j).model)]; }
  // Has the GPU that fraction? All of it is the last one, whatever its size; but where jobs have slices, that
  // is one of a GPU that is not divided, or has all slices.
  bool Has(int j, size_t w) const {
    const GpuModel& model = ModelOf(j);
    const bool slices = s_.rules.isolation == Isolation::kFraction;
    const Fraction& one = fractions_[w];
    if (one.profile == Profile::k7g) return !slices || !model.mig || model.slices == kSlices;
    return (slices ? model.mig : every_fraction_) && one.start + ShapeOf(one.profile).memory <= model.slices;
  }
  int CapacityOf(int j, size_t w) const {
    if (fractions_[w].profile == Profile::k7g) return cluster_.CapacityOf(NodeOf(j));
    return ShapeOf(fractions_[w].profile).compute * kWholeGpu / 7;
  }
  // May the job be there?
  bool Holds(int j, size_t w, const Job& job) const {
    if (!job.Fractional() || !job.Accepts(NodeOf(j).model) || !Has(j, w)) return false;
    const ProfileShape& shape = ShapeOf(fractions_[w].profile);
    if (fractions_[w].profile == Profile::k7g) return job.milli <= CapacityOf(j, w);
    if (s_.rules.isolation == Isolation::kFraction && s_.rules.slice_rule == SliceRule::kMemory)
      return job.milli * 8 <= shape.memory * kWholeGpu;
    return job.milli * 7 <= shape.compute * kWholeGpu;
  }
  bool HoldsWhole(int node, const Job& job) const {
    const Node& there = s_.nodes[static_cast<size_t>(node)];
    return !job.Fractional() && job.Accepts(there.model) && there.gpus >= job.gpus;
  }

  std::string Name(std::string name) {
    names_.insert(name);
    return name;
  }
  std::string X(size_t i, int j, size_t w) { return Name(fmt::format("x_{}_{}_{}", i, j, w)); }
  std::string G(size_t i, int j) { return Name(fmt::format("g_{}_{}", i, j)); }
  void Row(const std::string& row) { text_ += fmt::format(" c{}: {}\n", rows_++, row); }

  void Objective() {
    text_ += "Minimize\n obj:";
    for (const int j : gpus_) text_ += fmt::format(" + {} {}", s_.gpu_value, Name(fmt::format("Y{}", j)));
    for (size_t i = 0; i + 1 < s_.jobs.size(); ++i)
      text_ += fmt::format(" + {} {}", s_.move_price * s_.jobs[i].move_cost, Name(fmt::format("d{}", i)));
    text_ += "\nSubject To\n";
  }
  // A job that nothing can hold has a row that cannot be kept.
  void RowIsOne(const std::string& row) { Row(row.empty() ? Name("Y0") + " >= 2" : row + " = 1"); }
  void EveryPartOnce(size_t i) {
    std::string row;
    for (const int j : gpus_)
      for (size_t w = 0; w < fractions_.size(); ++w)
        if (Holds(j, w, s_.jobs[i])) row += " + " + X(i, j, w);
    RowIsOne(row);
  }
  void EveryWholeOnce(size_t i) {
    std::string nodes;
    for (int n = 0; n < static_cast<int>(s_.nodes.size()); ++n) {
      if (!HoldsWhole(n, s_.jobs[i])) continue;
      const std::string z = Name(fmt::format("z_{}_{}", i, n));
      nodes += " + " + z;
      std::string gpus;
      const int first = first_[static_cast<size_t>(n)];
      for (int gpu = 0; gpu < s_.nodes[static_cast<size_t>(n)].gpus; ++gpu) gpus += " + " + G(i, first + gpu);
      Row(fmt::format("{} - {} {} = 0", gpus, s_.jobs[i].gpus, z));
    }
    RowIsOne(nodes);
  }
  void Capacity(int j) {
    const bool alone = s_.rules.isolation == Isolation::kFraction;
    for (size_t w = 0; w < fractions_.size(); ++w) {
      std::string row;
      for (size_t i = 0; i < s_.jobs.size(); ++i)
        if (Holds(j, w, s_.jobs[i]))
          row += alone ? " + " + X(i, j, w) : fmt::format(" + {} {}", s_.jobs[i].milli, X(i, j, w));
      if (row.empty()) continue;
      const std::string y = Name(fmt::format("y_{}_{}", j, w));
      Row(alone ? fmt::format("{} - {} <= 0", row, y)
                : fmt::format("{} - {} {} <= 0", row, CapacityOf(j, w), y));
    }
  }
  void Slices(int j) {
    std::string whole;
    for (size_t i = 0; i < s_.jobs.size(); ++i)
      if (HoldsWhole(at_[static_cast<size_t>(j)].first, s_.jobs[i])) whole += " + " + G(i, j);
    for (int slice = 0; slice < kSlices; ++slice) {
      std::string row = whole;
      for (size_t w = 0; w < fractions_.size(); ++w)
        if (Has(j, w) && (MaskOf(fractions_[w].profile, fractions_[w].start) >> slice & 1) != 0)
          row += " + " + Name(fmt::format("y_{}_{}", j, w));
      if (!row.empty()) Row(fmt::format("{} - Y{} <= 0", row, j));
    }
  }
  void Tenants(int j) {
    std::set<int> tenants;
    for (size_t i = 0; i < s_.jobs.size(); ++i) {
      const int t = s_.jobs[i].tenant;
      tenants.insert(t);
      for (size_t w = 0; w < fractions_.size(); ++w)
        if (Holds(j, w, s_.jobs[i]))
          Row(fmt::format("{} - {} <= 0", X(i, j, w), Name(fmt::format("A_{}_{}", j, t))));
    }
    std::string row;
    for (const int t : tenants) row += " + " + Name(fmt::format("A_{}_{}", j, t));
    Row(fmt::format("{} - Y{} <= 0", row, j));
  }
  // The fraction in which job i runs.
  size_t HomeOf(size_t i) const {
    const Spot& home = s_.homes[i];
    const bool slices = s_.rules.isolation == Isolation::kFraction &&
                        s_.models[static_cast<size_t>(s_.nodes[static_cast<size_t>(home.node)].model)].mig;
    const Profile profile = slices ? SliceOf(s_.jobs[i], s_.rules.slice_rule) : Profile::k7g;
    const int start = slices ? home.start : 0;
    return static_cast<size_t>(
        std::find_if(fractions_.begin(), fractions_.end(),
                     [&](const Fraction& one) { return one.profile == profile && one.start == start; }) -
        fractions_.begin());
  }
  void Moves() {
    for (size_t i = 0; i + 1 < s_.jobs.size(); ++i)
      if (s_.jobs[i].Fractional())
        Row(fmt::format("d{} + {} = 1", i, X(i, HomesOf(i).front(), HomeOf(i))));
      else
        for (const int j : HomesOf(i)) Row(fmt::format("d{} + {} >= 1", i, G(i, j)));
  }
  // Of what is off and alike, GPUs of a node or whole nodes, any order would do: they are on in this one.
  void Order() {
    const auto in_order = [&](int a, int b) { Row(fmt::format("Y{} - Y{} >= 0", a, b)); };
    std::vector<int> spare;
    for (const int j : gpus_)
      if (!on_[static_cast<size_t>(j)]) spare.push_back(j);
    for (size_t k = 1; k < spare.size(); ++k)
      if (at_[static_cast<size_t>(spare[k - 1])].first == at_[static_cast<size_t>(spare[k])].first)
        in_order(spare[k - 1], spare[k]);
    std::map<std::pair<int, int>, int> last_off;  // node, by model and GPUs
    for (int n = 0; n < static_cast<int>(s_.nodes.size()); ++n) {
      const Node& node = s_.nodes[static_cast<size_t>(n)];
      const int first = first_[static_cast<size_t>(n)];
      bool off = node.gpus > 0;
      for (int gpu = 0; gpu < node.gpus; ++gpu)
        off = off && std::find(spare.begin(), spare.end(), first + gpu) != spare.end();
      if (!off) continue;
      if (const auto before = last_off.find({node.model, node.gpus}); before != last_off.end())
        for (int gpu = 0; gpu < node.gpus; ++gpu)
          in_order(first_[static_cast<size_t>(before->second)] + gpu, first + gpu);
      last_off[{node.model, node.gpus}] = n;
    }
  }

  const Snapshot& s_;
  const Cluster cluster_;  // for what its GPUs have
  const bool every_fraction_;
  const std::vector<std::pair<int, int>> at_;  // GPU j is the second of node
  std::vector<int> first_;                     // GPU of each node
  std::vector<bool> on_;                       // GPU j
  std::vector<Fraction> fractions_;
  std::vector<int> gpus_;  // that matter
  std::set<std::string> names_;
  std::string text_;
  int rows_ = 0;
};

Error NotAskedFor(const std::string& name) {
  return {ErrorCode::kSystem, fmt::format("the solver named a variable that was not asked for: {}", name)};
}

}  // namespace

std::string WriteMilp(const Snapshot& snapshot, bool every_fraction) {
  return Writer(snapshot, every_fraction).Write();
}

Result<std::vector<Spot>> ReadPlacement(const Snapshot& snapshot, const std::vector<std::string>& ones) {
  std::vector<Spot> spots(snapshot.jobs.size());
  const std::vector<Fraction> fractions = AllFractions();
  const auto at = GpusOf(snapshot);
  const bool slices = snapshot.rules.isolation == Isolation::kFraction;
  for (const std::string& name : ones) {
    unsigned i = 0, j = 0, w = 0;
    const bool part = std::sscanf(name.c_str(), "x_%u_%u_%u", &i, &j, &w) == 3;
    if (!part && std::sscanf(name.c_str(), "g_%u_%u", &i, &j) != 2) continue;
    if (i >= spots.size() || j >= at.size() || (part && slices && w >= fractions.size()))
      return tl::make_unexpected(NotAskedFor(name));
    const auto& [node, gpu] = at[j];
    if (!part) {
      spots[i] = {node, 0, -1, spots[i].whole | uint32_t{1} << gpu};
      continue;
    }
    const size_t model = static_cast<size_t>(snapshot.nodes[static_cast<size_t>(node)].model);
    // A job in a larger fraction than it needs would do with the smallest one that begins there.
    spots[i] = {node, gpu, slices && snapshot.models[model].mig ? fractions[w].start : -1};
  }
  return spots;
}

}  // namespace spillway::scheduler
