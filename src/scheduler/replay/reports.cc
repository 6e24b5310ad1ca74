// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/reports.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace spillway::scheduler {

report::Table ReportTable(const nlohmann::ordered_json& rows) {
  std::map<std::string, int> decimals = {{"published_at_100", 2},
                                         {"published_at_130", 2},
                                         {"dropped", 1},
                                         {"delay_mean_s", 1},
                                         {"delay_p50_s", 1},
                                         {"delay_p99_s", 1},
                                         {"moves_per_100", 2},
                                         {"learnt", 1},
                                         {"ours_median_ms", 3},
                                         {"cbc_median_ms", 3},
                                         {"ours_ms", 3},
                                         {"cbc_ms", 3},
                                         {"at_s", 0},
                                         {"move_gpu_hours", 3},
                                         {"held_twice_gpu_hours", 3},
                                         {"ours_gpu_hours", 1},
                                         {"optimum_gpu_hours", 1},
                                         {"fragmentation_milli", 1},
                                         {"score", 3}};
  double most_hours = 0;
  for (const auto& row : rows)
    for (const auto& [key, value] : row.items()) {
      if (key.find("pct") != std::string::npos && value.is_number_float()) decimals[key] = 2;
      if (key == "gpu_hours") most_hours = std::max(most_hours, value.get<double>());
    }
  decimals["gpu_hours"] = most_hours >= 100 ? 1 : 3;  // a few jobs share a few hours
  return report::Table::FromRows(rows, decimals);
}

}  // namespace spillway::scheduler
