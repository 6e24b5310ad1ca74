// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"

namespace spillway::report {

Result<void> MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Fail(ErrorCode::kSystem, fmt::format("{}: create folder: {}", folder, error.message()));
  return {};
}

Result<void> WriteFile(const std::string& path, std::string_view text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty())
    if (auto made = MakeFolder(folder.string()); !made) return made;
  return base::WriteOutput(path, text);
}

}  // namespace spillway::report
