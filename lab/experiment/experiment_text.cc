// SPDX-License-Identifier: Apache-2.0
// What an experiment's rows say, in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiment_report.h"
#include "prediction.h"

namespace spillway::lab {
namespace {

bool HasQuota(const ExperimentSpec& spec) {
  for (const ServerSpec& server : spec.testbed.servers)
    for (const UnitSpec& unit : server.units)
      if (unit.quota) return true;
  return false;
}

// What ran: "2 servers of 2 units, dnsperf as client (constant arrivals). blind is unit policy ...".
std::string WhatRan(const ExperimentSpec& spec) {
  std::string policies;
  for (const PolicyRun& p : spec.policies) {
    const std::string word = model::ToString(p.unit_policy);
    if (p.name != word && !p.name.ends_with("+" + word))
      policies += fmt::format(" {} is unit policy {}{}.", p.name, word,
                              p.balancer == BalancerPlace::kNic ? " by a balancer on the NIC" : "");
  }
  const bool dnsperf = spec.client == LoadClient::kDnsperf;
  const size_t servers = spec.testbed.servers.size();
  return fmt::format("{} of {} units, {} as client ({} arrivals).{}",
                     servers == 1 ? "One server" : fmt::format("{} servers", servers),
                     spec.testbed.servers.front().units.size(), dnsperf ? "dnsperf" : "spillway-load",
                     ToString(spec.arrivals), policies);
}

std::string FullLoad(const ExperimentSpec& spec, const Calibration& c) {
  return fmt::format(
      "100 % load is {:.0f} requests/s, {}", c.full_rps,
      c.stated ? "as stated"
               : fmt::format("the most of which {:g} % were answered in time under {} (found within {:g} %)",
                             100 - spec.tolerated_loss_pct, model::ToString(spec.capacity_under),
                             spec.capacity_within_pct));
}

// "Interrupted: 3 of 6 rounds were played at 80 % load, none at 90 %, 100 %."
std::string InterruptedText(const ExperimentSpec& spec, const std::vector<Row>& rows) {
  std::vector<std::string> parts;
  std::vector<double> missing;
  const std::string& first = spec.policies.front().name;
  for (double load : spec.load_pct) {
    const Row* row = FindRow(rows, first, load);
    if (row == nullptr) missing.push_back(load);
  }
  for (const Row& row : rows)
    if (row.policy == first && row.interrupted)
      parts.push_back(
          fmt::format("{} of {} rounds were played at {:.0f} % load", row.slices, spec.rounds, row.load_pct));
  if (!missing.empty())
    parts.push_back(fmt::format("{} at {}", parts.empty() ? "no round was played" : "none", Loads(missing)));
  return fmt::format("Interrupted: {}{}only rounds that all policies finished count.\n",
                     fmt::join(parts, ", "), parts.empty() ? "" : "; ");
}

// How the machine behaved, and the client.
std::string MachineText(const ExperimentSpec& spec, const Results& results) {
  int slices = 0, replays = 0, disturbed = 0, slow = 0;
  double least_sent = 100;
  std::optional<double> late;
  for (const Row& row : results.rows) {
    slices += row.slices;
    replays += row.replays;
    disturbed += row.disturbed;
    slow += row.slow;
    least_sent = std::min(least_sent, row.sent_pct);
    if (row.late_p99_ms) late = std::max(late.value_or(0), *row.late_p99_ms);
  }
  std::string text = results.interrupted ? InterruptedText(spec, results.rows) : "";
  text += fmt::format(
      "Machine: {} slices of all policies together; {} were played again because the machine was disturbed "
      "(a CPU woke over {:g} ms "
      "late, or over {:g} % of CPU time was stolen) or slow (a request took over {:g} times its CPU time in "
      "other slices), {} were kept though it was disturbed, {} though it was slow.",
      slices, replays, Disturbance::kLateWakeMs, Disturbance::kMaxStolenPct, kSlow, disturbed, slow);
  if (!results.realtime_watch)
    text += " Without real-time priority the watch also counts delays by the testbed's own work.";
  if (spec.client == LoadClient::kDnsperf)
    text += fmt::format(" Client: sent at least {:.1f} % of what it should.", least_sent);
  else if (late)
    text += fmt::format(" Client: requests left up to {:.2f} ms late (p99 of the worst slice).", *late);
  return text + "\n";
}

// Against a balancer on the NIC: before the switch gives out, the client and the units of this machine do.
const char* AtLeast(const ExperimentSpec& spec, const Finding& finding) {
  const auto place = [&](const std::string& name) {
    const auto policy = std::find_if(spec.policies.begin(), spec.policies.end(),
                                     [&](const PolicyRun& p) { return p.name == name; });
    return policy == spec.policies.end() ? BalancerPlace::kSwitch : policy->balancer;
  };
  const bool nic = place(spec.policies[spec.baseline].name) == BalancerPlace::kNic;
  return nic && place(finding.policy) == BalancerPlace::kSwitch ? "at least " : "";
}

// "better at 40 %; no difference shown at 60 %".
std::string P99Text(const Finding& finding) {
  std::vector<std::string> parts;
  const auto add = [&](P99Verdict verdict, const std::vector<double>& loads) {
    if (!loads.empty()) parts.push_back(fmt::format("{} at {}", ToString(verdict), Loads(loads)));
  };
  add(P99Verdict::kBetter, finding.better_pct);
  add(P99Verdict::kNoDifference, finding.same_pct);
  add(P99Verdict::kWorse, finding.worse_pct);
  add(P99Verdict::kHarmful, finding.harmful_pct);
  add(P99Verdict::kTooFewRounds, finding.unjudged_pct);
  return fmt::format("{}", fmt::join(parts, "; "));
}

// The loads at which there is a verdict.
std::vector<double> JudgedPct(const Finding& finding) {
  std::vector<double> judged;
  for (const auto* loads : {&finding.better_pct, &finding.same_pct, &finding.worse_pct, &finding.harmful_pct})
    judged.insert(judged.end(), loads->begin(), loads->end());
  std::sort(judged.begin(), judged.end());
  return judged;
}

// How verdicts came about, or why there are none.
std::string VerdictsText(const ExperimentSpec& spec, const Results& results) {
  bool judged = false, unjudged = false;
  for (const Finding& finding : results.findings) {
    judged = judged || !JudgedPct(finding).empty();
    unjudged = unjudged || !finding.unjudged_pct.empty();
  }
  const std::string slices =
      fmt::format("{} of {:g} s (seed {})", SlicesText(results.rows), spec.seconds, spec.seed);
  const size_t loads = spec.MostLoads();
  const std::string enough = fmt::format("at least {} slices of each policy{}", RoundsForVerdict(loads),
                                         loads == 1 ? "" : fmt::format(" at each of {} loads", loads));
  if (unjudged && !judged) return fmt::format("Verdicts: none over {}; they take {}.\n", slices, enough);
  return fmt::format(
      "Verdicts: by the interval of the ratio of p99 over {}, {:.0f} % sure for all loads together; harmful: "
      "all of it above {:g}{}.\n",
      slices, 100 * kConfidence, kHarmfulRatio, unjudged ? "; a verdict takes " + enough : "");
}

std::string PolicyText(const ExperimentSpec& spec, const Results& results, const Finding& finding) {
  double highest = 0;
  for (const Row& row : results.rows) highest = std::max(highest, row.load_pct);
  std::string text;
  if (finding.sustained_pct)
    text += fmt::format("{}: sustains {:.0f} % load{} ({})", finding.policy, *finding.sustained_pct,
                        *finding.sustained_pct == highest ? ", the highest tried" : "",
                        RateText(spec, results, finding.policy, *finding.sustained_pct));
  else
    text += fmt::format("{}: loses requests at the lowest load already", finding.policy);
  if (finding.first_loss && finding.loses_from_pct)
    text += fmt::format("; half of its slices begin to lose between {:.0f} and {:.0f} %",
                        finding.all_answered_pct, finding.first_loss->load_pct);
  else if (!finding.first_loss && finding.sustained_pct != highest)
    text += fmt::format("; at least half of its slices answer all up to {:.0f} %", highest);
  const std::string& baseline = spec.policies[spec.baseline].name;
  if (finding.over_baseline)
    text += fmt::format(", at {}{:.2f} times the load of {}",
                        finding.first_loss ? AtLeast(spec, finding) : "at least ", *finding.over_baseline,
                        baseline);
  if (finding.over_best && results.findings.size() > 2)
    text += fmt::format(", {:.2f} of the best's", *finding.over_best);
  if (!finding.disturbed_pct.empty())
    text += fmt::format("; at {} it lost some, though more was answered later: the machine, not the load",
                        Loads(finding.disturbed_pct));
  text += ".\n";
  if (finding.policy == baseline) return text;
  return text + fmt::format("  p99 against {}: {}.\n  {}\n", baseline, P99Text(finding),
                            Conclusion(spec, results, finding));
}

}  // namespace

std::string Loads(const std::vector<double>& loads) {
  std::vector<std::string> words;
  for (double load : loads) words.push_back(fmt::format("{:.0f} %", load));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string RateText(const ExperimentSpec& spec, const Results& results, const std::string& policy,
                     double load_pct) {
  constexpr double kEnoughSentPct = 98;
  const double rate = results.calibration.full_rps * spec.RatePctAt(load_pct) / 100;
  const Row* row = FindRow(results.rows, policy, load_pct);
  return fmt::format("{:.0f} requests/s{}", rate,
                     row == nullptr || row->sent_pct >= kEnoughSentPct
                         ? ""
                         : fmt::format(", of which the client sent {:.1f} %", row->sent_pct));
}

int MostSlices(const std::vector<Row>& rows) {
  int most = 0;
  for (const Row& row : rows) most = std::max(most, row.slices);
  return most;
}

std::string SlicesText(const std::vector<Row>& rows) {
  const int most = MostSlices(rows);
  std::vector<std::string> fewer;
  for (const Row& row : rows)
    if (row.slices < most && row.policy == rows.front().policy)
      fewer.push_back(fmt::format("{} at {:.0f} %", row.slices, row.load_pct));
  return fmt::format("{} slice{}{}", most, most == 1 ? "" : "s",
                     fewer.empty() ? "" : fmt::format(" ({})", fmt::join(fewer, ", ")));
}

std::string HowMeasured(const ExperimentSpec& spec, const Results& results) {
  const Calibration& c = results.calibration;
  std::string units;
  for (const Calibration::Unit& unit : c.units)
    units += fmt::format("{}{} {:.0f}/s{}", units.empty() ? "" : ", ", unit.label, unit.rps,
                         unit.measured ? "" : " (taken over from its like)");
  return WhatRan(spec) + " " + FullLoad(spec, c) + (units.empty() ? "" : " (alone: " + units + ")") +
         fmt::format(
             ". {} of {:g} s of each policy at each load, all policies in each round, in random order "
             "(seed {}). Percentiles are over all slices, and the band is their {:.0f} % interval. A request "
             "is "
             "lost if it gets no answer, or one after more than {:.1f} ms: ten times the unloaded latency of "
             "{:.1f} ms{}. In the percentiles a request without an answer stands for the client's time-out.",
             SlicesText(results.rows), spec.seconds, spec.seed, 100 * kConfidence, c.limit_ms, c.unloaded_ms,
             HasQuota(spec) ? " (taken to be at least the period of the units' CPU quotas)" : "");
}

std::string Conclusion(const ExperimentSpec& spec, const Results& results, const Finding& finding) {
  const std::string& baseline = spec.policies[spec.baseline].name;
  // What a policy lost to the machine says nothing of the policy.
  const auto answers = [&](const Row& row) {
    if (row.answered_pct >= 100 - spec.tolerated_loss_pct) return true;
    const auto own = std::ranges::find(results.findings, row.policy, &Finding::policy);
    return own != results.findings.end() && std::ranges::count(own->disturbed_pct, row.load_pct) > 0;
  };
  std::vector<double> rescued, lost;
  for (const Row& row : results.rows) {
    const Row* other = row.policy == finding.policy ? FindRow(results.rows, baseline, row.load_pct) : nullptr;
    if (other == nullptr) continue;
    if (answers(row) && !answers(*other)) rescued.push_back(row.load_pct);
    if (!answers(row) && answers(*other)) lost.push_back(row.load_pct);
  }
  std::string text = finding.policy;
  if (!rescued.empty()) text += fmt::format(" answers what {} loses at {};", baseline, Loads(rescued));
  if (!lost.empty()) text += fmt::format(" loses what {} answers at {};", baseline, Loads(lost));
  std::vector<double> above = finding.worse_pct;
  above.insert(above.end(), finding.harmful_pct.begin(), finding.harmful_pct.end());
  std::sort(above.begin(), above.end());
  if (!above.empty()) return text + " is slower at " + Loads(above) + ".";
  const std::vector<double> judged = JudgedPct(finding);
  if (judged.empty())
    return text + fmt::format(" has too few slices for a comparison of latencies (at least {}).",
                              RoundsForVerdict(spec.MostLoads()));
  return text + (finding.unjudged_pct.empty() ? " is nowhere shown to be slower."
                                              : " is not shown to be slower at " + Loads(judged) + ".");
}

std::string FindingsText(const ExperimentSpec& spec, const Results& results) {
  std::string text = WhatRan(spec) + "\n";
  for (const Finding& finding : results.findings) text += PolicyText(spec, results, finding);
  std::string off;
  for (const PolicyRun& policy : spec.policies)
    if (auto a = AccuracyOf(results.rows, policy.name))
      off += fmt::format("{}{} {:.2f} and {:.2f}", off.empty() ? "" : ", ", policy.name, a->p50_ratio,
                         a->p99_ratio);
  if (!off.empty()) text += "Measured over simulated, median of the levels, p50 and p99: " + off + ".\n";
  if (const auto agreement = AgreementOf(results.rows)) text += AgreementText(*agreement);
  text += fmt::format(
      "{}. rps: what the client sent; answered_pct: answered within {:.0f} ms, of all that was sent; "
      "sustained: at least {:g} %.\n",
      FullLoad(spec, results.calibration), results.calibration.limit_ms, 100 - spec.tolerated_loss_pct);
  return text + VerdictsText(spec, results) + MachineText(spec, results);
}

std::string ResultText(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts) {
    if (!part.spec.app.empty()) text += part.spec.app + "\n";
    text += ResultTable(part.results).Text() + "\n" + FindingsText(part.spec, part.results);
    if (&part != &parts.back()) text += "\n";
  }
  return text;
}

}  // namespace spillway::lab
