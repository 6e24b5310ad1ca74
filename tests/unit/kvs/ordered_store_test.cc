// SPDX-License-Identifier: Apache-2.0
#include "lab/kvs/ordered_store.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

TEST(OrderedStore, GetsWhatWasPut) {
  OrderedStore store(10);
  EXPECT_EQ(store.Get(3), 3u);
  store.Put(3, 30);
  store.Put(100, 7);
  EXPECT_EQ(store.Get(3), 30u);
  EXPECT_EQ(store.Get(100), 7u);
  EXPECT_FALSE(store.Get(11).has_value());
}

TEST(OrderedStore, ScansInTheOrderOfKeysAndStopsAtTheEnd) {
  OrderedStore store(10);
  store.Put(50, 1000);
  EXPECT_EQ(store.Scan(2, 3), 2u + 3 + 4);
  EXPECT_EQ(store.Scan(9, 5), 9u + 1000);
  EXPECT_EQ(store.Scan(51, 5), 0u);
}

}  // namespace
}  // namespace spillway::lab
