// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "base/print.h"

namespace spillway::report {

Result<void> MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error == std::errc::not_a_directory || error == std::errc::file_exists)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected a folder, got a file", base::Printable(folder)));
  if (error)
    return Fail(ErrorCode::kSystem,
                fmt::format("{}: create folder: {}", base::Printable(folder), error.message()));
  return {};
}

Result<void> WriteFile(const std::string& path, std::string_view text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty())
    if (auto made = MakeFolder(folder.string()); !made) return made;
  return base::WriteOutput(path, text);
}

}  // namespace spillway::report
