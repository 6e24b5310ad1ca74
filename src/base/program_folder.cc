// SPDX-License-Identifier: Apache-2.0
#include "program_folder.h"

#include <filesystem>

namespace spillway::base {

std::string ProgramFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace spillway::base
