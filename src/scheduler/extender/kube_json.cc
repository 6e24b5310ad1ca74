// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extender/kube_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace spillway::scheduler {
namespace {

using nlohmann::json;

constexpr int kDeepest = 100;

bool TooDeep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if ((c == '{' || c == '[') && ++depth > kDeepest) return true;
    if (c == '}' || c == ']') --depth;
  }
  return false;
}

bool SameWord(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

Result<json> ParseKubeJson(std::string_view text) {
  if (TooDeep(text))
    return Fail(ErrorCode::kBadInput, fmt::format("expected JSON nested {} deep at most", kDeepest));
  json value = json::parse(text, nullptr, false);
  if (!value.is_object()) return Fail(ErrorCode::kBadInput, "expected a JSON object");
  return value;
}

const json* Find(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const json* FindAnyCase(const json& object, std::string_view key) {
  if (const json* exact = Find(object, key)) return exact;
  if (!object.is_object()) return nullptr;
  for (const auto& item : object.items())
    if (SameWord(item.key(), key) && !item.value().is_null()) return &item.value();
  return nullptr;
}

std::string TextAt(const json& object, std::string_view key) {
  const json* value = Find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

std::optional<double> ParseQuantity(const json& value) {
  if (value.is_number()) {
    const double number = value.get<double>();
    return number >= 0 ? std::optional(number) : std::nullopt;
  }
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  // "1E" is an exa: an exponent needs its digits, which is what from_chars asks for, too.
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0) || !std::isfinite(number)) return std::nullopt;
  const std::string_view suffix(rest, static_cast<size_t>(text.data() + text.size() - rest));
  constexpr std::string_view kDecimal = "num kMGTPE", kBinary = "KMGTPE";  // 10^-9 .. 10^18; 2^10 .. 2^60
  if (suffix.empty()) return number;
  if (suffix.size() == 1 && suffix != " ")
    if (const size_t at = kDecimal.find(suffix[0]); at != std::string_view::npos)
      return number * std::pow(1000.0, static_cast<double>(at) - 3);
  if (suffix.size() == 2 && suffix[1] == 'i')
    if (const size_t at = kBinary.find(suffix[0]); at != std::string_view::npos)
      return number * std::pow(1024.0, static_cast<double>(at) + 1);
  return std::nullopt;
}

}  // namespace spillway::scheduler
