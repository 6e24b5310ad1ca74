// SPDX-License-Identifier: Apache-2.0
#include "gateway/protocol/token.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/yaml/documents.h"
#include "base/yaml/scalars.h"

namespace spillway::gateway {

bool SameToken(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < a.size(); i++) differs |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differs == 0;
}

std::string ReadToken(yaml::Problems& problems, const yaml::Field& field, const std::string& file_name,
                      const std::string& whose) {
  const auto name = yaml::ReadText(problems, field, "a file with " + whose);
  if (!name) return "";
  std::filesystem::path path = *name;
  if (path.is_relative()) path = std::filesystem::path(file_name).parent_path() / path;
  const auto text = yaml::ReadInputFile(path.string());
  struct stat status {};
  if (text && stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    problems.Add(
        field.line, field.path,
        fmt::format(
            "expected a file that others may not read and its group may not write, such as mode 0640 or "
            "0600, got mode {:04o}",
            status.st_mode & 07777));
    return "";
  }
  if (!text) {
    problems.Add(field.line, field.path, text.error().message);
    return "";
  }
  std::string token = *text;
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool printable =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 127; });
  if (token.size() >= 8 && token.size() <= 256 && printable) return token;
  problems.Add(field.line, field.path, "expected a file with 8 to 256 printable characters and no spaces");
  return "";
}

}  // namespace spillway::gateway
