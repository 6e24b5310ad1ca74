// SPDX-License-Identifier: Apache-2.0
// The client side of the programs' APIs, over a UNIX socket or TCP.
//
// Threading: one thread at a time per Client.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/http/session.h"

namespace spillway::api {

inline constexpr const char* kDefaultSocket = "/run/spillway/api.sock";

struct Reply {
  int status = 0;
  std::string body;
};

// Whom a client asks.
struct Service {
  std::string address;  // the path of a UNIX socket, or ADDRESS:PORT
  bool is_tcp = false;
  std::string token = {};  // shown with each request, if any
  std::string program = "spillwayd";
  // Where nobody answers: how to name another.
  std::string hint = "--api sets another path (a testbed's: /run/spillway/lab/NAME/api.sock)";
  std::chrono::seconds patience{60};  // with changes: an apply of a large pool lays many rings
  size_t max_reply = 256 << 20;       // bytes; the largest are the metrics of tens of thousands of units
};

class Client {
 public:
  explicit Client(Service service);
  // spillwayd's.
  explicit Client(std::string socket_path);

  // `target`: path and query, percent-encoded. An error is no answer at all (kUnavailable: nobody
  // listens); an answer of any status is a Reply.
  [[nodiscard]] Result<Reply> Get(const std::string& target);
  [[nodiscard]] Result<Reply> Post(const std::string& target, const std::string& body);

  // The body of a 2xx answer, or the error it reports, with the cause it names.
  [[nodiscard]] static Result<std::string> Accept(const Result<Reply>& reply,
                                                  const std::string& program = "spillwayd");
  [[nodiscard]] const std::string& program() const { return service_.program; }
  // One path segment or query value, percent-encoded.
  static std::string Encode(const std::string& text);

 private:
  Result<Reply> Perform(const std::string& target, const std::string* body);

  const Service service_;
  http::Session session_;
};

}  // namespace spillway::api
