// SPDX-License-Identifier: Apache-2.0
#include "lab/compute/knn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace spillway::compute {
namespace {

std::unique_ptr<Knn> Make(const KnnSettings& settings, std::uint64_t seed) {
  auto knn = Knn::Make(settings, seed);
  EXPECT_TRUE(knn) << knn.error().message;
  return std::move(*knn);
}

// Every distance, in double, sorted.
std::vector<std::pair<double, std::int64_t>> AllByDistance(const Knn& knn, const KnnSettings& settings,
                                                           std::uint32_t question) {
  const std::vector<float> query = knn.Query(question);
  std::vector<std::pair<double, std::int64_t>> all;
  for (std::uint32_t i = 0; i < settings.vectors; ++i) {
    const std::vector<float> vector = knn.Vector(i);
    double distance = 0;
    for (std::size_t d = 0; d < query.size(); ++d) {
      const double gap = double{query[d]} - vector[d];
      distance += gap * gap;
    }
    all.emplace_back(distance, i);
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Knn, FindsWhatLookingAtAllFinds) {
  for (const KnnSettings& settings :
       {KnnSettings{3000, 17, 10}, KnnSettings{500, 64, 150}, KnnSettings{7, 1, 7}}) {
    const auto knn = Make(settings, 3);
    for (std::uint32_t question = 0; question < 20; ++question) {
      const auto expected = AllByDistance(*knn, settings, question);
      const auto found = knn->Nearest(question);
      ASSERT_EQ(found.size(), settings.neighbours);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].number, expected[i].second) << "question " << question << ", place " << i;
        EXPECT_NEAR(found[i].distance, expected[i].first, 1e-4 * expected[i].first + 1e-6);
      }
    }
  }
}

TEST(Knn, TheSameSeedAndQuestionGiveTheSameResult) {
  const KnnSettings settings{1000, 16, 5};
  const auto a = Make(settings, 1), b = Make(settings, 1), other = Make(settings, 2);
  const std::uint64_t result = a->Answer(0, 8, 1000, {});
  EXPECT_EQ(b->Answer(4, 8, 1000, {}), result);
  EXPECT_EQ(result >> 32, static_cast<std::uint64_t>(a->Nearest(8)[0].number));
  EXPECT_NE(a->Answer(0, 9, 1000, {}), result);
  EXPECT_NE(other->Answer(0, 8, 1000, {}), result);
}

TEST(Knn, TheResultDependsOnEveryNeighbour) {
  const auto five = Make({1000, 16, 5}, 1), six = Make({1000, 16, 6}, 1);
  EXPECT_EQ(five->Answer(0, 8, 1000, {}) >> 32, six->Answer(0, 8, 1000, {}) >> 32);
  EXPECT_NE(five->Answer(0, 8, 1000, {}), six->Answer(0, 8, 1000, {}));
}

TEST(Knn, EndsEarlyWhenToldTo) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Make({10, 2, 1}, 1)->Answer(0, 1, 4'000'000'000, stop.get_token()), 0u);
}

}  // namespace
}  // namespace spillway::compute
