// SPDX-License-Identifier: Apache-2.0
// The hardware that a plan may buy, each figure with its source. Plain values; docs/planner.md explains
// every key of the file (catalogue_reader.h).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/node_kind.h"

namespace spillway::planner {

enum class Platform { kServer, kSmartNic };

// A machine's memory bus. A DDR transfer moves 8 bytes.
struct Dram {
  int channels = 0;
  double mega_transfers_per_s = 0;
  double GbPerS() const { return channels * mega_transfers_per_s * 8 / 1000; }
  bool operator==(const Dram&) const = default;
};

// One core's rate at a kernel of the probe, in `unit`: by itself, and with all cores busy.
struct CoreRate {
  std::string unit;
  double alone = 0, loaded = 0;
  double Drop() const { return 1 - loaded / alone; }  // share lost to contention
  bool operator==(const CoreRate&) const = default;
};

// Where figures are from, by their keys; "rest" speaks for those that are not named.
using Sources = std::map<std::string, std::string>;

struct Node {
  std::string name;
  Platform platform = Platform::kServer;
  std::array<bool, kNodeKinds.size()> serves = {true, true,
                                                true};  // by NodeKind; none: a reference, not for sale
  int cores = 1;                                        // hardware threads
  double network_gbps = 0;
  Dram dram;
  double memory_gb = 0;
  int device_slots = 0;  // PCIe devices it can carry
  double price_usd = 0, power_w = 0;
  // The whole node with all cores busy, by yardstick (an application, a kernel, a reference machine).
  // Nodes are comparable where they share the yardsticks that a workload names.
  std::map<std::string, double> throughput;
  std::map<std::string, CoreRate> contention;  // by the probe's kernels
  Sources sources;

  bool Serves(NodeKind kind) const { return serves[static_cast<size_t>(kind)]; }
  double NetworkGbPerS() const { return network_gbps / 8; }
  double NetworkGbPerSPerCore() const { return NetworkGbPerS() / cores; }
  double DramGbPerSPerCore() const { return dram.GbPerS() / cores; }
  bool operator==(const Node&) const = default;
};

enum class DeviceClass { kAccelerator, kDrive };

// What sits in a PCIe slot.
struct Device {
  std::string name;
  DeviceClass device_class = DeviceClass::kAccelerator;
  double price_usd = 0, power_w = 0;
  double capacity_tb = 0, gb_per_s = 0;  // of drives: what it holds, what it serves
  Sources sources;
  bool operator==(const Device&) const = default;
};

// What the network costs per Gb/s of a node's port. Oversubscription divides the spine's part: at 4, four
// ports share one port's worth of spine.
struct FabricPrices {
  double edge_usd_per_gbps = 0, spine_usd_per_gbps = 0;
  double edge_w_per_gbps = 0, spine_w_per_gbps = 0;
  Sources sources;
  double UsdPerPort(double port_gbps, double oversubscription) const {
    return port_gbps * (edge_usd_per_gbps + spine_usd_per_gbps / oversubscription);
  }
  double WattsPerPort(double port_gbps, double oversubscription) const {
    return port_gbps * (edge_w_per_gbps + spine_w_per_gbps / oversubscription);
  }
  bool operator==(const FabricPrices&) const = default;
};

struct Catalogue {
  std::vector<Node> nodes;
  std::vector<Device> devices;
  FabricPrices fabric;

  const Node* FindNode(const std::string& name) const;
  const Device* FindDevice(const std::string& name) const;
  bool operator==(const Catalogue&) const = default;
};

[[nodiscard]] std::string ToString(Platform platform);

}  // namespace spillway::planner
