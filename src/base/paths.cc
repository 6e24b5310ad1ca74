// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace spillway::base {

std::string AbsolutePath(const std::filesystem::path& path) {
  std::error_code gone;
  const auto absolute = std::filesystem::absolute(path, gone);
  return (gone ? path : absolute).lexically_normal().string();
}

Result<std::string> TemporaryFolder() {
  std::error_code failed;
  const auto folder = std::filesystem::temp_directory_path(failed);
  if (!failed) return folder.string();
  return Fail(ErrorCode::kBadInput, "TMPDIR: expected a folder for temporary files: " + failed.message());
}

Result<std::string> MakeTemporaryFolder(const std::string& name) {
  auto folder = TemporaryFolder();
  if (!folder) return folder;
  std::string path = *folder + "/" + name + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr)
    return Fail(ErrorCode::kSystem, "create folder " + path + ": " + std::strerror(errno));
  return path;
}

std::string ProgramFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace spillway::base
