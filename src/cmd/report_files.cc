// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_files.h"

#include <fmt/format.h>

namespace spillway::cmd {

Result<void> WriteReport(const std::string& folder, const report::HtmlPage& page,
                         const report::Document& document, bool tell) {
  if (folder.empty()) return {};
  if (auto written = document.Write(folder + "/report.json"); !written) return written;
  if (auto written = page.Write(folder + "/report.html"); !written) return written;
  if (tell) fmt::print("{}/report.html\n", folder);
  return {};
}

}  // namespace spillway::cmd
