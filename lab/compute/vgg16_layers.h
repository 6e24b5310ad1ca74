// SPDX-License-Identifier: Apache-2.0
// The layers of VGG-16 (Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image
// Recognition, ICLR 2015, table 1, column D) and generated weights for them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spillway::compute {

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

}  // namespace spillway::compute
