// SPDX-License-Identifier: Apache-2.0
#include "experiment.h"

#include <fmt/format.h>

#include <filesystem>

#include "experiment_report.h"
#include "lab/testbed/interrupt.h"
#include "report/progress.h"
#include "sweep.h"

namespace spillway::lab {
namespace {

// Parts of the whole by the time they take.
constexpr double kUpShare = 0.03, kCalibrateShare = 0.07;

Result<Results> Measure(const ExperimentSpec& spec, report::Progress& progress) {
  progress.Update(0, "putting the testbed up");
  auto testbed = Testbed::Up(spec.testbed, {});
  if (!testbed) return tl::make_unexpected(testbed.error());
  auto calibration = Calibrate(spec, **testbed, [&](double part, const std::string& what) {
    progress.Update(kUpShare + part * kCalibrateShare, what);
  });
  if (!calibration) return tl::make_unexpected(calibration.error());
  auto rounds = Sweep(spec, **testbed, *calibration, [&](double part, const std::string& what) {
    const double before = kUpShare + kCalibrateShare;
    progress.Update(before + part * (1 - before), what);
  });
  if (!rounds) return tl::make_unexpected(rounds.error());
  progress.Update(1, "taking the testbed down");
  Results results;
  results.calibration = *calibration;
  results.rows = Summarise(*rounds);
  results.verdicts = Judge(results.rows, spec.tolerated_loss_pct);
  return results;
}

}  // namespace

Result<ExperimentOutput> RunExperiment(const ExperimentSpec& spec, const std::string& out_folder) {
  report::Progress progress(spec.name);
  auto results = Measure(spec, progress);
  if (!results) return tl::make_unexpected(results.error());
  progress.Finish("done");
  const report::Document document = ResultDocument(spec, *results);
  ExperimentOutput output{ResultTable(*results).Text() + "\n" + FindingsText(spec, *results),
                          document.Dump()};
  if (out_folder.empty()) return output;
  const std::string page = out_folder + "/report.html";
  if (auto written = document.Write(out_folder + "/report.json"); !written)
    return tl::make_unexpected(written.error());
  if (auto written = ResultPage(spec, *results, document).Write(page); !written)
    return tl::make_unexpected(written.error());
  output.text += fmt::format("{}\n", page);
  return output;
}

}  // namespace spillway::lab
