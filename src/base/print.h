// SPDX-License-Identifier: Apache-2.0
// Data to stdout, diagnostics to stderr. Nothing is thrown, so that a full disk or a reader that is gone ends
// no program that has files to write or something to take down: it goes on, and its exit code says at the end
// that output is lost (command/output.h, EndOutput). Nothing is buffered. Thread-safe; texts of several
// threads come whole, but for what a slow reader's pipe cuts.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace spillway::base {

// Whether all of it was written.
bool PrintText(std::string_view text);
// As PrintText, to stderr; what cannot be written there is nobody's to hear of.
void PrintErrorText(std::string_view text);

template <class... T>
void Print(fmt::format_string<T...> format, T&&... values) {
  PrintText(fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
void PrintError(fmt::format_string<T...> format, T&&... values) {
  PrintErrorText(fmt::format(format, std::forward<T>(values)...));
}

// errno of the first text that PrintText could not write; 0: there was none.
int OutputError();

// Before a program opens its first file: where stdin, stdout or stderr is closed, no file gets its number,
// and so nothing is printed into that file. What is printed there fails as it would have.
void HoldStandardStreams();

// Names and words of users in lines for a terminal: control characters, line ends among them, and bytes that
// are no UTF-8 as \x0a; the rest as it is. So a file's name, which may hold anything, neither ends an error's
// line nor drives the terminal.
[[nodiscard]] std::string Printable(std::string_view text);

}  // namespace spillway::base
