// SPDX-License-Identifier: Apache-2.0
// Where a request ends, and what it asks for: read so that a proxy before this server cannot have read
// anything else.
#pragma once

#include <microhttpd.h>

#include <cstddef>

namespace spillway::api {

// What a proxy may have read otherwise (RFC 9112, 6.3): then where a request ends is a matter of opinion, and
// what follows could be another's. nullptr: all is plain.
[[nodiscard]] const char* Ambiguity(MHD_Connection* connection);

// For MHD_OPTION_UNESCAPE_CALLBACK: decodes in place, but for %00, as what is served must not end before what
// was asked for does. Returns the length.
size_t Unescape(void*, MHD_Connection*, char* text);

}  // namespace spillway::api
