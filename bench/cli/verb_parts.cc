// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/verb_parts.h"

#include <bit>

#include "base/print.h"
#include "command/exit_code.h"
#include "command/output.h"
#include "report/progress.h"
#include "report/table.h"

namespace spillway::command {

std::string RowsText(const report::Document& document) {
  return report::Table::FromRows(document.rows()).Text();
}

int RunAndPrint(const std::string& name, bool as_json,
                const std::function<Result<report::Document>(const OnBenchProgress&)>& run,
                const std::function<std::string(const report::Document&)>& text) {
  report::Progress progress("bench " + name);
  const auto document =
      run([&](double fraction, const std::string& message) { progress.Update(fraction, message); });
  if (!document) return Complain(document.error());
  progress.Finish("done");
  base::Print("{}", as_json ? document->Dump() : text(*document));
  return kExitOk;
}

void AddTableEntries(CLI::App& verb, uint32_t& entries, const std::string& help) {
  const CLI::Validator power_of_two(
      [](const std::string& text) {
        return std::has_single_bit(std::stoul(text)) ? std::string() : text + " is no power of two";
      },
      "");
  verb.add_option("--table-entries", entries, help)
      ->check(CLI::Range(1u << 10, 1u << 28) & power_of_two)
      ->capture_default_str();
}

}  // namespace spillway::command
