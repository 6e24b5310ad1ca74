// SPDX-License-Identifier: Apache-2.0
// A DNS query of one question, and what its answer says (RFC 1035, section 4.1). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::health {

// `name`: labels of 1 to 63 bytes, 253 in all, with or without the last dot. Recursion is not desired.
std::string DnsQuery(uint16_t id, const std::string& name, uint16_t type);

// Gives a query another id.
void SetDnsId(std::string& query, uint16_t id);

// The RCODE of `message`, if it answers `query`: same id, a response, same question but for the case of its
// letters, or an error without a question. nullopt: it is something else, such as the answer to an earlier
// query.
std::optional<uint8_t> DnsRcode(std::string_view query, std::string_view message);

}  // namespace spillway::health
