// SPDX-License-Identifier: Apache-2.0
#include "planner/probe/kernel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/random.h"

namespace spillway::planner {
namespace {

constexpr double kRows = 1'000'000;  // at scale 1
constexpr double kElements = 4'000'000;

// Fast, and good enough to keep caches and branches guessing.
using Random = base::SplitMix64;

size_t Scaled(double count, double scale) {
  return std::max<size_t>(1024, static_cast<size_t>(count * scale));
}

// a = b + s c over arrays that no cache holds: DRAM bandwidth.
class Triad : public Kernel {
 public:
  Triad(double scale, uint64_t) : a_(Scaled(kElements, scale)), b_(a_.size(), 1.5), c_(a_.size(), 2.5) {}
  double Pass() override {
    scalar_ += 0.25;
    for (size_t i = 0; i < a_.size(); i++) a_[i] = b_[i] + scalar_ * c_[i];
    return static_cast<double>(3 * sizeof(double) * a_.size()) / 1e9;
  }
  bool Verify() const override { return a_.front() == 1.5 + scalar_ * 2.5 && a_.back() == a_.front(); }

 private:
  double scalar_ = 0;
  std::vector<double> a_, b_, c_;
};

// Builds a hash table of keys once; a pass probes it with twice as many, of which half are there.
class HashJoin : public Kernel {
 public:
  HashJoin(double scale, uint64_t seed)
      : rows_(Scaled(kRows, scale)), mask_(std::bit_ceil(2 * rows_) - 1), table_(mask_ + 1) {
    Random random(seed);
    for (uint64_t key = 1; key <= rows_; key++) {
      uint64_t slot = Hash(key);
      while (table_[slot].key != 0) slot = (slot + 1) & mask_;
      table_[slot] = {key, random.Below(1000)};
    }
    for (size_t i = 0; i < 2 * rows_; i++) probes_.push_back(1 + random.Below(2 * rows_));
  }
  double Pass() override {
    matches_ = sum_ = 0;
    for (uint64_t key : probes_) {
      for (uint64_t slot = Hash(key); table_[slot].key != 0; slot = (slot + 1) & mask_) {
        if (table_[slot].key != key) continue;
        matches_++;
        sum_ += table_[slot].payload;
        break;
      }
    }
    return static_cast<double>(probes_.size()) / 1e6;
  }
  // Keys 1 .. rows are in the table, the others are not.
  bool Verify() const override {
    const auto there =
        std::count_if(probes_.begin(), probes_.end(), [&](uint64_t key) { return key <= rows_; });
    return matches_ == static_cast<uint64_t>(there) && sum_ < 1000 * matches_;
  }

 private:
  struct Slot {
    uint64_t key = 0, payload = 0;
  };
  uint64_t Hash(uint64_t key) const { return (key * Random::kStep >> 20) & mask_; }

