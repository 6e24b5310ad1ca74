// SPDX-License-Identifier: Apache-2.0
#include "extender_check.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "api/listen.h"
#include "extender/extender.h"
#include "model/documents.h"

namespace spillway::extender {

namespace {

// Why a file that a key names cannot be read; empty: it can.
std::string WhyUnreadable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return path + ": a directory";
  errno = 0;
  if (!std::ifstream(path)) return fmt::format("{}: {}", path, std::strerror(errno));
  return "";
}

}  // namespace

Result<void> CheckExtender(const std::string& file, const model::Config& config) {
  if (!config.extender) return {};
  const model::ExtenderConfig& extender = *config.extender;
  const auto bad = [&](const char* key, const std::string& text) {
    return Fail(ErrorCode::kBadInput, fmt::format("{}: extender.{}: {}", file, key, text));
  };
  if (const auto good = api::CheckEndpoint(extender.listen); !good)
    return bad("listen", good.error().message);
  const std::pair<const char*, std::string> files[] = {
      {"token_file", extender.token_file}, {"ca_file", extender.ca_file}, {"cluster", extender.cluster}};
  for (const auto& [key, path] : files) {
    if (path.empty()) continue;
    if (const std::string why = WhyUnreadable(path); !why.empty())
      return bad(key, "expected a readable file, got " + why);
    if (const auto text = model::ReadInputFile(path); !text) return tl::make_unexpected(text.error());
  }
  return extender::LoadCluster(extender).map([](const scheduler::ClusterFile&) {});
}

}  // namespace spillway::extender
