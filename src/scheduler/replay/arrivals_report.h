// SPDX-License-Identifier: Apache-2.0
// The arrivals experiment as a document, a table and a page.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/html_page.h"
#include "scheduler/replay/arrivals_experiment.h"

namespace spillway::scheduler {

[[nodiscard]] report::Document ArrivalsDocument(const std::string& list, const std::vector<ArrivalsRun>& runs,
                                                const ArrivalsOptions& options);
[[nodiscard]] std::string ArrivalsText(const report::Document& document);
[[nodiscard]] report::HtmlPage ArrivalsPage(const std::string& list, const std::vector<ArrivalsRun>& runs,
                                            const report::Document& document);

}  // namespace spillway::scheduler
