// SPDX-License-Identifier: Apache-2.0
#include "dns_message.h"

#include <algorithm>
#include <cctype>

namespace spillway::health {
namespace {

constexpr size_t kHeader = 12;
constexpr unsigned char kResponse = 0x80, kRcodeMask = 0x0f;
constexpr uint16_t kClassIn = 1;

void AddNumber(std::string& message, uint16_t value) {
  message += static_cast<char>(value >> 8);
  message += static_cast<char>(value & 0xff);
}

}  // namespace

void SetDnsId(std::string& query, uint16_t id) {
  query[0] = static_cast<char>(id >> 8);
  query[1] = static_cast<char>(id & 0xff);
}

std::string DnsQuery(uint16_t id, const std::string& name, uint16_t type) {
  std::string message;
  AddNumber(message, id);
  AddNumber(message, 0);  // a query, standard, no recursion
  AddNumber(message, 1);  // questions
  for (int section = 0; section < 3; section++) AddNumber(message, 0);
  const size_t length = name.ends_with('.') ? name.size() - 1 : name.size();
  for (size_t start = 0; start < length;) {
    const size_t end = std::min(name.find('.', start), length);
    message += static_cast<char>(end - start);
    message.append(name, start, end - start);
    start = end + 1;
  }
  message += '\0';
  AddNumber(message, type);
  AddNumber(message, kClassIn);
  return message;
}

std::optional<uint8_t> DnsRcode(std::string_view query, std::string_view message) {
  if (message.size() < kHeader || message.substr(0, 2) != query.substr(0, 2)) return std::nullopt;
  if ((static_cast<unsigned char>(message[2]) & kResponse) == 0) return std::nullopt;
  const auto rcode = static_cast<uint8_t>(static_cast<unsigned char>(message[3]) & kRcodeMask);
  const std::string_view question = query.substr(kHeader);
  // A server that cannot read a question (FORMERR) need not repeat it.
  if (message[4] == 0 && message[5] == 0) return rcode != 0 ? std::optional(rcode) : std::nullopt;
  if (message.size() < query.size()) return std::nullopt;
  const bool same =
      std::equal(question.begin(), question.end(), message.begin() + kHeader,
                 [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  return same ? std::optional(rcode) : std::nullopt;
}

}  // namespace spillway::health
