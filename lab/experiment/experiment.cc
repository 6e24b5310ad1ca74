// SPDX-License-Identifier: Apache-2.0
#include "experiment.h"

#include <fmt/format.h>

#include <functional>

#include "base/signals.h"
#include "experiment_report.h"
#include "prediction.h"
#include "report/progress.h"
#include "sweep.h"

namespace spillway::lab {
namespace {

// Parts of the whole by the time they take.
constexpr double kUpShare = 0.03, kCalibrateShare = 0.12;
constexpr int kMaxLostStages = 2;  // larger requests would show nothing more

using OnPart = std::function<void(double, const std::string&)>;

// One testbed; with larger requests at each level, one after the other.
Result<Results> Measure(const ExperimentSpec& spec, const OnPart& on_part) {
  const bool grows = spec.grow == ExperimentSpec::Grow::kWork;
  std::vector<std::vector<double>> stages;
  if (grows)
    for (double level : spec.load_pct) stages.push_back({level});
  else
    stages.push_back(spec.load_pct);
  Results results;
  MachineWatch watch(CpusToWatch(spec.testbed.cpus.client, spec.testbed.cpus.units));
  int all_lost = 0;  // successive stages of larger requests
  for (size_t i = 0; i < stages.size() && all_lost < kMaxLostStages && !results.interrupted; i++) {
    const auto step = [&](double part, const std::string& what) {
      on_part((static_cast<double>(i) + part) / static_cast<double>(stages.size()), what);
    };
    step(0, "creating the testbed");
    auto testbed = Testbed::Up(WithWork(spec.testbed, spec.WorkAt(stages[i].front())), {});
    if (!testbed) {
      if (!base::Interrupted() || results.rows.empty()) return tl::make_unexpected(testbed.error());
      results.interrupted = true;
      break;
    }
    Bed bed(spec, **testbed);
    if (i == 0) {
      auto calibration = Calibrate(bed, watch, [&](double part, const std::string& what) {
        step(kUpShare + part * kCalibrateShare, what);
      });
      if (!calibration) return tl::make_unexpected(calibration.error());
      results.calibration = *calibration;
    }
    auto swept = Sweep(bed, watch, stages[i], results.calibration, [&](double part, const std::string& what) {
      const double before = kUpShare + kCalibrateShare;
      step(before + part * (1 - before), what);
    });
    if (!swept) return tl::make_unexpected(swept.error());
    results.rows.insert(results.rows.end(), swept->rows.begin(), swept->rows.end());
    results.interrupted = swept->interrupted;
    if (grows) all_lost = AllLost(swept->rows, stages[i].front(), spec.tolerated_loss_pct) ? all_lost + 1 : 0;
    step(1, "removing the testbed");
  }
  results.realtime_watch = watch.realtime();
  if (results.interrupted && results.rows.empty()) return Fail(ErrorCode::kUnavailable, "interrupted");
  if (spec.predict && !results.interrupted)
    AddPredictions(spec, results.calibration, CpusOf(spec.testbed), results.rows);
  results.findings = Judge(results.rows, spec.policies[spec.baseline].name, spec.tolerated_loss_pct,
                           results.calibration.limit_ms / 1e3 / spec.seconds);
  return results;
}

}  // namespace

Result<ExperimentOutput> RunExperiments(const std::string& name, const std::vector<ExperimentSpec>& specs,
                                        const std::string& out_folder) {
  report::Progress progress(name);
  std::vector<Part> parts;
  bool interrupted = false;
  for (const ExperimentSpec& spec : specs) {
    auto results = Measure(spec, [&](double part, const std::string& what) {
      progress.Update((static_cast<double>(parts.size()) + part) / static_cast<double>(specs.size()),
                      spec.app.empty() ? what : spec.app + ": " + what);
    });
    if (base::Interrupted()) interrupted = true;
    if (!results && interrupted && !parts.empty()) break;
    if (!results) return tl::make_unexpected(results.error());
    parts.push_back({spec, std::move(*results)});
    if (interrupted) break;
  }
  interrupted ? progress.Stop("interrupted") : progress.Finish("done");
  const report::Document document = ResultDocument(name, parts);
  ExperimentOutput output{ResultText(parts), document.Dump(), interrupted};
  if (out_folder.empty()) return output;
  const std::string page = out_folder + "/report.html";
  if (auto written = document.Write(out_folder + "/report.json"); !written)
    return tl::make_unexpected(written.error());
  if (auto written = ResultPage(name, parts, document).Write(page); !written)
    return tl::make_unexpected(written.error());
  output.text += fmt::format("{}\n", page);
  return output;
}

}  // namespace spillway::lab
