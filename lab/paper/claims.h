// SPDX-License-Identifier: Apache-2.0
// The claims of P4Mite's figures 4a, 4b, 5a to 5c and 6 and of its tables I and II (ICNP 2022), and whether
// what the simulator and the lab found bears them out. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evidence.h"

namespace spillway::lab {

// What one side found about a claim.
struct PaperFinding {
  std::string figure;           // in words and numbers; empty: nothing
  std::optional<bool> matches;  // nullopt: nothing that could be compared
};

struct PaperRow {
  std::string id;      // "4a-order"
  std::string figure;  // "figure 4a", "table I"
  std::string claim, paper;
  PaperFinding simulator, lab;
  std::string reason;  // why one of them does not match or has nothing; empty: both match

  // Of the sides that have something to compare; nullopt: neither.
  [[nodiscard]] std::optional<bool> Matches() const;
};

// `lab`: nullptr where the lab was left out.
[[nodiscard]] std::vector<PaperRow> JudgePaper(const PaperFigures& simulator, const PaperFigures* lab);

// How a claim of the paper is judged: each function makes a ClaimJudge, or is one. Pure.
inline constexpr double kNear = 0.15;  // a latency that the paper states is met within this share

// Looks at one reading's curves.
using ClaimJudge = std::function<PaperFinding(const PaperCurves&, const PaperFigure&)>;

// A latency that the paper states, of the host alone near x.
ClaimJudge HostLatency(double x, double reach, double paper_ms, double within = kNear);
// Up to x, whatever the threshold.
ClaimJudge ThresholdsAlike(double up_to);
ClaimJudge ThresholdsInOrder(double x, double reach);
ClaimJudge NeverTrips(double x, double reach, double paper_ms);
// From which size of requests on the SmartNIC gets some.
ClaimJudge OffloadsFrom(const std::string& policy, double paper_gflop);
// The first policy's latency over the second's near x: above or below 1?
ClaimJudge Compared(const std::string& policy, const std::string& other, double x, double reach, bool slower);
// The same by p99, as figure 5 shows it.
ClaimJudge ComparedP99(const std::string& policy, const std::string& other, double x, double reach,
                       bool slower);
ClaimJudge LosesFrom(const std::string& policy, double paper);
ClaimJudge Sustains(const std::string& policy, double paper_pct, double slack);
// How much more load the first sustains than the second.
ClaimJudge Gains(const std::string& policy, const std::string& other, double paper_pct);
ClaimJudge SustainsMore(const std::string& policy, const std::string& other);
// The most that P4Mite takes off the host's p99 where neither loses.
ClaimJudge TakesOff(double paper_pct);
ClaimJudge Rate(const std::string& policy, double paper_rps);
PaperFinding TenTimes(const PaperCurves& curves, const PaperFigure&);
PaperFinding SlowerOnTheNic(const PaperCurves& curves, const PaperFigure&);
ClaimJudge UnitGflops(int unit, double paper);
PaperFinding NicShare(const PaperCurves&, const PaperFigure& figure);
PaperFinding NoTofino(const PaperCurves&, const PaperFigure&);

}  // namespace spillway::lab
