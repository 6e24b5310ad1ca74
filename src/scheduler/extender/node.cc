// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extender/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/yaml/problems.h"
#include "scheduler/extender/kube_json.h"
#include "scheduler/extender/pod.h"

namespace spillway::scheduler {
namespace {

using nlohmann::json;

// Labels are text; a number in one.
double NumberOf(const json& labels, const char* key) {
  const json* value = Find(labels, key);
  return value == nullptr ? 0 : ParseQuantity(*value).value_or(0);
}

}  // namespace

std::string ModelOfProduct(std::string_view product, double memory_mib) {
  constexpr double kMibPerGb = 953.7;
  for (const std::string_view maker : {"NVIDIA-", "Tesla-"})
    if (product.starts_with(maker)) product.remove_prefix(maker.size());
  if (product.ends_with("-SHARED")) product.remove_suffix(7);
  const std::string_view family = product.substr(0, product.find('-'));
  double gb = memory_mib / kMibPerGb;
  for (const char* size : {"16GB", "32GB", "40GB", "80GB"})
    if (gb == 0 && product.find(size) != std::string_view::npos) gb = std::stod(size);
  // Sizes between the usual ones are cards of their own (an H100 NVL has 94 GB): not taken for another.
  const auto about = [&](double size) { return std::abs(gb - size) < 0.1 * size; };
  if (family == "A100" && about(40)) return "A100-40";
  if (family == "A100" && about(80)) return "A100-80";
  if (family == "H100" && (gb == 0 || about(82))) return "H100-80";
  if (family == "V100" && about(16)) return "V100M16";
  if (family == "V100" && about(32)) return "V100M32";
  if (family == "T4" || family == "A10" || family == "P100" || family == "H200") return std::string(family);
  return product.empty() ? "GPU" : std::string(product);
}

Result<KubeNode> ReadKubeNode(const json& node) {
  const json* meta = Find(node, "metadata");
  KubeNode read;
  if (meta != nullptr) read.name = TextAt(*meta, "name");
  if (read.name.size() > kMaxName)
    return Fail(ErrorCode::kBadInput,
                fmt::format("Nodes: metadata.name: expected at most {} bytes", kMaxName));
  if (read.name.empty()) return Fail(ErrorCode::kBadInput, "Nodes: expected nodes with metadata.name");
  const json none = json::object();
  const json* labels = Find(*meta, "labels");
  if (labels == nullptr) labels = &none;
  const json* status = Find(node, "status");
  if (status == nullptr) status = &none;
  if (const json* allocatable = Find(*status, "allocatable"))
    if (const json* cpu = Find(*allocatable, "cpu"))
      read.cpu_milli = static_cast<int>(std::min(ParseQuantity(*cpu).value_or(0) * 1000, 1e8));

  // Numbers go over all GPUs that are there; of what the device plugin counts, some may be out of order.
  double gpus = NumberOf(*labels, "nvidia.com/gpu.count");
  const json* const capacity = Find(*status, "capacity");
  const double counted = capacity == nullptr ? 0 : NumberOf(*capacity, kPluginResource);
  const json* const allocatable = Find(*status, "allocatable");
  if (gpus == 0) gpus = counted;
  if (allocatable != nullptr && Find(*allocatable, kPluginResource) != nullptr)
    if (const double missing = counted - NumberOf(*allocatable, kPluginResource); missing > 0)
      read.closed = fmt::format("{} of its {} GPUs cannot be allocated, and which {} not known", missing,
                                counted, missing == 1 ? "one is" : "ones are");
  const std::string product = TextAt(*labels, "nvidia.com/gpu.product").substr(0, kMaxLabel);
  read.model = ModelOfProduct(product, NumberOf(*labels, "nvidia.com/gpu.memory"));
  // Under strategy `single` labels and resources count slices as if they were GPUs.
  if (product.find("-MIG-") != std::string::npos || TextAt(*labels, "nvidia.com/mig.strategy") == "single")
    read.problem = "its GPUs are divided by MIG strategy single, which Spillway cannot place on";
  else if (gpus > kMaxGpus || gpus != std::floor(gpus))
    read.problem = fmt::format("it has {} GPUs, Spillway knows up to {}", gpus, kMaxGpus);
  read.gpus = read.problem.empty() ? static_cast<int>(gpus) : 0;
  return read;
}

}  // namespace spillway::scheduler
