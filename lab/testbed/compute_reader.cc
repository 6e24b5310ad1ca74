// SPDX-License-Identifier: Apache-2.0
// The `runs:` of units that compute, read.
#include "spec_reader.h"

#include <fmt/format.h>

#include "base/yaml/scalars.h"
#include "lab/compute/knn.h"
#include "lab/compute/vgg16.h"

namespace spillway::lab {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

constexpr uint32_t kMaxWorkers = 1024;

void ReadCount(Problems& problems, const Field* field, uint32_t most, uint32_t& into) {
  if (field == nullptr) return;
  if (auto n = yaml::ReadInteger(problems, *field, 1, most)) into = static_cast<uint32_t>(*n);
}

}  // namespace

void ReadSynthetic(Problems& problems, const Field& field, UnitSpec& unit) {
  unit.runs = Workload::kSynthetic;
  MapReader map(problems, field, {"workers", "gflop"});
  ReadCount(problems, map.Find("workers"), kMaxWorkers, unit.synthetic.workers);
  if (const Field* f = map.Need("gflop", "the work per request, in thousand million operations"))
    if (auto gflop = ReadNumber(problems, *f, 1e-6, 1e6)) unit.synthetic.gflop = *gflop;
}

void ReadVgg16(Problems& problems, const Field& field, UnitSpec& unit) {
  unit.runs = Workload::kVgg16;
  MapReader map(problems, field, {"workers", "size", "precision"});
  ReadCount(problems, map.Find("workers"), kMaxWorkers, unit.vgg16.workers);
  if (const Field* f = map.Find("size")) {
    ReadCount(problems, f, compute::kMaxVgg16Size, unit.vgg16.size);
    if (unit.vgg16.size % 32 != 0)
      problems.Add(f->line, f->path, "expected a multiple of 32, got " + yaml::Describe(f->node));
  }
  if (const Field* f = map.Find("precision")) {
    if (auto text = yaml::ReadText(problems, *f, "one of f32, bf16")) unit.vgg16.precision = *text;
    if (unit.vgg16.precision != "f32" && unit.vgg16.precision != "bf16")
      problems.Add(f->line, f->path, "expected one of f32, bf16, got " + yaml::Describe(f->node));
  }
}

void ReadKnn(Problems& problems, const Field& field, UnitSpec& unit) {
  unit.runs = Workload::kKnn;
  Knn& knn = unit.knn;
  MapReader map(problems, field, {"workers", "vectors", "dimensions", "neighbours"});
  ReadCount(problems, map.Find("workers"), kMaxWorkers, knn.workers);
  ReadCount(problems, map.Find("vectors"), compute::kMaxVectors, knn.vectors);
  ReadCount(problems, map.Find("dimensions"), compute::kMaxDimensions, knn.dimensions);
  ReadCount(problems, map.Find("neighbours"), compute::kMaxNeighbours, knn.neighbours);
  if (knn.neighbours > knn.vectors)
    problems.Add(field.line, field.path + ".neighbours",
                 fmt::format("expected at most as many as vectors, {}", knn.vectors));
  if (uint64_t{knn.vectors} * knn.dimensions > compute::kMaxKnnNumbers)
    problems.Add(field.line, field.path + ".vectors", "expected vectors of 8 GiB together at most");
}

}  // namespace spillway::lab
