// SPDX-License-Identifier: Apache-2.0
#include "planner/price_ratio.h"

namespace spillway::planner {

double AttachedAt(double share, double rest) { return rest * share / (1 - share); }

double CostRatio(const RelativePrices& p, double phi) {
  return (p.server_cost + p.device_cost) / (phi + p.device_cost);
}

double EnergyRatio(const RelativePrices& p, double phi, double mu) {
  return (p.server_power + p.device_power) / (mu * (phi + p.device_power));
}

double CostRatioWithFabric(const RelativePrices& p, double phi) {
  return (p.server_cost + p.fabric_cost + p.device_cost) / (phi * (1 + p.fabric_cost) + p.device_cost);
}

double CostRatioWithRightSizedFabric(const RelativePrices& p, double phi, double mu) {
  return (p.server_cost + p.fabric_cost + p.device_cost) / (phi + p.fabric_cost / mu + p.device_cost);
}

double FabricMayBeSlowerBy(double mu) { return 1 - 1 / mu; }

double RightSizedOversubscription(double phi, double mu) { return phi * mu; }

}  // namespace spillway::planner
