// SPDX-License-Identifier: Apache-2.0
// A network of VGG-16's shape, by oneDNN: weights generated from a seed, one generated image a request.
// Its result: the index of the highest logit (upper 32 bits) and a checksum of all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "computation.h"

namespace spillway::compute {

// The layers of VGG-16 (Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image
// Recognition, ICLR 2015, table 1, column D) and generated weights for them. Pure.
struct Vgg16Layer {
  enum class Kind {
    kConvolution,  // 3x3, padded so that the side stays, then ReLU
    kPooling,      // the maximum of each 2x2
    kDense,        // fully connected; then ReLU, but for the last
  };
  Kind kind;
  std::int64_t in, out;  // channels, or numbers of a dense layer that follows a dense one
  std::int64_t side;     // of the input image; 1: of a dense layer that follows a dense one
  bool relu;

  [[nodiscard]] std::int64_t weights() const;  // out x in x height x width, in this order; 0 of kPooling
  [[nodiscard]] std::int64_t biases() const { return kind == Kind::kPooling ? 0 : out; }
  // Multiplications and additions, biases aside.
  [[nodiscard]] double flop() const;
};

inline constexpr std::int64_t kVgg16Classes = 1000;

// `size`: side of the image, a multiple of 32 (five poolings); 224 is the paper's.
[[nodiscard]] std::vector<Vgg16Layer> Vgg16Layers(std::int64_t size);

// Of layer number `layer`, uniform, with the spread that keeps values of one size through ReLUs (He et
// al., ICCV 2015).
void FillVgg16Weights(std::span<float> to, const Vgg16Layer& shape, std::size_t layer, std::uint64_t seed);
void FillVgg16Biases(std::span<float> to, std::size_t layer, std::uint64_t seed);
// Channels x height x width.
void FillVgg16Image(std::span<float> to, std::uint32_t question, std::uint64_t seed);

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
