// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/bed_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace spillway::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(BedList, SaysWhatAllBedsHaveInCommonOnce) {
  EXPECT_EQ(BedsText({{"a", "one unit", "wrr,jsq", "40,60"}, {"b", "two units", "wrr,jsq", "40,60"}}),
            "BED  DESCRIPTION\n"
            "---  -----------\n"
            "a    one unit\n"
            "b    two units\n"
            "\n"
            "All: policies wrr,jsq; loads 40,60 % of the capacity.\n");
}

TEST(BedList, ShowsPoliciesAndLoadsOfEachWhereTheyDiffer) {
  const std::string text = BedsText({{"a", "one unit", "wrr", "40,60"}, {"b", "two units", "wrr", "80"}});
  EXPECT_THAT(text, HasSubstr("two units    wrr       80"));
  EXPECT_THAT(text, Not(HasSubstr("All:")));
}

TEST(BedList, EveryBedThatComesWithSpillwaySaysWhatItIs) {
  const auto beds = ListBeds(SPILLWAY_LAB_EXAMPLES);
  ASSERT_TRUE(beds) << beds.error().message;
  EXPECT_GE(beds->size(), 16u);
  std::set<std::string> descriptions;
  for (const ListedBed& bed : *beds) {
    EXPECT_NE(bed.description, "") << bed.name;
    EXPECT_LE(bed.name.size() + bed.description.size(), 110u) << bed.name << ": a terminal's line";
    EXPECT_TRUE(descriptions.insert(bed.description).second) << bed.name;
  }
  const auto row = BedTable(*beds).JsonRows().front();
  for (const char* key : {"name", "description", "policies", "loads"}) EXPECT_TRUE(row.contains(key)) << key;
}

TEST(BedList, AFolderWithoutBedsIsToldAsSuch) {
  const auto beds = ListBeds("/nowhere");
  ASSERT_FALSE(beds);
  EXPECT_EQ(beds.error().message, "/nowhere/beds has no lab files");
}

}  // namespace
}  // namespace spillway::lab
