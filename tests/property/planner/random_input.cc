// SPDX-License-Identifier: Apache-2.0
#include "random_input.h"

#include <fmt/format.h>

namespace spillway::planner {
namespace {

double Between(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}
int Whole(std::mt19937_64& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}
bool Coin(std::mt19937_64& random) { return Whole(random, 0, 1) == 1; }

Node RandomNode(std::mt19937_64& random, int number) {
  Node node;
  node.name = fmt::format("node{}", number);
  node.platform = number == 0 ? Platform::kServer : Platform::kSmartNic;
  node.cores = Whole(random, 4, 64);
  // Few different figures, so that ties happen.
  node.network_gbps = 50.0 * Whole(random, 1, 4);
  node.dram = {Whole(random, 1, 4), 3200};
  node.memory_gb = 16.0 * Whole(random, 1, 4);
  node.device_slots = Whole(random, 1, 4);
  node.price_usd = 500.0 * Whole(random, 1, 10);
  node.power_w = 50.0 * Whole(random, 1, 8);
  node.throughput = {{"work", Whole(random, 1, 6)}};
  return node;
}

TimeShares RandomShares(std::mt19937_64& random, Kinds kinds) {
  TimeShares time{Between(random, 0, 1), Between(random, 0, 1), 0, 0, 0};
  if (kinds.accelerator) time.accelerator = Between(random, 0, 1), time.stall = Between(random, 0, 1);
  if (kinds.storage) time.storage = Between(random, 0.1, 1);
  const double sum = time.Sum();
  for (double* share : {&time.cpu, &time.shuffle, &time.storage, &time.accelerator, &time.stall})
    *share /= sum;
  return time;
}

}  // namespace

PlanInput RandomInput(std::mt19937_64& random, Kinds kinds, bool loose) {
  PlanInput input;
  for (int n = 0; n < 3; n++) input.catalogue.nodes.push_back(RandomNode(random, n));
  input.catalogue.nodes[0].device_slots = 4;
  input.catalogue.devices = {{"gpu", DeviceClass::kAccelerator, 1000.0 * Whole(random, 1, 5), 200, 0, 0, {}},
                             {"ssd", DeviceClass::kDrive, 300, 10, 4, Between(random, 1, 8), {}}};
  input.catalogue.fabric = {Between(random, 0, 10), Between(random, 0, 10), 0.1, 0.1, {}};

  Workload& w = input.workload;
  w.name = "random";
  w.time = RandomShares(random, kinds);
  w.overlap = Coin(random);
  w.all_reduce = kinds.accelerator && Coin(random) ? Between(random, 0, 1) : 0;
  w.cpu = {{"work", 1}};
  w.memory = {1, 2, kinds.lite_compute ? Between(random, 0, 40) : 0.0};
  w.checkpoint.model_gb_per_accelerator = Between(random, 0, 6);
  w.checkpoint.streaming = Coin(random);
  w.baseline.fabric = {100, 1};
  if (kinds.accelerator) w.baseline.groups.push_back({NodeKind::kAccelerator, 0, 2, 4, 0});
  if (kinds.storage) w.baseline.groups.push_back({NodeKind::kStorage, 0, 2, 4, 1});
  if (kinds.lite_compute) w.baseline.groups.push_back({NodeKind::kLiteCompute, 0, 2, 0, 0});
  w.limits.slowdown = loose ? 5 : Between(random, 0.3, 2);
  if (Coin(random)) w.limits.power_w = Between(random, 800, loose ? 20'000 : 4'000);
  if (Coin(random)) w.limits.cost_usd = Between(random, 5'000, loose ? 200'000 : 40'000);
  if (Coin(random)) w.limits.memory_over_network = Between(random, 1, loose ? 2 : 6);
  if (kinds.storage && Coin(random)) w.limits.storage_tb = Between(random, 4, loose ? 10 : 40);
  const int kind_count = kinds.accelerator + kinds.storage + kinds.lite_compute;
  w.space.nodes = {0, 1, 2};
  w.space.most_nodes = kind_count == 1 ? 6 : kind_count == 2 ? 4 : 3;
  w.space.accelerators_per_node = {1, 2};
  w.space.most_accelerators = 6;
  w.space.drives_per_node = {1, 3};
  w.space.ports_gbps = {50, 100};
  w.space.oversubscriptions = {1, 2};
  return input;
}

}  // namespace spillway::planner
