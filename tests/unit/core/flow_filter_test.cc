// SPDX-License-Identifier: Apache-2.0
#include "core/flow_filter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace spillway {
namespace {

TEST(FlowFilter, HoldsWhatEitherSideHolds) {
  spw_filter_word word{};
  EXPECT_FALSE(spw_filter_may_hold(&word, 0x1234));
  spw_filter_add(&word, 0x1234);
  EXPECT_TRUE(spw_filter_may_hold(&word, 0x1234));
  EXPECT_FALSE(spw_filter_may_hold(&word, 0x1235));
  for (int side : {0, 1}) {
    spw_filter_word one = word;
    one.side[side] = 0;
    EXPECT_TRUE(spw_filter_may_hold(&one, 0x1234)) << "the other side of " << side;
  }
}

TEST(FlowFilter, HasABitForEachFourEntriesOfTheTable) {
  EXPECT_EQ(spw_filter_words(2u << 20) * 64u, (16u << 20) / 4) << "16 M entries";
  EXPECT_EQ(spw_filter_words(1), 64u);
}

// A flow for each twenty bits: a tenth of the bits is set, a hundredth of the other flows meets two.
TEST(FlowFilter, FewFlowsAreLookedUpForNothing) {
  constexpr uint32_t kWords = 1024, kFlows = kWords * 64 / 20;
  std::vector<spw_filter_word> filter(kWords);
  std::mt19937 random(80);
  auto word = [&](uint32_t tag) { return &filter[spw_filter_index(tag, kWords - 1)]; };
  for (uint32_t i = 0; i < kFlows; i++) {
    const auto tag = static_cast<uint32_t>(random());
    spw_filter_add(word(tag), tag);
  }
  int for_nothing = 0;
  for (int i = 0; i < 100'000; i++) {
    const auto tag = static_cast<uint32_t>(random());
    for_nothing += spw_filter_may_hold(word(tag), tag);
  }
  EXPECT_GT(for_nothing, 0);
  EXPECT_LT(for_nothing, 2'000);
}

}  // namespace
}  // namespace spillway
