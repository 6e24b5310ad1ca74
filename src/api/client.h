// SPDX-License-Identifier: Apache-2.0
// The API's client side, over a UNIX socket.
//
// Threading: one thread at a time per Client.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"

namespace spillway::api {

inline constexpr const char* kDefaultSocket = "/run/spillway/api.sock";

struct Reply {
  int status = 0;
  std::string body;
};

class Client {
 public:
  explicit Client(std::string socket_path);
  ~Client();

  // `target`: path and query, percent-encoded. An error is no answer at all (kUnavailable: nobody
  // listens); an answer of any status is a Reply.
  [[nodiscard]] Result<Reply> Get(const std::string& target);
  [[nodiscard]] Result<Reply> Post(const std::string& target, const std::string& body);

  // The body of a 2xx answer, or the error it reports, with the cause it names.
  [[nodiscard]] static Result<std::string> Accept(const Result<Reply>& reply);
  // One path segment or query value, percent-encoded.
  static std::string Encode(const std::string& text);

 private:
  Result<Reply> Perform(const std::string& target, const std::string* body);

  const std::string socket_path_;
  void* curl_;  // CURL*, kept over calls: one connection
};

}  // namespace spillway::api
