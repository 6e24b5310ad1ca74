// SPDX-License-Identifier: Apache-2.0
#include "claims.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::lab {
namespace {

struct Claim {
  std::string id, figure, claim, paper;
  ClaimJudge judge;
  std::string simulator_reason, lab_reason;  // why it does not match, where it does not
  std::string lab_absent = "the lab has no point there";
};

const char* kSlowNic =
    "a core of the SmartNIC takes 1.8 s for 2 Gflop, longer than the host's queue here: what is sent there "
    "by chance "
    "raises the mean, and from 1 % on p99";
const char* kRealUnits =
    "the lab's units have the paper's ratio of speeds, not its latencies (--emulated has)";
const char* kFourB =
    "the paper leaves the limit open: ten times the latency of such a request is 16 s, to which no queue "
    "grows in 30 s at "
    "5 requests/s; ten times 200 ms is what 18 Gflop take a core of the host alone, so that both lose from "
    "the same "
    "size on: 14 Gflop where requests differ by a fifth, 19 where they are alike";
const char* kDnsTrigger =
    "the limit of loss, ten times 3 ms, lies below the threshold of 100 ms: the host has lost what trips the "
    "agent";
const char* kNotCounted = "the lab does not count which unit answered";
const char* kExactWeights =
    "WRR's weights are exactly the calibrated units' rates, 5 to 1; a SmartNIC with 0.15 of the joint rate "
    "instead of 0.167 "
    "would end it at 90 %";
const char* kHalfToNic =
    "half of the requests go to the SmartNIC; with random arrivals it loses sooner than where its rate ends";
const char* kEnds = "the lab's loads are too far apart to tell";

// In the order of the paper's figures, then its tables.
int Place(const std::string& figure) {
  static const std::vector<std::string> kOrder = {"4a", "4b", "5a", "5b", "5c", "6", "I", "II"};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), figure) - kOrder.begin());
}

