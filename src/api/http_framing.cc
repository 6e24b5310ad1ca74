// SPDX-License-Identifier: Apache-2.0
#include "http_framing.h"

#include <strings.h>

#include <cstring>
#include <string_view>

namespace spillway::api {
namespace {

// The headers by which servers tell where a request ends and whose it is.
struct Framing {
  int lengths = 0, codings = 0, authorizations = 0;
  bool has_space = false;         // between a name and its colon
  bool has_other_coding = false;  // than the one that is understood here
};

MHD_Result CountHeader(void* framing, MHD_ValueKind, const char* key, const char* value) {
  Framing& counts = *static_cast<Framing*>(framing);
  const std::string_view name(key);
  const size_t length = name.find_last_not_of(" \t") + 1;
  const auto is = [&](std::string_view known) {
    return length == known.size() && strncasecmp(key, known.data(), length) == 0;
  };
  int* const count = is(MHD_HTTP_HEADER_CONTENT_LENGTH)      ? &counts.lengths
                     : is(MHD_HTTP_HEADER_TRANSFER_ENCODING) ? &counts.codings
                     : is(MHD_HTTP_HEADER_AUTHORIZATION)     ? &counts.authorizations
                                                             : nullptr;
  if (count == nullptr) return MHD_YES;
  ++*count;
  if (count == &counts.codings && (value == nullptr || strcasecmp(value, "chunked") != 0))
    counts.has_other_coding = true;
  counts.has_space = counts.has_space || length != name.size();
  return MHD_YES;
}

}  // namespace

const char* Ambiguity(MHD_Connection* connection) {
  Framing counts;
  MHD_get_connection_values(connection, MHD_HEADER_KIND, CountHeader, &counts);
  if (counts.has_space) return "expected no space after a header's name";
  if (counts.lengths + counts.codings > 1)
    return "expected one Content-Length or one Transfer-Encoding, got more";
  if (counts.has_other_coding) return "expected Transfer-Encoding: chunked, or none";
  if (counts.authorizations > 1) return "expected one Authorization, got more";
  return nullptr;
}

size_t Unescape(void*, MHD_Connection*, char* text) {
  constexpr std::string_view kNul = "%00";
  size_t length = 0;
  for (char* part = text;;) {
    char* const nul = std::strstr(part, kNul.data());
    if (nul != nullptr) *nul = '\0';
    const size_t decoded = MHD_http_unescape(part);
    std::memmove(text + length, part, decoded);
    length += decoded;
    if (nul == nullptr) break;
    length += kNul.copy(text + length, kNul.size());
    part = nul + kNul.size();
  }
  text[length] = '\0';
  return length;
}

}  // namespace spillway::api
