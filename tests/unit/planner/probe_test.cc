// SPDX-License-Identifier: Apache-2.0
// Kernels that check their own answers, and the entry that a probe writes. No figure is asserted that a
// busy machine could change.
#include "planner/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planner/cluster_model.h"
#include "planner/probe/loopback.h"
#include "planner/probe/probe_entry.h"
#include "text.h"

namespace spillway::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ProbeKernels, DoTheirWorkAndVerifyIt) {
  for (const KernelKind& kind : KernelKinds()) {
    if (kind.name == "loopback") continue;
    const auto kernel = MakeKernel(kind.name, 0.01, 1);
    ASSERT_NE(kernel, nullptr) << kind.name;
    for (int pass = 0; pass < 3; pass++) {
      EXPECT_GT(kernel->Pass(), 0) << kind.name;
      EXPECT_TRUE(kernel->Verify()) << kind.name;
    }
  }
  EXPECT_EQ(MakeKernel("sort", 1, 1), nullptr);
}

TEST(ProbeKernels, QuerySixIsNotTrueBeforeItRan) {
  EXPECT_FALSE(MakeKernel("q6", 0.01, 1)->Verify()) << "Verify must not hold of anything";
}

TEST(ProbeKernels, LoopbackMovesItsBytes) {
  auto kernel = MakeLoopback();
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_NEAR((*kernel)->Pass(), 0.016, 0.001);
  EXPECT_TRUE((*kernel)->Verify());
}

TEST(Probe, CountsOfBusyCoresBeginWithOneAndEndWithAll) {
  EXPECT_THAT(BusyCounts(1, false), ElementsAre(1));
  EXPECT_THAT(BusyCounts(2, true), ElementsAre(1, 2));
  EXPECT_THAT(BusyCounts(2, false), ElementsAre(1, 2));
  EXPECT_THAT(BusyCounts(12, false), ElementsAre(1, 2, 4, 8, 12));
  EXPECT_THAT(BusyCounts(12, true), ElementsAre(1, 6, 12));
}

TEST(Probe, DataStayWithinAQuarterOfTheMemory) {
  EXPECT_EQ(ScaleThatFits(1, 2, 64), 1);
  const double scale = ScaleThatFits(6, 224, 16);
  EXPECT_LT(scale, 6);
  EXPECT_NEAR(static_cast<double>(BytesPerKernel(scale)) * 224, 4.0 * 1024 * 1024 * 1024, 1e7);
}

TEST(Probe, EveryKernelIsMeasuredAtEveryCount) {
  ProbeSetup setup;
  setup.cpus = {UsableCpus()[0]};
  setup.busy = {1};
  setup.duration = std::chrono::milliseconds(1);
  setup.rounds = 1;
  setup.scale = 0.01;
  double last = 0;
  const auto points = Probe(setup, [&](double share, const std::string&) { last = share; }, {});
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), KernelKinds().size());
  for (const ProbePoint& point : *points) EXPECT_GT(point.per_core, 0) << point.kernel;
  EXPECT_EQ(last, 1);
}

TEST(Probe, StopsWhenTold) {
  ProbeSetup setup;
  setup.cpus = {UsableCpus()[0]};
  setup.busy = {1};
  setup.scale = 0.01;
  EXPECT_FALSE(Probe(setup, {}, [] { return true; }));
}

// Half the speed on every kernel with both cores busy.
std::vector<ProbePoint> HalvedPoints() {
  std::vector<ProbePoint> points;
  for (const KernelKind& kind : KernelKinds()) {
    points.push_back({kind.name, 1, 10, 9, 11});
    points.push_back({kind.name, 2, 5, 4, 6});
  }
  return points;
}

TEST(ProbeEntry, IsAWholeCatalogueNode) {
  ProbedMachine machine;
  machine.name = "bench-1";
  machine.cores = 2;
  machine.memory_gb = 8;
  const Node entry = EntryOf(HalvedPoints(), machine, ShippedCatalogue());
  EXPECT_EQ(entry.throughput.at("q1"), 10) << "2 cores x 5";
  EXPECT_DOUBLE_EQ(entry.contention.at("q1").Drop(), 0.5);
  EXPECT_DOUBLE_EQ(entry.dram.GbPerS(), 10) << "triad, all cores";
  // 2 of 16 cores, each of E2000's speed by itself, 0.5 kept where E2000 keeps 0.83.
  EXPECT_NEAR(entry.throughput.at("ipu-e2000"), 2.0 / 16 * 0.5 / 0.83, 1e-12);
  EXPECT_THAT(entry.sources.at("price_usd"), HasSubstr("assumed"));
  EXPECT_THAT(entry.sources.at("throughput"), HasSubstr("assumed"));
}

TEST(ProbeEntry, TheDocumentLoadsAsACatalogue) {
  ProbedMachine machine;
  machine.cores = 2;
  machine.memory_gb = 8;
  machine.price_usd = 1234;
  const Node entry = EntryOf(HalvedPoints(), machine, ShippedCatalogue());
  const auto read = ParseCatalogue(ProbeJson(HalvedPoints(), entry, 3).dump(2), "probe.json");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->nodes.size(), 1u);
  EXPECT_EQ(read->nodes[0], entry) << "nothing is lost on the way";
  EXPECT_EQ(read->nodes[0].price_usd, 1234);
}

TEST(ProbeEntry, APlanUsesMeasuredContention) {
  ProbedMachine machine;
  machine.name = "halved";
  machine.cores = 2;
  machine.memory_gb = 64;
  const Node halved = EntryOf(HalvedPoints(), machine, ShippedCatalogue());
  auto points = HalvedPoints();
  for (ProbePoint& point : points) point.per_core = 10;
  machine.name = "unhindered";
  const Node unhindered = EntryOf(points, machine, ShippedCatalogue());
  Catalogue more;
  more.nodes = {halved, unhindered};
  const auto input = ParseWorkload(
      With(With(kWorkload, "node: n2d-milan", "node: halved"), "{ipu-e2000: 1}", "{hash-join: 0.5, q1: 0.5}"),
      "w.yaml", {more});
  ASSERT_TRUE(input) << input.error().message;
  const ClusterModel model(*input);
  for (size_t n = 0; n < input->catalogue.nodes.size(); n++)
    EXPECT_TRUE(input->catalogue.nodes[n].name != "unhindered" || std::abs(model.Speed(n) - 2) < 1e-12);
}

}  // namespace
}  // namespace spillway::planner