std::vector<Claim> Claims() {
  std::vector<Claim> claims = {
      {"4a-alone", "4a", "a request of 2 Gflop alone takes the host about 200 ms", "200 ms",
       HostLatency(5, 30, 200), "", ""},
      {"4a-alike", "4a", "up to 40 requests/s the threshold makes no difference", "x 1",
       ThresholdsAlike(40.5), kSlowNic, kSlowNic},
      {"4a-order", "4a", "at 45 requests/s a lower threshold gives lower latency", "300 < 1000 < 2000",
       ThresholdsInOrder(45, 1), kSlowNic, kSlowNic},
      {"4a-untripped", "4a",
       "at 45 requests/s the threshold of 2000 ms is not reached; latency is about 1200 ms",
       "1200 ms, nothing to the SmartNIC", NeverTrips(45, 1, 1200),
       "the host as calibrated sustains 45.5 requests/s, so that 45 are no overload",
       "a slice is a third as long as the paper\'s runs, to scale: the overload has less time to grow"},
      {"4b-alike", "4b", "with 2 Gflop the threshold makes no difference", "x 1", ThresholdsAlike(2.5),
       kSlowNic, ""},
      {"4b-300", "4b", "the threshold of 300 ms is passed from 4 Gflop on", "4 Gflop",
       OffloadsFrom("p4mite-300", 4), "", "", kNotCounted},
      {"4b-1000", "4b", "the threshold of 1000 ms is passed from 8 Gflop on", "8 Gflop",
       OffloadsFrom("p4mite-1000", 8),
       "8 Gflop take a core of the host 880 ms: only the spread of service times, or load, makes 1000 of "
       "that",
       "", kNotCounted},
      {"4b-early", "4b", "a low threshold is slower than the host while that has room (10 Gflop, 300 ms)",
       "slower", Compared("p4mite-300", "host-only", 10, 1, true), "", kEnds},
      {"4b-15", "4b", "with 15 Gflop the host takes about 1800 ms", "1800 ms", HostLatency(15, 1.2, 1800), "",
       ""},
      {"4b-2000", "4b", "beyond 15 Gflop the threshold of 2000 ms is better than the host alone", "faster",
       Compared("p4mite-2000", "host-only", 18, 0.6, false), kSlowNic, kSlowNic},
      {"4b-host", "4b", "the host alone loses requests from 16 Gflop on", "16 Gflop",
       LosesFrom("host-only", 16), kFourB, kFourB},
      {"4b-p4mite", "4b", "P4Mite loses requests from 18 Gflop on", "18 Gflop", LosesFrom("p4mite-2000", 18),
       kFourB, kFourB},
  };
  struct App {
    const char *figure, *name;
    double unloaded_ms, host_pct, gain_pct;
    const char *simulator_reason, *lab_reason;  // of the gain
  };
  const App apps[] = {
      {"5a", "DNS", 3, 80, 20, kDnsTrigger, kDnsTrigger},
      {"5b", "VGG16", 80, 80, 16,
       "in steps of 2 % of load it is +10 % (90 against 82 %) with random arrivals", ""},
      {"5c", "KNN", 0, 75, 11, "", ""},
  };
  for (const App& app : apps) {
    const std::string figure = app.figure;
    if (app.unloaded_ms > 0)
      claims.push_back(
          {figure + "-alone", figure,
           fmt::format("a lone {} request takes the host some {:g} ms", app.name, app.unloaded_ms),
           fmt::format("{:g} ms", app.unloaded_ms), HostLatency(10, 50, app.unloaded_ms), "", ""});
    claims.push_back(
        {figure + "-host", figure, fmt::format("{} on the host alone: load before loss", app.name),
         fmt::format("{:g} %", app.host_pct), Sustains("host-only", app.host_pct, 5.1), "", kEnds});
    claims.push_back({figure + "-gain", figure, "P4Mite sustains more load than the host alone",
                      fmt::format("{:+g} %", app.gain_pct), Gains("p4mite", "host-only", app.gain_pct),
                      app.simulator_reason, app.lab_reason});
  }
  const std::vector<Claim> more = {
      {"5a-low", "5a", "at low load WRR is faster than P4Mite (50 %)", "faster",
       ComparedP99("wrr", "p4mite", 50, 11, false), "", ""},
      {"5a-wrr", "5a", "WRR loses at 90 % load, which P4Mite sustains", "P4Mite sustains more",
       SustainsMore("p4mite", "wrr"), kDnsTrigger, kDnsTrigger},
      {"5a-ecmp", "5a", "ECMP overloads the SmartNIC soon", "long before the host alone",
       SustainsMore("host-only", "ecmp"), "", ""},
      {"5b-latency", "5b", "P4Mite takes half off the latency (the paper does not say at which load)",
       "-50 %", TakesOff(50), "", ""},
      {"5b-low", "5b", "below 80 % load WRR is slower than the host alone (50 %)", "slower",
       ComparedP99("wrr", "host-only", 50, 11, true), "", ""},
      {"5b-wrr", "5b", "WRR sustains", "90 %", Sustains("wrr", 90, 5.1), kExactWeights, kExactWeights},
      {"5b-ecmp", "5b", "ECMP sustains", "30 %", Sustains("ecmp", 30, 5.1), kHalfToNic, kHalfToNic},
      {"5c-latency", "5c", "P4Mite takes a quarter off the latency (the paper does not say at which load)",
       "-25 %", TakesOff(25), "", ""},
      {"5c-low", "5c", "below 70 % load WRR is slower than the host alone (50 %)", "slower",
       ComparedP99("wrr", "host-only", 50, 11, true), "", ""},
      {"5c-wrr", "5c", "WRR sustains more load than P4Mite", "WRR sustains more",
       SustainsMore("wrr", "p4mite"), "", ""},
      {"5c-ecmp", "5c", "ECMP sustains", "40 %", Sustains("ecmp", 40, 5.1), kHalfToNic, kHalfToNic},
      {"6-nic", "6", "a balancer on one core of the SmartNIC sustains", "700 requests/s", Rate("nic", 700),
       "", "the lab's SmartNIC has a fortieth of a core: the ratio below is what is compared"},
      {"6-switch", "6", "P4Mite in the switch sustains", "8000 requests/s", Rate("switch", 8000),
       "the units' rate ends it, which the paper does not state",
       "it is the machine that gives out: the ratio below is what is compared"},
      {"6-ratio", "6", "P4Mite sustains ten times what the balancer on the SmartNIC does", "more than x 10",
       TenTimes, "", ""},
      {"6-slower", "6", "below that rate the balancer on the SmartNIC is slower", "slower", SlowerOnTheNic,
       "", ""},
      {"I-host", "I", "the host's floating-point rate", "91.0 GFLOP/s", UnitGflops(0, 91.0), "", "",
       "the lab's units stand for the paper's by their ratio"},
      {"I-nic", "I", "the SmartNIC's floating-point rate", "17.6 GFLOP/s", UnitGflops(1, 17.6), "", "",
       "the lab's units stand for the paper's by their ratio"},
      {"I-share", "I", "the SmartNIC adds up to 20 % to the host", "19 %", NicShare, "", ""},
  };
  claims.insert(claims.end(), more.begin(), more.end());
  const char* tofino =
      "a share of a Tofino's pipeline; Spillway's switch is a program in the kernel and has none";
  for (const auto& [what, percent] : {std::pair{"SRAM", 5.1},
                                      {"TCAM", 0.0},
                                      {"VLIW", 2.6},
                                      {"hash-bits", 4.0},
                                      {"stateful-ALUs", 2.1},
                                      {"map-RAM", 5.6},
                                      {"exact-match-crossbar", 2.9}})
    claims.push_back({std::string("II-") + what, "II", fmt::format("{} of the switch that P4Mite uses", what),
                      fmt::format("{:.1f} %", percent), NoTofino, tofino, "", tofino});
  std::stable_sort(claims.begin(), claims.end(),
                   [](const Claim& a, const Claim& b) { return Place(a.figure) < Place(b.figure); });
  return claims;
}

