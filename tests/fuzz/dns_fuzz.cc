// SPDX-License-Identifier: Apache-2.0
// An answer to a health check's query: only one that repeats its question says that all is well.
#include <cstdlib>

#include "health/dns_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const std::string query = spillway::health::DnsQuery(0x1234, "h1.example.org", 1);
  const std::string message(reinterpret_cast<const char*>(bytes), size);
  const auto rcode = spillway::health::DnsRcode(query, message);
  if (rcode && (*rcode > 15 || (*rcode == 0 && size < query.size()))) std::abort();
  return 0;
}
