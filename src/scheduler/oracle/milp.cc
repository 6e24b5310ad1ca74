// SPDX-License-Identifier: Apache-2.0
#include "scheduler/oracle/milp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

namespace spillway::scheduler {
namespace {

struct Fraction {
  Profile profile;
  int start;
};

// GPUs that matter: those that are on, and two that are off. One more would do: the newcomer needs no more,
// and what else moves there might as well have stayed.
constexpr int kSpareGpus = 2;

class Writer {
 public:
  Writer(const Snapshot& snapshot, bool every_fraction) : s_(snapshot) {
    const bool slices = s_.rules.isolation == Isolation::kFraction;
    for (int p = 0; p < kProfiles; ++p) {
      const auto profile = static_cast<Profile>(p);
      if (profile == Profile::k1gMem || (!slices && !every_fraction && profile != Profile::k7g)) continue;
      for (const int start : ShapeOf(profile).starts) fractions_.push_back({profile, start});
    }
    std::vector<bool> on(static_cast<size_t>(s_.gpus));
    for (const Spot& home : s_.homes)
      if (home.node >= 0) on[static_cast<size_t>(home.node)] = true;
    for (int j = 0; j < s_.gpus; ++j)
      if (on[static_cast<size_t>(j)]) gpus_.push_back(j);
    for (int j = 0; j < s_.gpus && spare_.size() < kSpareGpus; ++j)
      if (!on[static_cast<size_t>(j)]) gpus_.push_back(j), spare_.push_back(j);
  }

  std::string Write() {
    Objective();
    EveryJobOnce();
    for (const int j : gpus_) {
      Capacity(j);
      Slices(j);
      if (s_.rules.isolation == Isolation::kGpu) Tenants(j);
    }
    Moves();
    for (size_t k = 1; k < spare_.size(); ++k) Row(fmt::format("Y{} - Y{} >= 0", spare_[k - 1], spare_[k]));
    text_ += "Binary\n";
    for (const std::string& name : names_) text_ += " " + name + "\n";
    return text_ + "End\n";
  }

 private:
  std::string Name(std::string name) {
    names_.insert(name);
    return name;
  }
  std::string X(size_t i, int j, size_t w) { return Name(fmt::format("x_{}_{}_{}", i, j, w)); }
  void Row(const std::string& row) { text_ += fmt::format(" c{}: {}\n", rows_++, row); }
  bool Holds(size_t w, const Job& job) const {
    const ProfileShape& shape = ShapeOf(fractions_[w].profile);
    if (s_.rules.isolation == Isolation::kFraction && s_.rules.slice_rule == SliceRule::kMemory)
      return job.milli * 8 <= shape.memory * kWholeGpu;
    return job.milli * 7 <= shape.compute * kWholeGpu;
  }

