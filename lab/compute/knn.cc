// SPDX-License-Identifier: Apache-2.0
#include "knn.h"

#include <faiss/IndexFlat.h>
#include <fmt/format.h>

#include <exception>

#include "computation.h"

// Of GCC's OpenMP runtime, which FAISS runs on; its header is not on other compilers' paths.
extern "C" void omp_set_num_threads(int) noexcept;

namespace spillway::compute {

namespace {

// Streams of noise: vectors have the even ones, queries the odd.
std::vector<float> Generate(std::uint64_t seed, std::uint64_t stream, std::uint32_t dimensions) {
  std::vector<float> values(dimensions);
  FillWithNoise(values, Noise(seed, stream), 1);
  return values;
}

}  // namespace

Knn::Knn(const KnnSettings& settings, std::uint64_t seed)
    : settings_(settings),
      seed_(seed),
      index_(std::make_unique<faiss::IndexFlatL2>(static_cast<faiss::Index::idx_t>(settings.dimensions))) {
  // At once: growing it would copy it over and over.
  index_->codes.reserve(std::size_t{settings.vectors} * settings.dimensions * sizeof(float));
  for (std::uint32_t i = 0; i < settings.vectors; ++i) index_->add(1, Vector(i).data());
}

Knn::~Knn() = default;

Result<std::unique_ptr<Knn>> Knn::Make(const KnnSettings& settings, std::uint64_t seed) {
  try {
    return std::unique_ptr<Knn>(new Knn(settings, seed));
  } catch (const std::exception& error) {  // FAISS's, and too little memory
    return Fail(ErrorCode::kSystem, fmt::format("knn: {} vectors of {} dimensions: {}", settings.vectors,
                                                settings.dimensions, error.what()));
  }
}

std::vector<float> Knn::Vector(std::uint32_t number) const {
  return Generate(seed_, 2 * std::uint64_t{number}, settings_.dimensions);
}

std::vector<float> Knn::Query(std::uint32_t question) const {
  return Generate(seed_, 2 * std::uint64_t{question} + 1, settings_.dimensions);
}

std::vector<Knn::Neighbour> Knn::Nearest(std::uint32_t question) const {
  ::omp_set_num_threads(1);  // of this thread
  std::vector<float> distances(settings_.neighbours);
  std::vector<faiss::Index::idx_t> numbers(settings_.neighbours);
  index_->search(1, Query(question).data(), settings_.neighbours, distances.data(), numbers.data());
  std::vector<Neighbour> found;
  for (std::size_t i = 0; i < numbers.size(); ++i) found.push_back({numbers[i], distances[i]});
  return found;
}

std::uint64_t Knn::Answer(std::size_t, std::uint32_t question, std::uint32_t cost_milli,
                          const std::stop_token& stop) {
  std::vector<Neighbour> found;
  for (std::uint32_t left = Repetitions(cost_milli); left > 0 && !stop.stop_requested(); --left)
    found = Nearest(question);
  if (found.empty()) return 0;
  std::uint32_t sum = Checksum(std::span<const float>());
  for (const Neighbour& neighbour : found) {
    sum = Checksum(std::span(&neighbour.number, 1), sum);
    sum = Checksum(std::span(&neighbour.distance, 1), sum);
  }
  return static_cast<std::uint64_t>(found.front().number) << 32 | sum;
}

}  // namespace spillway::compute
