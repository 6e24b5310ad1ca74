// SPDX-License-Identifier: Apache-2.0
// How each of the paper's claims is judged by the points found.
#include "claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway::lab {
namespace {

constexpr double kSame = 1.1;     // latencies within this ratio make no difference
constexpr double kGainSlack = 5;  // points by which a gain in sustained load may differ: the grid of loads
constexpr double kTakenOffSlack = 15;  // points of p99: the paper names no load
constexpr double kNotSent = 0.01;      // a unit that gets no more of the requests than this is left alone

const std::vector<std::string> kThresholds = {"p4mite-300", "p4mite-1000", "p4mite-2000"};

bool IsKnown(double value) { return !std::isnan(value); }

// The paper does not say what figure 4 shows; the lab has no mean.
double TypicalMs(const PaperPoint& point) { return IsKnown(point.mean_ms) ? point.mean_ms : point.p99_ms; }
std::string Statistic(const PaperPoint& point) { return IsKnown(point.mean_ms) ? "mean" : "p99"; }

PaperFinding Nothing() { return {}; }

// At least one point of each of the policies near x; empty: one is missing.
std::vector<const PaperPoint*> AllNear(const PaperCurves& curves, const std::vector<std::string>& policies,
                                       double x, double reach) {
  std::vector<const PaperPoint*> points;
  for (const std::string& policy : policies) {
    const PaperPoint* point = curves.Near(policy, x, reach);
    if (point == nullptr) return {};
    points.push_back(point);
  }
  return points;
}

std::string Latencies(const std::vector<const PaperPoint*>& points) {
  std::string mean, p99;
  for (const PaperPoint* point : points) {
    const char* gap = p99.empty() ? "" : " / ";
    if (IsKnown(point->mean_ms)) mean += fmt::format("{}{:.0f}", gap, point->mean_ms);
    p99 += fmt::format("{}{:.0f}", gap, point->p99_ms);
  }
  return (mean.empty() ? "" : "mean " + mean + ", ") + "p99 " + p99 + " ms";
}

PaperFinding NotComparable(std::string figure) { return {std::move(figure), std::nullopt}; }

std::string SustainedText(const PaperCurves& curves, const std::string& policy) {
  const auto sustained = curves.Sustained(policy);
  return sustained ? fmt::format("{:g} %", *sustained)
                   : fmt::format("below {:g} %", curves.Of(policy).front()->x);
}

}  // namespace

ClaimJudge HostLatency(double x, double reach, double paper_ms, double within) {
  return [=](const PaperCurves& curves, const PaperFigure& figure) {
    const PaperPoint* point = curves.Near("host-only", x, reach);
    if (point == nullptr) return Nothing();
    const std::string text = fmt::format("{:.4g} ms", point->p50_ms);
    if (!figure.latencies_comparable) return NotComparable(text);
    return PaperFinding{text, std::abs(point->p50_ms / paper_ms - 1) <= within};
  };
}

ClaimJudge ThresholdsAlike(double up_to) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    double worst = 0;
    std::vector<const PaperPoint*> at_worst;
    for (const PaperPoint* point : curves.Of(kThresholds[0])) {
      if (point->x > up_to) continue;
      const auto points = AllNear(curves, kThresholds, point->x, 1e-6);
      if (points.empty()) continue;
      double low = TypicalMs(*points[0]), high = low;
      for (const PaperPoint* one : points) {
        low = std::min(low, TypicalMs(*one));
        high = std::max(high, TypicalMs(*one));
      }
      if (high / low > worst) worst = high / low, at_worst = points;
    }
    if (at_worst.empty()) return Nothing();
    return PaperFinding{
        fmt::format("at most x {:.2f}: {} at {:g}", worst, Latencies(at_worst), at_worst[0]->x),
        worst <= kSame};
  };
}

ClaimJudge ThresholdsInOrder(double x, double reach) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    const auto points = AllNear(curves, kThresholds, x, reach);
    if (points.empty()) return Nothing();
    const bool ordered =
        TypicalMs(*points[0]) < TypicalMs(*points[1]) && TypicalMs(*points[1]) < TypicalMs(*points[2]);
    return PaperFinding{Latencies(points), ordered};
  };
}

ClaimJudge NeverTrips(double x, double reach, double paper_ms) {
  return [=](const PaperCurves& curves, const PaperFigure& figure) {
    const PaperPoint* point = curves.Near("p4mite-2000", x, reach);
    if (point == nullptr) return Nothing();
    const bool trips = point->offloaded > 0;  // false where it is not known
    const std::string text = fmt::format(
        "p99 {:.0f} ms{}", point->p99_ms,
        IsKnown(point->offloaded) ? fmt::format(", {:.1f} % to the SmartNIC", 100 * point->offloaded) : "");
    if (!figure.latencies_comparable) return NotComparable(text);
    return PaperFinding{text, !trips && std::abs(point->p99_ms / paper_ms - 1) <= 0.25};
  };
}

ClaimJudge OffloadsFrom(const std::string& policy, double paper_gflop) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    for (const PaperPoint* point : curves.Of(policy)) {
      if (!IsKnown(point->offloaded)) return Nothing();
      if (point->offloaded > kNotSent)
        return PaperFinding{fmt::format("{:g} Gflop", point->x), std::abs(point->x - paper_gflop) < 0.5};
    }
    return curves.Of(policy).empty() ? Nothing() : PaperFinding{"never", false};
  };
}

