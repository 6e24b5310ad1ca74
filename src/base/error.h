// SPDX-License-Identifier: Apache-2.0
// Errors and results: the one header that spells tl::expected.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace spillway {

// What went wrong, by cause. kBadInput and kNotFound are the user's to mend (exit code 2); the rest are
// failures (1).
enum class ErrorCode {
  kBadInput,     // a file, an option or a request; the message names place, key and expectation
  kNotFound,     // a request names what is not there
  kUnavailable,  // the machine lacks a feature or a permission
  kConflict,     // another process holds what we need
  kSystem,       // an operation failed; the message carries operation, object and errno text
};

struct Error {
  ErrorCode code;
  std::string message;  // one line, no trailing period or newline; of a bad file, a line per problem
};

// As the API and `--json` write it.
inline const char* CodeWord(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadInput:
      return "bad_input";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kSystem:
      break;
  }
  return "system";
}

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::make_unexpected(Error{code, std::move(message)});
}

}  // namespace spillway
