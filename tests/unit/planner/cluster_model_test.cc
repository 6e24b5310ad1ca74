// SPDX-License-Identifier: Apache-2.0
// A mix's cost, power, time and limits, by hand.
#include "planner/cluster_model.h"

#include <gtest/gtest.h>

#include "text.h"

namespace spillway::planner {
namespace {

// Figures that are easy to add up: a server of 4 units of work and 100 Gb/s, a SmartNIC of 1 and 200 Gb/s.
class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    Node server;
    server.name = "server";
    server.cores = 32;
    server.network_gbps = 100;
    server.dram = {10, 1000};  // 80 GB/s
    server.memory_gb = 100;
    server.device_slots = 4;
    server.price_usd = 1000;
    server.power_w = 100;
    server.throughput = {{"work", 4}, {"scan", 2}};
    Node nic = server;
    nic.name = "nic";
    nic.platform = Platform::kSmartNic;
    nic.network_gbps = 200;
    nic.memory_gb = 20;
    nic.price_usd = 100;
    nic.power_w = 10;
    nic.throughput = {{"work", 1}, {"scan", 1}};
    input_.catalogue.nodes = {server, nic};
    input_.catalogue.devices = {{"gpu", DeviceClass::kAccelerator, 500, 50, 0, 0, {}},
                                {"ssd", DeviceClass::kDrive, 20, 2, 4, 5, {}}};
    input_.catalogue.fabric = {1, 2, 0.1, 0.2, {}};
    Workload& w = input_.workload;
    w.time = {0.4, 0.6, 0, 0, 0};
    w.cpu = {{"work", 1}};
    w.baseline = {{{NodeKind::kLiteCompute, 0, 4, 0, 0}}, {100, 1}};
    w.limits.slowdown = 10;
  }
  Evaluation Evaluate(std::vector<Group> groups, Fabric fabric) const {
    return ClusterModel(input_).Evaluate({std::move(groups), fabric});
  }
  // The one check of this limit.
  static Check Of(const Evaluation& evaluation, Limit limit) {
    for (const Check& check : evaluation.checks)
      if (check.limit == limit) return check;
    ADD_FAILURE() << "no check of " << ToString(limit);
    return {};
  }

  PlanInput input_;
};

TEST_F(ClusterTest, CostAndPowerAreNodesDevicesAndPorts) {
  input_.workload.time = {0, 0, 0, 0.5, 0.5};
  input_.workload.baseline = {{{NodeKind::kAccelerator, 0, 2, 4, 0}}, {100, 1}};
  const Evaluation e = Evaluate({{NodeKind::kAccelerator, 1, 4, 8, 0}}, {200, 2});
  EXPECT_DOUBLE_EQ(e.nodes_usd, 400);
  EXPECT_DOUBLE_EQ(e.devices_usd, 4000);
  EXPECT_DOUBLE_EQ(e.fabric_usd, 4 * 200 * (1 + 2 / 2.0));
  EXPECT_DOUBLE_EQ(e.nodes_w, 40);
  EXPECT_DOUBLE_EQ(e.devices_w, 400);
  EXPECT_NEAR(e.fabric_w, 4 * 200 * (0.1 + 0.2 / 2), 1e-9);
  // Twice the accelerators, 400 Gb/s instead of 200: 0.25 + 0.25.
  EXPECT_DOUBLE_EQ(e.slowdown, 0.5);
  EXPECT_NEAR(e.Energy(), 0.5 * e.PowerW(), 1e-9);
}

TEST_F(ClusterTest, CpuAndShuffleScaleApart) {
  // 8 SmartNICs: half the work (16 -> 8), ports of 100 hold 800 Gb/s instead of 400.
  const Evaluation e = Evaluate({{NodeKind::kLiteCompute, 1, 8, 0, 0}}, {100, 1});
  EXPECT_DOUBLE_EQ(e.time.cpu, 0.8);
  EXPECT_DOUBLE_EQ(e.time.shuffle, 0.3);
  EXPECT_DOUBLE_EQ(e.slowdown, 1.1);
}

TEST_F(ClusterTest, TheNetworkOfANodeIsTheLeastOfItsCardAndItsShareOfTheFabric) {
  const ClusterModel model(input_);
  EXPECT_DOUBLE_EQ(model.NodeGbps(input_.catalogue.nodes[0], {400, 1}), 100);
  EXPECT_DOUBLE_EQ(model.NodeGbps(input_.catalogue.nodes[1], {400, 1}), 200);
  EXPECT_DOUBLE_EQ(model.NodeGbps(input_.catalogue.nodes[1], {400, 4}), 100);
}

TEST_F(ClusterTest, TwoTypesPoolTheirCoresAndTheirNetwork) {
  // 2 servers and 4 SmartNICs: work 12 of 16, network 2 x 100 + 4 x 100 of 400.
  const Evaluation e =
      Evaluate({{NodeKind::kLiteCompute, 0, 2, 0, 0}, {NodeKind::kLiteCompute, 1, 4, 0, 0}}, {100, 1});
  EXPECT_DOUBLE_EQ(e.time.cpu, 0.4 * 16 / 12);
  EXPECT_DOUBLE_EQ(e.time.shuffle, 0.6 * 400 / 600);
}

