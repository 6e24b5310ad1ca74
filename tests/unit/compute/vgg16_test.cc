// SPDX-License-Identifier: Apache-2.0
#include "lab/compute/vgg16.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace spillway::compute {
namespace {

using Kind = Vgg16Layer::Kind;

TEST(Vgg16Layers, AreThoseOfThePaper) {
  const auto layers = Vgg16Layers(224);
  std::vector<std::int64_t> convolutions, dense, sides;
  std::int64_t parameters = 0;
  double flop = 0;
  for (const Vgg16Layer& layer : layers) {
    if (layer.kind == Kind::kConvolution) convolutions.push_back(layer.out);
    if (layer.kind == Kind::kDense) dense.push_back(layer.out);
    if (layer.kind == Kind::kPooling) sides.push_back(layer.side);
    parameters += layer.weights() + layer.biases();
    flop += layer.flop();
  }
  EXPECT_THAT(convolutions,
              testing::ElementsAre(64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512));
  EXPECT_THAT(dense, testing::ElementsAre(4096, 4096, 1000));
  EXPECT_THAT(sides, testing::ElementsAre(224, 112, 56, 28, 14));
  EXPECT_EQ(parameters, 138'357'544);
  EXPECT_NEAR(flop, 30.9e9, 0.1e9);  // 15.5 thousand million pairs of a multiplication and an addition
}

TEST(Vgg16Layers, EachTakesWhatTheOneBeforeGives) {
  for (std::int64_t size : {32, 64, 224}) {
    std::int64_t numbers = 3 * size * size;
    for (const Vgg16Layer& layer : Vgg16Layers(size)) {
      EXPECT_EQ(layer.in * layer.side * layer.side, numbers);
      const std::int64_t side = layer.kind == Kind::kConvolution ? layer.side
                                : layer.kind == Kind::kPooling   ? layer.side / 2
                                                                 : 1;
      numbers = layer.out * side * side;
    }
    EXPECT_EQ(numbers, kVgg16Classes);
  }
}

// The network told in plain loops: images are channels x height x width.
class PlainVgg16 {
 public:
  PlainVgg16(std::int64_t size, std::uint64_t seed) : size_(size), seed_(seed) {}

  std::vector<float> Logits(std::uint32_t question) const {
    std::vector<float> values(static_cast<std::size_t>(3 * size_ * size_));
    FillVgg16Image(values, question, seed_);
    const auto layers = Vgg16Layers(size_);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::vector<float> weights(static_cast<std::size_t>(layers[i].weights()));
      std::vector<float> biases(static_cast<std::size_t>(layers[i].biases()));
      if (!weights.empty()) FillVgg16Weights(weights, layers[i], i, seed_);
      FillVgg16Biases(biases, i, seed_);
      values = layers[i].kind == Kind::kPooling       ? Pool(layers[i], values)
               : layers[i].kind == Kind::kConvolution ? Convolve(layers[i], values, weights, biases)
                                                      : Multiply(layers[i], values, weights, biases);
      if (layers[i].relu)
        for (float& value : values) value = std::max(value, 0.0f);
    }
    return values;
  }

 private:
  using Values = std::vector<float>;

  static Values Pool(const Vgg16Layer& layer, const Values& from) {
    const auto side = static_cast<std::size_t>(layer.side), half = side / 2;
    Values to;
    for (std::size_t c = 0; c < static_cast<std::size_t>(layer.out); ++c)
      for (std::size_t y = 0; y < half; ++y)
        for (std::size_t x = 0; x < half; ++x) {
          const float* at = &from[(c * side + 2 * y) * side + 2 * x];
          to.push_back(std::max({at[0], at[1], at[side], at[side + 1]}));
        }
    return to;
  }

  static Values Convolve(const Vgg16Layer& layer, const Values& from, const Values& weights,
                         const Values& biases) {
    const std::int64_t side = layer.side;
    Values to(static_cast<std::size_t>(layer.out * side * side));
    for (std::int64_t o = 0; o < layer.out; ++o) {
      float* plane = &to[static_cast<std::size_t>(o * side * side)];
      std::fill(plane, plane + side * side, biases[static_cast<std::size_t>(o)]);
      for (std::int64_t i = 0; i < layer.in; ++i)
        for (std::int64_t dy = -1; dy <= 1; ++dy)
          for (std::int64_t dx = -1; dx <= 1; ++dx) {
            const float w = weights[static_cast<std::size_t>(((o * layer.in + i) * 3 + dy + 1) * 3 + dx + 1)];
            for (std::int64_t y = std::max<std::int64_t>(0, -dy); y < std::min(side, side - dy); ++y) {
              const float* row = &from[static_cast<std::size_t>((i * side + y + dy) * side)];
              for (std::int64_t x = std::max<std::int64_t>(0, -dx); x < std::min(side, side - dx); ++x)
                plane[y * side + x] += w * row[x + dx];
            }
          }
    }
    return to;
  }

