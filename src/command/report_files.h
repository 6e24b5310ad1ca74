// SPDX-License-Identifier: Apache-2.0
// What `--out DIR` leaves behind.
#pragma once

#include <string>

#include "report/document.h"
#include "report/html_page.h"

namespace spillway::command {

// A mistyped path makes no folders: what an option's file or folder is to lie in must be there. `path` empty:
// nothing to check.
[[nodiscard]] Result<void> CheckParent(const char* option, const std::string& path);

// DIR/report.html and DIR/report.json; nothing where no folder is given. `tell`: says where, on stdout.
[[nodiscard]] Result<void> WriteReport(const std::string& folder, const report::HtmlPage& page,
                                       const report::Document& document, bool tell);

}  // namespace spillway::command
