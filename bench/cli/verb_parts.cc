// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/verb_parts.h"

#include <CLI/CLI.hpp>
#include <bit>

#include "base/print.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
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
        uint32_t value = 0;
        const bool is_one = CLI::detail::lexical_cast(text, value) && std::has_single_bit(value);
        return is_one ? std::string() : "expected a power of two, got " + text;
      },
      "");
  verb.add_option("--table-entries", entries, help)
      ->check(InRange(1u << 10, 1u << 28) & power_of_two)
      ->capture_default_str();
}

}  // namespace spillway::command
