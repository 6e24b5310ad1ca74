// SPDX-License-Identifier: Apache-2.0
// A network of VGG-16's shape, by oneDNN: weights generated from a seed, one generated image a request.
// Its result: the index of the highest logit (upper 32 bits) and a checksum of all.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "computation.h"

namespace spillway::compute {

enum class Precision { kF32, kBf16 };

struct Vgg16Settings {
  std::int64_t size = 224;  // side of the image: a multiple of 32 up to kMaxVgg16Size
  Precision precision = Precision::kF32;
};

inline constexpr std::int64_t kMaxVgg16Size = 512;

class Vgg16 : public Computation {
 public:
  // Generates the weights: some seconds at size 224. Errors: kUnavailable where the CPU lacks the
  // precision, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Vgg16>> Make(const Vgg16Settings& settings, std::size_t workers,
                                                           std::uint64_t seed);
  ~Vgg16() override;

  std::uint64_t Answer(std::size_t worker, std::uint32_t question, std::uint32_t cost_milli,
                       const std::stop_token& stop) override;
  // kVgg16Classes of them, for the image of this question. Empty: stopped.
  [[nodiscard]] std::vector<float> Logits(std::size_t worker, std::uint32_t question,
                                          const std::stop_token& stop = {});

 private:
  class Network;  // oneDNN's headers stay in vgg16.cc
  explicit Vgg16(std::unique_ptr<Network> network);
  const std::unique_ptr<Network> network_;
};

}  // namespace spillway::compute
