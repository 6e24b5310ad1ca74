// SPDX-License-Identifier: Apache-2.0
// How much more a traditional cluster costs and draws than one of SmartNICs, in closed form. Pure.
// Source: Lovelock, section 4 (equations 1 and 2) and section 5.2 (the form with fabric).
#pragma once

namespace spillway::planner {

// Everything is relative to one SmartNIC, which is 1: prices to its price, power to its power.
struct RelativePrices {
  double server_cost = 0;   // c_s
  double server_power = 0;  // p_s
  double device_cost = 0;   // c_p: PCIe devices per server, which move to the SmartNICs
  double device_power = 0;  // p_p
  double fabric_cost = 0;   // c_f: network per server; the paper charges as much per SmartNIC
};

// Devices that make up `share` (0 <= share < 1) of a whole whose rest is `rest`.
[[nodiscard]] double AttachedAt(double share, double rest);

// phi: SmartNICs per server, >= 1. mu: execution time relative to the servers', > 0.
[[nodiscard]] double CostRatio(const RelativePrices& prices, double phi);               // equation 1
[[nodiscard]] double EnergyRatio(const RelativePrices& prices, double phi, double mu);  // equation 2
[[nodiscard]] double CostRatioWithFabric(const RelativePrices& prices, double phi);     // fabric grows by phi
// The fabric carries only what the application moves on average: it grows by 1 / mu, not by phi.
[[nodiscard]] double CostRatioWithRightSizedFabric(const RelativePrices& prices, double phi, double mu);

// How much slower the whole fabric may be than the servers' (negative: must be faster), for an application
// that takes mu times as long to move the same bytes.
[[nodiscard]] double FabricMayBeSlowerBy(double mu);
// The oversubscription that phi ports per server then allow.
[[nodiscard]] double RightSizedOversubscription(double phi, double mu);

}  // namespace spillway::planner
