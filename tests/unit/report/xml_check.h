// SPDX-License-Identifier: Apache-2.0
// A small well-formedness check for the tests: tags nest and close, attributes are quoted, no stray "&".
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::report {

// Empty when `xml` is well-formed (as far as the charts' subset goes), else what is wrong.
inline std::string XmlFault(std::string_view xml) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < xml.size();) {
    if (xml[i] == '&') {
      const std::size_t end = xml.find(';', i);
      if (end == std::string_view::npos || end - i > 7) return "stray & at " + std::to_string(i);
    }
    if (xml[i] != '<') {
      ++i;
      continue;
    }
    const std::size_t end = xml.find('>', i);
    if (end == std::string_view::npos) return "tag never ends";
    std::string_view tag = xml.substr(i + 1, end - i - 1);
    if (tag.find('<') != std::string_view::npos) return "tag inside a tag: " + std::string(tag);
    i = end + 1;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "unexpected </" + std::string(tag.substr(1));
      open.pop_back();
      continue;
    }
    std::size_t quotes = 0;
    for (char c : tag) quotes += c == '"';
    if (quotes % 2 != 0) return "unbalanced quotes in " + std::string(tag);
    if (tag.back() != '/') open.emplace_back(tag.substr(0, tag.find_first_of(" \t\n")));
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

}  // namespace spillway::report
