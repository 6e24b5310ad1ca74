// SPDX-License-Identifier: Apache-2.0
// What verbs of `spillway bench` have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "report/document.h"

namespace CLI {
class App;
}

namespace spillway::command {

using OnBenchProgress = std::function<void(double fraction, const std::string& message)>;

// The document's rows as a table.
[[nodiscard]] std::string RowsText(const report::Document& document);

// Runs a benchmark, with its progress on stderr under the label "bench NAME", and prints what it found: the
// document, or `text` of it. The exit code.
int RunAndPrint(const std::string& name, bool as_json,
                const std::function<Result<report::Document>(const OnBenchProgress&)>& run,
                const std::function<std::string(const report::Document&)>& text = RowsText);

// Flow tables: powers of two from 1,024 to 2^28.
void AddTableEntries(CLI::App& verb, uint32_t& entries, const std::string& help);

}  // namespace spillway::command