  static Values Multiply(const Vgg16Layer& layer, const Values& from, const Values& weights,
                         const Values& biases) {
    Values to;
    for (std::size_t o = 0; o < static_cast<std::size_t>(layer.out); ++o) {
      float sum = biases[o];
      for (std::size_t i = 0; i < from.size(); ++i) sum += weights[o * from.size() + i] * from[i];
      to.push_back(sum);
    }
    return to;
  }

  std::int64_t size_;
  std::uint64_t seed_;
};

std::unique_ptr<Vgg16> Make(const Vgg16Settings& settings, std::size_t workers, std::uint64_t seed) {
  auto network = Vgg16::Make(settings, workers, seed);
  EXPECT_TRUE(network) << network.error().message;
  return std::move(*network);
}

TEST(Vgg16, GivesTheLogitsOfTheSameNetworkInPlainLoops) {
  const auto network = Make({32, Precision::kF32}, 1, 9);
  const std::vector<float> logits = network->Logits(0, 4), expected = PlainVgg16(32, 9).Logits(4);
  ASSERT_EQ(logits.size(), 1000u);
  float most = 0;
  for (float value : expected) most = std::max(most, std::abs(value));
  EXPECT_GT(most, 0.01f) << "a network that gives nothing would pass";
  // Sums of up to 4608 products in another order.
  for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4f * most) << i;
}

TEST(Vgg16, TheSameSeedAndQuestionGiveTheSameResultAtWhicheverWorker) {
  const auto a = Make({32, Precision::kF32}, 2, 1), other = Make({32, Precision::kF32}, 1, 2);
  const std::uint64_t result = a->Answer(0, 5, 1000, {});
  EXPECT_LT(result >> 32, 1000u);
  std::uint64_t elsewhere = 0;
  std::thread([&] { elsewhere = a->Answer(1, 5, 1000, {}); }).join();
  EXPECT_EQ(elsewhere, result);
  EXPECT_EQ(a->Answer(0, 5, 3000, {}), result);
  EXPECT_NE(a->Answer(0, 6, 1000, {}), result);
  EXPECT_NE(other->Answer(0, 5, 1000, {}), result);
}

TEST(Vgg16, WorkersDoNotDisturbEachOther) {
  const auto network = Make({32, Precision::kF32}, 2, 1);
  constexpr std::uint32_t kQuestions = 6;
  std::vector<std::uint64_t> alone, results[2];
  for (std::uint32_t question = 0; question < kQuestions; ++question)
    alone.push_back(network->Answer(0, question, 1000, {}));
  {
    std::vector<std::jthread> threads;
    for (std::size_t worker : {0, 1})
      threads.emplace_back([&, worker] {
        for (std::uint32_t question = 0; question < kQuestions; ++question)
          results[worker].push_back(network->Answer(worker, question, 1000, {}));
      });
  }
  EXPECT_EQ(results[0], alone);
  EXPECT_EQ(results[1], alone);
}

TEST(Vgg16, Bf16ComesCloseOrIsRefusedWhereTheCpuLacksIt) {
  auto network = Vgg16::Make({32, Precision::kBf16}, 1, 9);
  if (!network) {
    EXPECT_EQ(network.error().code, ErrorCode::kUnavailable);
    GTEST_SKIP() << network.error().message;
  }
  const std::vector<float> logits = (*network)->Logits(0, 4),
                           exact = Make({32, Precision::kF32}, 1, 9)->Logits(0, 4);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference += std::pow(double{logits[i]} - exact[i], 2);
    size += std::pow(double{exact[i]}, 2);
  }
  // 8 bits of precision: 0.4 % a rounding, two of them a layer, 16 layers in a random walk: some 2 %.
  EXPECT_LT(std::sqrt(difference / size), 0.1);
  EXPECT_GT(difference, 0);
}

TEST(Vgg16, EndsEarlyWhenToldTo) {
  const auto network = Make({32, Precision::kF32}, 1, 1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(network->Answer(0, 1, 4'000'000'000, stop.get_token()), 0u);
}

}  // namespace
}  // namespace spillway::compute