ClaimJudge Compared(const std::string& policy, const std::string& other, double x, double reach,
                    bool slower) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    const auto points = AllNear(curves, {policy, other}, x, reach);
    if (points.empty()) return Nothing();
    const double ratio = TypicalMs(*points[0]) / TypicalMs(*points[1]);
    return PaperFinding{fmt::format("x {:.2f} ({})", ratio, Statistic(*points[0])),
                        slower ? ratio > 1 : ratio < 1};
  };
}

ClaimJudge ComparedP99(const std::string& policy, const std::string& other, double x, double reach,
                       bool slower) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    const auto points = AllNear(curves, {policy, other}, x, reach);
    if (points.empty()) return Nothing();
    const double ratio = points[0]->p99_ms / points[1]->p99_ms;
    return PaperFinding{fmt::format("p99 x {:.2f} at {:g} %", ratio, points[0]->x),
                        slower ? ratio > 1 : ratio < 1};
  };
}

ClaimJudge LosesFrom(const std::string& policy, double paper) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    const auto points = curves.Of(policy);
    if (points.empty()) return Nothing();
    const auto lost = curves.LosesFrom(policy);
    const std::string none = fmt::format("not up to {:g} Gflop", points.back()->x);
    if (!lost && points.back()->x < paper) return NotComparable(none);
    if (!lost) return PaperFinding{none, false};
    return PaperFinding{fmt::format("{:g} Gflop", *lost), std::abs(*lost - paper) < 0.75};
  };
}

ClaimJudge Sustains(const std::string& policy, double paper_pct, double slack) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    const auto points = curves.Of(policy);
    if (points.empty()) return Nothing();
    const auto sustained = curves.Sustained(policy);
    const bool matches =
        sustained ? std::abs(*sustained - paper_pct) <= slack : points.front()->x > paper_pct;
    return PaperFinding{SustainedText(curves, policy), matches};
  };
}

ClaimJudge Gains(const std::string& policy, const std::string& other, double paper_pct) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    const auto more = curves.Sustained(policy), base = curves.Sustained(other);
    if (!more || !base) return Nothing();
    const double gain = 100 * (*more / *base - 1);
    return PaperFinding{fmt::format("{:+.0f} % ({:g} against {:g} %)", gain, *more, *base),
                        std::abs(gain - paper_pct) <= kGainSlack + 0.5};
  };
}

ClaimJudge SustainsMore(const std::string& policy, const std::string& other) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    if (curves.Of(policy).empty() || curves.Of(other).empty()) return Nothing();
    return PaperFinding{
        fmt::format("{} against {}", SustainedText(curves, policy), SustainedText(curves, other)),
        curves.Sustained(policy).value_or(0) > curves.Sustained(other).value_or(0)};
  };
}

ClaimJudge TakesOff(double paper_pct) {
  return [=](const PaperCurves& curves, const PaperFigure&) {
    const auto limit = curves.Sustained("host-only");
    double best = -1e9, at = 0;
    for (const PaperPoint* point : curves.Of("p4mite")) {
      const PaperPoint* host = curves.Near("host-only", point->x, 1e-6);
      if (!limit || point->x > *limit || host == nullptr) continue;
      const double off = 100 * (1 - point->p99_ms / host->p99_ms);
      if (off > best) best = off, at = point->x;
    }
    if (best < -1e8) return Nothing();
    return PaperFinding{fmt::format("up to {:+.0f} %, at {:g} %", -best, at),
                        best >= paper_pct - kTakenOffSlack};
  };
}

ClaimJudge Rate(const std::string& policy, double paper_rps) {
  return [=](const PaperCurves& curves, const PaperFigure& figure) {
    const auto sustained = curves.Sustained(policy);
    if (!sustained) return Nothing();
    const std::string text = fmt::format("{:.0f} requests/s", *sustained);
    if (!figure.latencies_comparable) return NotComparable(text);
    return PaperFinding{text, std::abs(*sustained / paper_rps - 1) <= 0.1};
  };
}

PaperFinding TenTimes(const PaperCurves& curves, const PaperFigure&) {
  const auto more = curves.Sustained("switch"), base = curves.Sustained("nic");
  if (!more || !base) return Nothing();
  return {fmt::format("x {:.1f}", *more / *base), *more / *base >= 10};
}

PaperFinding SlowerOnTheNic(const PaperCurves& curves, const PaperFigure&) {
  const auto limit = curves.Sustained("nic");
  double least = 1e9;
  for (const PaperPoint* point : curves.Of("nic")) {
    const PaperPoint* in_switch = curves.Near("switch", point->x, 0.05 * point->x);
    if (limit && point->x <= *limit && in_switch) least = std::min(least, point->p50_ms / in_switch->p50_ms);
  }
  if (least > 1e8) return Nothing();
  return {fmt::format("p50 at least x {:.2f}", least), least > 1};
}

ClaimJudge UnitGflops(int unit, double paper) {
  return [=](const PaperCurves&, const PaperFigure& figure) {
    if (!IsKnown(figure.unit_gflops[unit])) return Nothing();
    return PaperFinding{fmt::format("{:.1f} GFLOP/s", figure.unit_gflops[unit]),
                        std::abs(figure.unit_gflops[unit] / paper - 1) <= 0.02};
  };
}

PaperFinding NicShare(const PaperCurves&, const PaperFigure& figure) {
  if (!IsKnown(figure.nic_share)) return Nothing();
  return {fmt::format("{:.0f} %", 100 * figure.nic_share),
          figure.nic_share > 0.15 && figure.nic_share < 0.22};
}

PaperFinding NoTofino(const PaperCurves&, const PaperFigure&) { return Nothing(); }

}  // namespace spillway::lab