TEST_F(ClusterTest, YardsticksAddUpByTheTimeTheyTake) {
  input_.workload.cpu = {{"work", 0.5}, {"scan", 0.5}};
  // A SmartNIC takes 4 times as long on half of it and twice as long on the other: 3 times.
  EXPECT_DOUBLE_EQ(ClusterModel(input_).Speed(1), 1.0 / 3);
  input_.catalogue.nodes[1].throughput.erase("scan");
  EXPECT_FALSE(ClusterModel(input_).Comparable(1, NodeKind::kLiteCompute));
  EXPECT_TRUE(ClusterModel(input_).Comparable(1, NodeKind::kStorage)) << "cores do not matter there";
}

TEST_F(ClusterTest, RemoteStorageIsAsFastAsItsNarrowestPlace) {
  input_.workload.time = {0, 0, 1, 0, 0};
  input_.workload.baseline.groups.push_back({NodeKind::kStorage, 0, 2, 8, 1});
  // Baseline: clients 400, storage nodes 200, drives 8 x 40 = 320: 200 Gb/s.
  const Group clients{NodeKind::kLiteCompute, 0, 4, 0, 0};
  EXPECT_DOUBLE_EQ(Evaluate({clients, {NodeKind::kStorage, 0, 4, 16, 1}}, {100, 1}).slowdown, 0.5)
      << "clients, 400";
  EXPECT_DOUBLE_EQ(Evaluate({clients, {NodeKind::kStorage, 0, 3, 12, 1}}, {100, 1}).slowdown, 200.0 / 300)
      << "nodes";
  EXPECT_DOUBLE_EQ(Evaluate({clients, {NodeKind::kStorage, 0, 4, 4, 1}}, {100, 1}).slowdown, 200.0 / 160)
      << "drives";
}

TEST_F(ClusterTest, AllReduceTrafficGrowsWithNodesAndOtherTrafficDoesNot) {
  input_.workload.time = {0, 0, 0, 0.8, 0.2};
  input_.workload.baseline = {{{NodeKind::kAccelerator, 0, 3, 12, 0}}, {100, 1}};
  const std::vector<Group> twice = {{NodeKind::kAccelerator, 1, 6, 12, 0}};
  EXPECT_DOUBLE_EQ(Evaluate(twice, {100, 1}).slowdown, 0.9) << "Lovelock 5.3: 10 %";
  input_.workload.all_reduce = 1;
  // Twice the network, (6 - 1) / (3 - 1) the traffic.
  EXPECT_DOUBLE_EQ(Evaluate(twice, {100, 1}).slowdown, 0.8 + 0.2 * 2.5 / 2);
}

TEST_F(ClusterTest, MemoryOfANode) {
  input_.workload.memory = {1, 2, 60};
  const Check server = Of(Evaluate({{NodeKind::kLiteCompute, 0, 4, 0, 0}}, {100, 1}), Limit::kMemory);
  EXPECT_DOUBLE_EQ(server.value, 18);
  EXPECT_DOUBLE_EQ(server.bound, 100);
  input_.workload.limits.memory_share = 0.5;
  const Check nic = Of(Evaluate({{NodeKind::kLiteCompute, 1, 4, 0, 0}}, {100, 1}), Limit::kMemory);
  EXPECT_DOUBLE_EQ(nic.bound, 10);
  EXPECT_DOUBLE_EQ(nic.Ratio(), 1.8);
}

TEST_F(ClusterTest, LimitsOfANode) {
  input_.workload.limits.memory_over_network = 5;
  const Check bandwidth =
      Of(Evaluate({{NodeKind::kLiteCompute, 1, 4, 0, 0}}, {200, 1}), Limit::kMemoryBandwidth);
  EXPECT_DOUBLE_EQ(bandwidth.value, 80 / 25.0) << "80 GB/s of DRAM, 25 GB/s of network";
  EXPECT_DOUBLE_EQ(bandwidth.Ratio(), 5 / 3.2);

  input_.workload.time = {0, 0, 0, 1, 0};
  input_.workload.baseline = {{{NodeKind::kAccelerator, 0, 2, 8, 0}}, {100, 1}};
  input_.workload.host_yardstick = "work";
  input_.workload.host_peak = 0.4;
  const Evaluation e = Evaluate({{NodeKind::kAccelerator, 1, 2, 9, 0}}, {100, 1});
  EXPECT_DOUBLE_EQ(Of(e, Limit::kSlots).value, 5) << "the node that carries most";
  EXPECT_DOUBLE_EQ(Of(e, Limit::kSlots).bound, 4);
  EXPECT_DOUBLE_EQ(Of(e, Limit::kHostCpu).value, 2) << "5 x 0.4";
  EXPECT_DOUBLE_EQ(Of(e, Limit::kHostCpu).bound, 1);
  EXPECT_FALSE(e.Feasible());
}

TEST_F(ClusterTest, LimitsOfTheWhole) {
  input_.workload.limits.slowdown = 1;
  input_.workload.limits.cost_usd = 1000;
  input_.workload.limits.power_w = 1e6;
  const Evaluation e = Evaluate(input_.workload.baseline.groups, {100, 1});
  EXPECT_NEAR(Of(e, Limit::kSlowdown).Ratio(), 1, 1e-12);
  EXPECT_DOUBLE_EQ(Of(e, Limit::kCost).value, 4 * (1000 + 300));
  EXPECT_FALSE(e.Feasible()) << "cost";
  input_.workload.limits.cost_usd = 5200;
  EXPECT_TRUE(Evaluate(input_.workload.baseline.groups, {100, 1}).Feasible())
      << "a limit that is just met is met";
}

}  // namespace
}  // namespace spillway::planner