  void Objective() {
    text_ += "Minimize\n obj:";
    for (const int j : gpus_) text_ += fmt::format(" + {} {}", s_.gpu_value, Name(fmt::format("Y{}", j)));
    for (size_t i = 0; i + 1 < s_.jobs.size(); ++i)
      text_ += fmt::format(" + {} {}", s_.move_price * s_.jobs[i].move_cost, Name(fmt::format("d{}", i)));
    text_ += "\nSubject To\n";
  }
  void EveryJobOnce() {
    for (size_t i = 0; i < s_.jobs.size(); ++i) {
      std::string row;
      for (const int j : gpus_)
        for (size_t w = 0; w < fractions_.size(); ++w)
          if (Holds(w, s_.jobs[i])) row += " + " + X(i, j, w);
      Row(row + " = 1");
    }
  }
  void Capacity(int j) {
    const bool alone = s_.rules.isolation == Isolation::kFraction;
    for (size_t w = 0; w < fractions_.size(); ++w) {
      std::string row;
      for (size_t i = 0; i < s_.jobs.size(); ++i)
        if (Holds(w, s_.jobs[i]))
          row += alone ? " + " + X(i, j, w) : fmt::format(" + {} {}", s_.jobs[i].milli, X(i, j, w));
      if (row.empty()) continue;
      const std::string y = Name(fmt::format("y_{}_{}", j, w));
      Row(alone ? fmt::format("{} - {} <= 0", row, y)
                : fmt::format("{} - {} {} <= 0", row, ShapeOf(fractions_[w].profile).compute * kWholeGpu / 7,
                              y));
    }
  }
  void Slices(int j) {
    for (int slice = 0; slice < kSlices; ++slice) {
      std::string row;
      for (size_t w = 0; w < fractions_.size(); ++w)
        if ((MaskOf(fractions_[w].profile, fractions_[w].start) >> slice & 1) != 0)
          row += " + " + Name(fmt::format("y_{}_{}", j, w));
      Row(fmt::format("{} - Y{} <= 0", row, j));
    }
  }
  void Tenants(int j) {
    std::set<int> tenants;
    for (size_t i = 0; i < s_.jobs.size(); ++i) {
      const int t = s_.jobs[i].tenant;
      tenants.insert(t);
      for (size_t w = 0; w < fractions_.size(); ++w)
        if (Holds(w, s_.jobs[i]))
          Row(fmt::format("{} - {} <= 0", X(i, j, w), Name(fmt::format("A_{}_{}", j, t))));
    }
    std::string row;
    for (const int t : tenants) row += fmt::format(" + A_{}_{}", j, t);
    Row(fmt::format("{} - Y{} <= 0", row, j));
  }
  // The fraction in which job i runs.
  size_t HomeOf(size_t i) const {
    const Spot& home = s_.homes[i];
    const bool slices = s_.rules.isolation == Isolation::kFraction;
    const Profile profile = slices ? SliceOf(s_.jobs[i], s_.rules.slice_rule) : Profile::k7g;
    const int start = slices ? home.start : 0;
    return static_cast<size_t>(
        std::find_if(fractions_.begin(), fractions_.end(),
                     [&](const Fraction& one) { return one.profile == profile && one.start == start; }) -
        fractions_.begin());
  }
  void Moves() {
    for (size_t i = 0; i + 1 < s_.jobs.size(); ++i)
      Row(fmt::format("d{} + {} = 1", i, X(i, s_.homes[i].node, HomeOf(i))));
  }

  const Snapshot& s_;
  std::vector<Fraction> fractions_;
  std::vector<int> gpus_, spare_;
  std::set<std::string> names_;
  std::string text_;
  int rows_ = 0;
};

}  // namespace

std::string WriteMilp(const Snapshot& snapshot, bool every_fraction) {
  return Writer(snapshot, every_fraction).Write();
}

Result<std::vector<Spot>> ReadPlacement(const Snapshot& snapshot, const std::vector<std::string>& ones) {
  std::vector<Spot> spots(snapshot.jobs.size());
  std::vector<Fraction> fractions;
  const bool slices = snapshot.rules.isolation == Isolation::kFraction;
  for (int p = 0; p < kProfiles; ++p) {
    const auto profile = static_cast<Profile>(p);
    if (profile == Profile::k1gMem) continue;
    for (const int start : ShapeOf(profile).starts) fractions.push_back({profile, start});
  }
  for (const std::string& name : ones) {
    unsigned i = 0, j = 0, w = 0;
    if (std::sscanf(name.c_str(), "x_%u_%u_%u", &i, &j, &w) != 3) continue;
    if (i >= spots.size() || j >= static_cast<unsigned>(snapshot.gpus) || (slices && w >= fractions.size()))
      return Fail(ErrorCode::kSystem,
                  fmt::format("the solver named a variable that was not asked for: {}", name));
    // A job in a larger fraction than it needs would do with the smallest one that begins there.
    spots[i] = {static_cast<int>(j), 0, slices ? fractions[w].start : -1};
  }
  return spots;
}

}  // namespace spillway::scheduler
