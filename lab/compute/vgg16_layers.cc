// SPDX-License-Identifier: Apache-2.0
#include "vgg16_layers.h"

#include <cmath>

#include "noise.h"

namespace spillway::compute {

namespace {

using Kind = Vgg16Layer::Kind;

// One stream of noise for each use: two for each layer, one for each image.
std::uint64_t Stream(std::uint64_t seed, std::uint64_t use) { return Noise(seed, use); }
constexpr std::uint64_t kImages = 1 << 16;

}  // namespace

std::int64_t Vgg16Layer::weights() const {
  if (kind == Kind::kPooling) return 0;
  return kind == Kind::kConvolution ? out * in * 9 : out * in * side * side;
}

double Vgg16Layer::flop() const {
  return 2 * static_cast<double>(weights()) *
         (kind == Kind::kConvolution ? static_cast<double>(side * side) : 1.0);
}

std::vector<Vgg16Layer> Vgg16Layers(std::int64_t size) {
  static constexpr struct {
    int convolutions;
    std::int64_t channels;
  } kBlocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  std::vector<Vgg16Layer> layers;
  std::int64_t channels = 3, side = size;
  for (const auto& block : kBlocks) {
    for (int i = 0; i < block.convolutions; ++i) {
      layers.push_back({Kind::kConvolution, channels, block.channels, side, true});
      channels = block.channels;
    }
    layers.push_back({Kind::kPooling, channels, channels, side, false});
    side /= 2;
  }
  layers.push_back({Kind::kDense, channels, 4096, side, true});
  layers.push_back({Kind::kDense, 4096, 4096, 1, true});
  layers.push_back({Kind::kDense, 4096, kVgg16Classes, 1, false});
  return layers;
}

void FillVgg16Weights(std::span<float> to, const Vgg16Layer& shape, std::size_t layer, std::uint64_t seed) {
  const double inputs = static_cast<double>(shape.weights() / shape.out);  // of each output
  FillWithNoise(to, Stream(seed, 2 * layer), static_cast<float>(std::sqrt(6 / inputs)));
}

void FillVgg16Biases(std::span<float> to, std::size_t layer, std::uint64_t seed) {
  FillWithNoise(to, Stream(seed, 2 * layer + 1), 0.1f);
}

void FillVgg16Image(std::span<float> to, std::uint32_t question, std::uint64_t seed) {
  FillWithNoise(to, Stream(seed, kImages + question), 1);
}

}  // namespace spillway::compute
