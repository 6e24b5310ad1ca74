// SPDX-License-Identifier: Apache-2.0
// spillway doctor.
#include "verbs.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/print.h"
#include "cli/client_output.h"
#include "cli/doctor.h"
#include "command/exit_code.h"
#include "report/table.h"

namespace spillway::command {
namespace {

const char* Verdict(const Finding& finding) {
  if (finding.present) return finding.is_sure ? "ok" : "unknown";
  if (finding.need == Need::kRequired) return "MISSING";
  return finding.feature.starts_with("interface ") ? "unfit" : "absent";
}

int Doctor(const Context& context, const std::string& bpffs, const std::vector<std::string>& interfaces) {
  const std::vector<Finding> findings = Examine(bpffs, interfaces);
  report::Table table(
      {{"feature", "FEATURE"}, {"verdict", ""}, {"needed_by", "NEEDED BY"}, {"detail", "DETAIL"}});
  std::string missing, unfit;
  nlohmann::json rows = nlohmann::json::array();
  for (const Finding& f : findings) {
    const std::string verdict = Verdict(f);
    if (!f.present && f.need == Need::kRequired) missing += (missing.empty() ? "" : ", ") + f.feature;
    if (verdict == "unfit") unfit += (unfit.empty() ? "" : ", ") + f.feature;
    table.AddRow({f.feature, verdict, f.needed_by, f.detail});
    rows.push_back({{"feature", f.feature},
                    {"verdict", verdict},
                    {"present", f.present},
                    {"required", f.need == Need::kRequired},
                    {"needed_by", f.needed_by},
                    {"detail", f.detail}});
  }
  const bool good = missing.empty() && unfit.empty();  // whoever names an interface wants to use it
  if (context.json)
    PrintJson({{"ok", good}, {"findings", rows}});
  else
    base::Print("{}", table.Text());
  if (!missing.empty()) base::PrintError("spillway: required and missing: {}\n", missing);
  if (!unfit.empty()) base::PrintError("spillway: unfit for the switch: {}\n", unfit);
  return good ? kExitOk : kExitFailed;
}

}  // namespace

void AddDoctorVerbs(CLI::App& app, Context& context) {
  auto bpffs = std::make_shared<std::string>("/sys/fs/bpf");
  CLI::App* doctor = app.add_subcommand("doctor", "Check this machine: kernel, privileges, interfaces");
  doctor->add_option("--bpffs", *bpffs, "BPF file system to look at")->capture_default_str();
  auto interfaces = std::make_shared<std::vector<std::string>>();
  doctor->add_option(
      "INTERFACE", *interfaces,
      "Interfaces of the switch: are their offloads and drivers fit for XDP? Exit code 1 if not");
  doctor->callback([bpffs, interfaces, &context] {
    context.action = [bpffs, interfaces, &context] { return Doctor(context, *bpffs, *interfaces); };
  });
}

}  // namespace spillway::command
