// SPDX-License-Identifier: Apache-2.0
#include "lab/kvs/ordered_store.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

TEST(OrderedStore, GetsWhatWasPut) {
  OrderedStore store(10);
  EXPECT_EQ(store.Get(3), 3u);
  EXPECT_TRUE(store.Put(3, 30));
  EXPECT_TRUE(store.Put(100, 7));
  EXPECT_EQ(store.Get(3), 30u);
  EXPECT_EQ(store.Get(100), 7u);
  EXPECT_FALSE(store.Get(11).has_value());
}

TEST(OrderedStore, ScansInTheOrderOfKeysAndStopsAtTheEnd) {
  OrderedStore store(10);
  ASSERT_TRUE(store.Put(50, 1000));
  EXPECT_EQ(store.Scan(2, 3), 2u + 3 + 4);
  EXPECT_EQ(store.Scan(9, 5), 9u + 1000);
  EXPECT_EQ(store.Scan(51, 5), 0u);
}

TEST(OrderedStore, HasRoomForTwiceTheKeysItBeganWith) {
  OrderedStore store(2);
  EXPECT_TRUE(store.Put(10, 1));
  EXPECT_TRUE(store.Put(11, 1));
  EXPECT_FALSE(store.Put(12, 1));
  EXPECT_FALSE(store.Get(12).has_value());
  EXPECT_TRUE(store.Put(10, 2)) << "it is there already";
  EXPECT_EQ(store.Get(10), 2u);
}

}  // namespace
}  // namespace spillway::lab
