// SPDX-License-Identifier: Apache-2.0
// The exact nearest neighbours of a generated query among generated vectors, by FAISS. Its result: the
// nearest one's number (upper 32 bits) and a checksum of all numbers and distances.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "computation.h"

namespace faiss {
struct IndexFlatL2;
}

namespace spillway::compute {

struct KnnSettings {
  std::uint32_t vectors = 100'000;
  std::uint32_t dimensions = 128;
  std::uint32_t neighbours = 10;  // at most `vectors`
};

inline constexpr std::uint32_t kMaxVectors = 100'000'000, kMaxDimensions = 4096, kMaxNeighbours = 1000;
inline constexpr std::uint64_t kMaxKnnNumbers = 1ull << 31;  // in all vectors: 8 GiB

class Knn : public Computation {
 public:
  // Generates the vectors. Errors: kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Knn>> Make(const KnnSettings& settings, std::uint64_t seed);
  ~Knn() override;

  std::uint64_t Answer(std::size_t worker, std::uint32_t question, std::uint32_t cost_milli,
                       const std::stop_token& stop) override;

  struct Neighbour {
    std::int64_t number;  // of the vector
    float distance;       // Euclidean, squared
  };
  // Nearest first. Thread-safe.
  [[nodiscard]] std::vector<Neighbour> Nearest(std::uint32_t question) const;

  [[nodiscard]] std::vector<float> Vector(std::uint32_t number) const;
  [[nodiscard]] std::vector<float> Query(std::uint32_t question) const;

 private:
  Knn(const KnnSettings& settings, std::uint64_t seed);

  const KnnSettings settings_;
  const std::uint64_t seed_;
  const std::unique_ptr<faiss::IndexFlatL2> index_;
};

}  // namespace spillway::compute
