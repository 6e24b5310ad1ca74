// SPDX-License-Identifier: Apache-2.0
// A node of Kubernetes as the scheduler sees it: its GPUs, by the labels of NVIDIA's GPU feature discovery.
// Pure; thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "scheduler/cluster.h"

namespace spillway::scheduler {

struct KubeNode {
  std::string name;
  std::string model;  // of gpu_model.h where it is known there, else the product's name
  int gpus = 0;
  int cpu_milli = kUnlimited;  // allocatable
  std::string problem;         // why its GPUs cannot be used; empty: they can
  // Why none of them is given by number for now: what was given stays. Empty: they are.
  std::string closed = {};
  bool operator==(const KubeNode&) const = default;
};

[[nodiscard]] Result<KubeNode> ReadKubeNode(const nlohmann::json& node);

// "NVIDIA-A100-SXM4-80GB" is A100-80; memory (of one GPU, 0: not known) decides where the name does not.
[[nodiscard]] std::string ModelOfProduct(std::string_view product, double memory_mib);

}  // namespace spillway::scheduler
