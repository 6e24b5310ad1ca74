// SPDX-License-Identifier: Apache-2.0
// Objects of Kubernetes as tests need them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace spillway::testing {

inline nlohmann::json KubePod(const std::string& name, const std::string& resource, const std::string& amount,
                              nlohmann::json annotations = nlohmann::json::object()) {
  nlohmann::json resources = {{"cpu", "2"}, {"memory", "1Gi"}};
  if (!resource.empty()) resources[resource] = amount;
  return {{"metadata",
           {{"name", name}, {"namespace", "ml"}, {"uid", "uid-" + name}, {"annotations", annotations}}},
          {"spec", {{"containers", {{{"name", "c"}, {"resources", {{"requests", resources}}}}}}}},
          {"status", {{"phase", "Pending"}}}};
}

inline nlohmann::json KubeNodeOf(const std::string& name, const std::string& product, int gpus, int memory) {
  return {{"metadata",
           {{"name", name},
            {"labels",
             {{"nvidia.com/gpu.product", product},
              {"nvidia.com/gpu.count", std::to_string(gpus)},
              {"nvidia.com/gpu.memory", std::to_string(memory)}}}}},
          {"status", {{"allocatable", {{"cpu", "64"}}}}}};
}

}  // namespace spillway::testing
