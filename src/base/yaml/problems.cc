// SPDX-License-Identifier: Apache-2.0
#include "base/yaml/problems.h"

#include <fmt/format.h>

#include <vector>

#include "base/print.h"

namespace spillway::yaml {

std::string Excerpt(std::string_view text) {
  constexpr size_t kShown = 60;
  std::string shown = "\"";
  for (unsigned char c : text.substr(0, kShown)) {
    if (c == '"' || c == '\\') {
      shown += '\\';
      shown += static_cast<char>(c);
    } else if (c >= 0x20 && c < 0x7f) {
      shown += static_cast<char>(c);
    } else {
      shown += fmt::format("\\x{:02x}", c);
    }
  }
  return shown + (text.size() > kShown ? "...\"" : "\"");
}

void Problems::Add(int line, const std::string& path, const std::string& text) {
  count_++;
  spoiled_.insert(path);
  told_.emplace(line, path.empty() ? text : fmt::format("{}: {}", path, text));
}

int Problems::LineOf(std::string path) const {
  while (!path.empty()) {
    auto found = lines_.find(path);
    if (found != lines_.end()) return found->second;
    auto cut = path.find_last_of(".[");  // dots within [..] only cost a few more steps
    path.resize(cut == path.npos ? 0 : cut);
  }
  return 1;
}

Error Problems::ToError() const {
  const std::string file = base::Printable(file_name_);
  const auto at = [&](int line) { return file.empty() ? "" : fmt::format("{}:{}: ", file, line); };
  std::string message;
  size_t shown = 0;
  for (const auto& [line, text] : told_) {
    if (shown++ > 0) message += '\n';
    if (shown > kMaxProblems) {
      message += fmt::format("{}and {} more problems from here on", at(line), count_ - kMaxProblems);
      break;
    }
    message += at(line) + text;
  }
  return {ErrorCode::kBadInput, message};
}

}  // namespace spillway::yaml
