// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/outline.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

// Two policies at six loads, eight rounds of 1.5 s: 96 slices, of two seconds with what lies between them.
ExperimentSpec Spec() {
  ExperimentSpec spec;
  spec.policies.resize(2);
  spec.load_pct = {40, 60, 70, 80, 90, 97};
  return spec;
}

TEST(Outline, SaysThatTheSearchComesFirstAndHowLongAllTakes) {
  EXPECT_EQ(
      Outline({Spec()}),
      "first the capacity under wrr is searched for (usually about 35 s), then 96 slices of 1.5 s: about "
      "4 min");
}

TEST(Outline, ThereIsNoSearchForACapacityThatIsStated) {
  ExperimentSpec spec = Spec();
  spec.capacity_rps = 1000;
  spec.load_pct = {80};
  EXPECT_EQ(Outline({spec}), "16 slices of 1.5 s: about 30 s");
}

TEST(Outline, FurtherLoadsMayOrMayNotBePlayed) {
  ExperimentSpec spec = Spec();
  spec.further = 6;
  spec.capacity_rps = 1000;
  EXPECT_EQ(Outline({spec}), "96 to 192 slices of 1.5 s: about 3 to 6 min");
}

TEST(Outline, OfSeveralExperimentsItIsTheSum) {
  ExperimentSpec other = Spec();
  other.seconds = 1;
  EXPECT_EQ(
      Outline({Spec(), other}),
      "2 experiments in turn: first the capacity under wrr is searched for (usually about 65 s), then 192 "
      "slices: about 7 min");
}

TEST(Outline, SearchSlicesAreAsLongAsASlowRequestWants) {
  ExperimentSpec spec = Spec();
  spec.unloaded_ms = 45;
  EXPECT_NE(Outline({spec}).find("searched for (usually about 90 s)"), std::string::npos) << Outline({spec});
}

TEST(Outline, APredictionMeasuresUnitsFirst) {
  ExperimentSpec spec = Spec();
  spec.predict = true;
  EXPECT_EQ(
      Outline({spec}),
      "first what each kind of unit does alone is measured, then the capacity under wrr is searched for "
      "(usually about 35 s), then 96 slices of 1.5 s: about 4 min and the units' measurement");
}

}  // namespace
}  // namespace spillway::lab
