// SPDX-License-Identifier: Apache-2.0
#include "command/report_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/print.h"

namespace spillway::command {

Result<void> CheckParent(const char* option, const std::string& path) {
  if (path.empty()) return {};
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();  // "out/"
  const auto parent = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  std::error_code ignored;
  if (std::filesystem::is_directory(parent, ignored)) return {};
  return Fail(ErrorCode::kBadInput, fmt::format("{} {}: parent directory {} does not exist", option,
                                                base::Printable(path), base::Printable(parent.string())));
}

Result<void> WriteReport(const std::string& folder, const report::HtmlPage& page,
                         const report::Document& document, bool tell) {
  if (folder.empty()) return {};
  if (auto written = document.Write(folder + "/report.json"); !written) return written;
  if (auto written = page.Write(folder + "/report.html"); !written) return written;
  if (tell) base::Print("{}/report.html\n", folder);
  return {};
}

}  // namespace spillway::command