const PaperFigure* Find(const PaperFigures& figures, const std::string& name) {
  const auto found = figures.find(name == "I" ? "4a" : name);
  return found == figures.end() || found->second.readings.empty() ? nullptr : &found->second;
}

// "Table I" for roman numbers.
std::string Title(const std::string& figure) { return (figure[0] == 'I' ? "table " : "figure ") + figure; }

// Which other readings of the paper bear the claim out.
std::string HoldsWith(const Claim& claim, const PaperFigure& figure) {
  std::string text;
  for (size_t i = 1; i < figure.readings.size(); i++) {
    const PaperFinding other = claim.judge(figure.readings[i], figure);
    if (other.matches.value_or(false))
      text += fmt::format("{}{} ({})", text.empty() ? "it holds with " : "; with ",
                          figure.readings[i].reading, other.figure);
  }
  return text;
}

std::string Joined(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + "; " + second;
}

std::string SimulatorReason(const Claim& claim, const PaperFigure* figure, const PaperFinding& found) {
  if (found.matches.value_or(false)) return "";
  const std::string reason = Joined(claim.simulator_reason, figure ? HoldsWith(claim, *figure) : "");
  return reason.empty() ? "no reading of the paper that was tried bears it out" : reason;
}

std::string LabReason(const Claim& claim, const PaperFinding& found) {
  if (found.matches.value_or(false)) return "";
  if (found.figure.empty()) return claim.lab_absent;
  if (!claim.lab_reason.empty()) return claim.lab_reason;
  return found.matches ? "not explained: see what the lab's report has" : kRealUnits;
}

}  // namespace

std::optional<bool> PaperRow::Matches() const {
  if (!simulator.matches && !lab.matches) return std::nullopt;
  return simulator.matches.value_or(true) && lab.matches.value_or(true);
}

std::vector<PaperRow> JudgePaper(const PaperFigures& simulator, const PaperFigures* lab) {
  std::vector<PaperRow> rows;
  for (const Claim& claim : Claims()) {
    PaperRow& row = rows.emplace_back(claim.id, Title(claim.figure), claim.claim, claim.paper, PaperFinding(),
                                      PaperFinding(), "");
    const PaperFigure* figure = Find(simulator, claim.figure);
    if (figure) row.simulator = claim.judge(figure->readings[0], *figure);
    const std::string simulator_reason = SimulatorReason(claim, figure, row.simulator);
    std::string lab_reason;
    if (lab != nullptr) {
      if (const PaperFigure* measured = Find(*lab, claim.figure))
        row.lab = claim.judge(measured->readings[0], *measured);
      lab_reason = LabReason(claim, row.lab);
    }
    if (simulator_reason == lab_reason)
      row.reason = simulator_reason;
    else
      row.reason = Joined(simulator_reason.empty() ? "" : "simulator: " + simulator_reason,
                          lab_reason.empty() ? "" : "lab: " + lab_reason);
  }
  return rows;
}

}  // namespace spillway::lab
