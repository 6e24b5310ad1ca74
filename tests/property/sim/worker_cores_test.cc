// SPDX-License-Identifier: Apache-2.0
// Worker cores against closed forms of queueing theory, and what must hold between front ends.
#include "sim/worker_cores.h"

#include <gtest/gtest.h>

#include <cmath>

namespace spillway::sim {
namespace {

CoreSetup Make(CoreFrontEnd front_end, uint32_t cores, double load, double scv) {
  CoreSetup setup;
  setup.front_end = front_end;
  setup.cores = cores;
  setup.load = load;
  setup.service.scv = scv;
  setup.requests = 1'000'000;
  return setup;
}

// M/G/1: Pollaczek and Khinchine.
TEST(WorkerCores, EachCoreBehindAHashIsAnMG1) {
  for (double scv : {0.0, 1.0, 4.0}) {
    const CoreSetup setup = Make(CoreFrontEnd::kRss, 4, 0.7, scv);
    const double expected = 10 * (1 + 0.7 / 0.3 * (1 + scv) / 2);
    EXPECT_NEAR(SimulateCores(setup).mean_us, expected, expected * 0.05) << "scv " << scv;
  }
}

// M/D/1 and one core: the front ends are the same.
TEST(WorkerCores, OfOneCoreAllFrontEndsAreEqual) {
  const double rss = SimulateCores(Make(CoreFrontEnd::kRss, 1, 0.8, 2)).p99_us;
  for (CoreFrontEnd front_end : {CoreFrontEnd::kSteal, CoreFrontEnd::kDispatch, CoreFrontEnd::kIdeal})
    EXPECT_NEAR(SimulateCores(Make(front_end, 1, 0.8, 2)).p99_us, rss, 1e-6) << ToString(front_end);
}

// Without costs a work-conserving front end is the same queue, served in another order: the mean is that of
// one queue where service is constant.
TEST(WorkerCores, StealingForFreeKeepsAllCoresBusyLikeOneQueue) {
  const double ideal = SimulateCores(Make(CoreFrontEnd::kIdeal, 8, 0.9, 0)).mean_us;
  EXPECT_NEAR(SimulateCores(Make(CoreFrontEnd::kSteal, 8, 0.9, 0)).mean_us, ideal, ideal * 0.01);
}

TEST(WorkerCores, DispatchWithoutCostIsIdealAndWithCostIsWorse) {
  CoreSetup setup = Make(CoreFrontEnd::kDispatch, 8, 0.8, 4);
  EXPECT_EQ(SimulateCores(setup).p99_us, SimulateCores(Make(CoreFrontEnd::kIdeal, 8, 0.8, 4)).p99_us);
  setup.costs.dispatch_us = 0.5;
  EXPECT_GT(SimulateCores(setup).p99_us, SimulateCores(Make(CoreFrontEnd::kIdeal, 8, 0.8, 4)).p99_us);
}

TEST(WorkerCores, OneQueueSustainsMoreThanAHashAtAnyVariance) {
  for (double scv : {0.0, 1.0, 4.0, 16.0}) {
    CoreSetup setup = Make(CoreFrontEnd::kRss, 16, 0, scv);
    setup.requests = 100'000;
    const double rss = SustainedLoad(setup, 10);
    setup.front_end = CoreFrontEnd::kIdeal;
    EXPECT_GT(rss, 0) << "scv " << scv;
    EXPECT_GT(SustainedLoad(setup, 10), rss * 1.1) << "scv " << scv;
  }
}

TEST(WorkerCores, ACostlyDispatchLosesToAHash) {
  CoreSetup setup = Make(CoreFrontEnd::kRss, 8, 0, 0);
  setup.requests = 100'000;
  const double rss = SustainedLoad(setup, 10);
  setup.front_end = CoreFrontEnd::kDispatch;
  setup.costs.dispatch_us = setup.service.mean_us / 2;
  EXPECT_LT(SustainedLoad(setup, 10), rss);
}

TEST(WorkerCores, AMixOfScansKeepsItsMean) {
  CoreSetup setup = Make(CoreFrontEnd::kIdeal, 64, 0.01, 0);
  setup.service.scan_share = 0.05;
  EXPECT_NEAR(SimulateCores(setup).mean_us, 10, 0.6) << "at no load, latency is service";
}

}  // namespace
}  // namespace spillway::sim