  size_t rows_;
  uint64_t mask_;
  std::vector<Slot> table_;
  std::vector<uint64_t> probes_;
  uint64_t matches_ = 0, sum_ = 0;
};

// The columns of lineitem that queries 1 and 6 read; money in cents, shares in hundredths.
struct Columns {
  Columns(double scale, uint64_t seed) {
    Random random(seed);
    const size_t rows = Scaled(kRows, scale);
    for (auto* column : {&quantity, &price, &discount, &tax}) column->reserve(rows);
    for (size_t i = 0; i < rows; i++) {
      quantity.push_back(static_cast<int64_t>(1 + random.Below(50)));
      price.push_back(static_cast<int64_t>(90'000 + random.Below(10'000'000)));
      discount.push_back(static_cast<int64_t>(random.Below(11)));
      tax.push_back(static_cast<int64_t>(random.Below(9)));
      day.push_back(static_cast<int32_t>(random.Below(kDays)));
      group.push_back(static_cast<uint8_t>(random.Below(kGroups)));
    }
  }
  static constexpr uint64_t kDays = 2526, kGroups = 4;  // seven years; flag and status
  std::vector<int64_t> quantity, price, discount, tax;
  std::vector<int32_t> day;
  std::vector<uint8_t> group;
};

// A scan of almost all rows with several sums per group.
class Query1 : public Kernel {
 public:
  Query1(double scale, uint64_t seed) : columns_(scale, seed) {}
  double Pass() override {
    sums_ = {};
    for (size_t i = 0; i < columns_.day.size(); i++) {
      if (columns_.day[i] > kUntil) continue;
      Sums& sums = sums_[columns_.group[i]];
      const int64_t discounted = columns_.price[i] * (100 - columns_.discount[i]);
      sums.quantity += columns_.quantity[i];
      sums.price += columns_.price[i];
      sums.discounted += discounted;
      sums.charged += discounted / 100 * (100 + columns_.tax[i]);
      sums.discount += columns_.discount[i];
      sums.rows++;
    }
    return static_cast<double>(columns_.day.size()) / 1e6;
  }
  bool Verify() const override {
    int64_t quantity = 0, rows = 0, grouped_quantity = 0, grouped_rows = 0;
    for (size_t i = columns_.day.size(); i-- > 0;) {
      if (columns_.day[i] > kUntil) continue;
      quantity += columns_.quantity[i];
      rows++;
    }
    for (const Sums& sums : sums_) grouped_quantity += sums.quantity, grouped_rows += sums.rows;
    return quantity == grouped_quantity && rows == grouped_rows;
  }

 private:
  static constexpr int32_t kUntil = static_cast<int32_t>(Columns::kDays) - 90;
  struct Sums {
    int64_t quantity = 0, price = 0, discounted = 0, charged = 0, discount = 0, rows = 0;
  };
  Columns columns_;
  std::array<Sums, Columns::kGroups> sums_{};
};

// A scan with a narrow filter and one sum: mostly comparisons.
class Query6 : public Kernel {
 public:
  Query6(double scale, uint64_t seed) : columns_(scale, seed) {}
  double Pass() override {
    revenue_ = 0;
    for (size_t i = 0; i < columns_.day.size(); i++) revenue_ += Revenue(i);
    return static_cast<double>(columns_.day.size()) / 1e6;
  }
  bool Verify() const override {
    int64_t revenue = 0;
    for (size_t i = columns_.day.size(); i-- > 0;) revenue += Revenue(i);
    return revenue == revenue_ && revenue > 0;
  }

 private:
  int64_t Revenue(size_t i) const {
    const bool wanted = columns_.day[i] >= 365 && columns_.day[i] < 730 && columns_.discount[i] >= 5 &&
                        columns_.discount[i] <= 7 && columns_.quantity[i] < 24;
    return wanted ? columns_.price[i] * columns_.discount[i] : 0;
  }
  Columns columns_;
  int64_t revenue_ = 0;
};

}  // namespace

const std::vector<KernelKind>& KernelKinds() {
  static const std::vector<KernelKind> kinds = {{"triad", "GB/s", "memory"},
                                                {"hash-join", "Mrows/s", "memory"},
                                                {"q1", "Mrows/s", "cpu and memory"},
                                                {"q6", "Mrows/s", "cpu"},
                                                {"loopback", "GB/s", "network stack"}};
  return kinds;
}

size_t BytesPerKernel(double scale) {
  return Scaled(kElements, scale) * 3 * sizeof(double);  // triad's, the greatest
}

std::unique_ptr<Kernel> MakeKernel(const std::string& name, double scale, uint64_t seed) {
  if (name == "triad") return std::make_unique<Triad>(scale, seed);
  if (name == "hash-join") return std::make_unique<HashJoin>(scale, seed);
  if (name == "q1") return std::make_unique<Query1>(scale, seed);
  if (name == "q6") return std::make_unique<Query6>(scale, seed);
  return nullptr;
}

}  // namespace spillway::planner
