// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/executor_offer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "broker_bed.h"

namespace spillway::gateway {
namespace {

TEST(ExecutorOffer, SaysOfASliceWhatMemoryItsInputsAreDeliveredTo) {
  KeyedOffer keyed{SmallOffer("one", 2), {1, 2}};
  keyed.offer.slices[1].memory = "pinned-host";
  nlohmann::json hello = ToJson(keyed);
  const auto read = ParseOffer(hello);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->offer.slices[0].memory, "host");
  EXPECT_EQ(read->offer.slices[1].memory, "pinned-host");

  hello["slices"][1].erase("memory");  // an executor that does not say
  EXPECT_EQ(ParseOffer(hello)->offer.slices[1].memory, "host");

  hello["slices"][1]["memory"] = 7;
  const auto wrong = ParseOffer(hello);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "expected of a slice's memory its kind, such as host or pinned-host");
}

TEST(ExecutorOffer, SaysThatItsEnginesAreNotMadeYet) {
  KeyedOffer keyed{SmallOffer("one", 1), {1}};
  EXPECT_FALSE(ParseOffer(ToJson(keyed))->offer.is_starting);
  keyed.offer.is_starting = true;
  nlohmann::json hello = ToJson(keyed);
  EXPECT_TRUE(ParseOffer(hello)->offer.is_starting);
  hello["starting"] = "soon";
  EXPECT_EQ(ParseOffer(hello).error().message, "starting: expected true or false");
}

}  // namespace
}  // namespace spillway::gateway
