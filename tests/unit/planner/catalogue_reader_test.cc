// SPDX-License-Identifier: Apache-2.0
// What each key of a catalogue becomes, and what is refused. Lines of kCatalogue are numbered in text.h.
#include "planner/catalogue_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text.h"

namespace spillway::planner {
namespace {

using testing::HasSubstr;

TEST(CatalogueFile, EveryFigureIsRead) {
  const auto read = ParseCatalogue(kCatalogue, "c.yaml");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->nodes.size(), 1u);
  const Node& node = read->nodes[0];
  EXPECT_EQ(node.name, "box");
  EXPECT_EQ(node.platform, Platform::kServer);
  EXPECT_FALSE(node.Serves(NodeKind::kAccelerator));
  EXPECT_TRUE(node.Serves(NodeKind::kStorage));
  EXPECT_TRUE(node.Serves(NodeKind::kLiteCompute));
  EXPECT_DOUBLE_EQ(node.dram.GbPerS(), 80) << "2 x 5000 x 8 bytes";
  EXPECT_DOUBLE_EQ(node.DramGbPerSPerCore(), 8);
  EXPECT_DOUBLE_EQ(node.NetworkGbPerSPerCore(), 1.25);
  EXPECT_EQ(node.memory_gb, 64);
  EXPECT_EQ(node.device_slots, 2);
  EXPECT_EQ(node.price_usd, 4000);
  EXPECT_EQ(node.power_w, 300);
  EXPECT_EQ(node.throughput.at("work"), 4);
  EXPECT_EQ(node.sources.at("price_usd"), "invoice");
  ASSERT_EQ(read->devices.size(), 1u);
  EXPECT_EQ(read->devices[0].gb_per_s, 3);
  EXPECT_EQ(read->fabric.UsdPerPort(100, 1), 300);
  EXPECT_EQ(read->fabric.UsdPerPort(100, 4), 150) << "1 for the edge, 2 / 4 for the spine, per Gb/s";
}

TEST(CatalogueFile, ANodeOfNoKindIsAReference) {
  const auto read = ParseCatalogue(With(kCatalogue, "[storage, lite-compute]", "[]"), "c.yaml");
  ASSERT_TRUE(read) << read.error().message;
  for (NodeKind kind : kNodeKinds) EXPECT_FALSE(read->nodes[0].Serves(kind));
}

TEST(CatalogueFile, ALaterEntryReplacesOneOfItsName) {
  Catalogue into = ShippedCatalogue();
  const size_t before = into.nodes.size();
  Merge(into, *ParseCatalogue(With(kCatalogue, "name: box", "name: ipu-e2000"), "c.yaml"));
  EXPECT_EQ(into.nodes.size(), before);
  EXPECT_EQ(into.FindNode("ipu-e2000")->price_usd, 4000);
  EXPECT_EQ(into.fabric.edge_usd_per_gbps, 1);
  Merge(into, *ParseCatalogue("catalogue: {nodes: []}", "c.yaml"));
  EXPECT_EQ(into.fabric.edge_usd_per_gbps, 1) << "no fabric, no change";
}

TEST(CatalogueFile, TheShippedOneSaysWhereEveryFigureIsFrom) {
  for (const Node& node : ShippedCatalogue().nodes) EXPECT_FALSE(node.sources.empty()) << node.name;
  for (const Device& device : ShippedCatalogue().devices) EXPECT_FALSE(device.sources.empty()) << device.name;
  EXPECT_NE(ShippedCatalogue().FindNode("n2d-milan"), nullptr);
}

class BadCatalogue : public testing::TestWithParam<BadValue> {};

TEST_P(BadCatalogue, IsRefusedWithFileLineKeyAndExpectation) {
  const BadValue& bad = GetParam();
  EXPECT_THAT(CatalogueProblem(With(kCatalogue, bad.from, bad.to)), HasSubstr(bad.says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCatalogue,
    testing::Values(
        BadValue{"price_usd: 4000", "price_usd: -1",
                 "c.yaml:11: catalogue.nodes[box].price_usd: expected a number from 0 to"},
        BadValue{"      price_usd: 4000\n", "",
                 "c.yaml:3: catalogue.nodes[box].price_usd: expected a price in USD, got nothing"},
        BadValue{"power_w: 300", "power_w: many",
                 "c.yaml:12: catalogue.nodes[box].power_w: expected a number"},
        BadValue{
            "[storage, lite-compute]", "[storage, fancy]",
            "c.yaml:5: catalogue.nodes[box].kinds[#2]: expected one of accelerator, storage, lite-compute, "
            "got \"fancy\""},
        BadValue{"platform: server", "platform: toaster",
                 "c.yaml:4: catalogue.nodes[box].platform: expected one of server, smartnic"},
        BadValue{"cores: 10", "cores: 0",
                 "c.yaml:6: catalogue.nodes[box].cores: expected a whole number from 1"},
        BadValue{"{work: 4}", "{work: 0}",
                 "c.yaml:13: catalogue.nodes[box].throughput.work: expected a number"},
        BadValue{"sources: {price_usd: invoice, rest: datasheet}", "sources: {price_usd: invoice}",
                 "c.yaml:14: catalogue.nodes[box].sources: expected where cores is from"},
        BadValue{
            "price_usd: invoice", "prize_usd: invoice",
            "c.yaml:14: catalogue.nodes[box].sources.prize_usd: expected a figure of this entry, or rest"},
        BadValue{"      gb_per_s: 3\n", "",
                 "catalogue.devices[ssd].gb_per_s: expected GB/s that it serves, got nothing"},
        BadValue{"memory_gb", "memory_gib",
                 "c.yaml:9: catalogue.nodes[box]: unknown key \"memory_gib\", did you mean memory_gb?"},
        BadValue{"catalogue:\n", "catalog:\n", "c.yaml:1: unknown key \"catalog\""}));

TEST(CatalogueFile, TwoNodesOfOneName) {
  const std::string node = kCatalogue.substr(
      kCatalogue.find("    - name: box"), kCatalogue.find("  devices:") - kCatalogue.find("    - name: box"));
  EXPECT_THAT(CatalogueProblem(With(kCatalogue, "  devices:", node + "  devices:")),
              HasSubstr("c.yaml:15: catalogue.nodes[box]: duplicate name \"box\""));
}

}  // namespace
}  // namespace spillway::planner
